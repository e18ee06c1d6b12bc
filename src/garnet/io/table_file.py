"""Tables for people and other programs: .csv, or .parquet for large ones."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GarnetError, MissingExtra
from garnet.io.atomic import atomic_path
from garnet.io.targets import require_file
from garnet.io.text import reading

_ROWS_AT_ONCE = 1 << 14


def save_table(columns: Mapping[str, NDArray[Any]], path: str | Path) -> None:
    """Write columns of equal length, whole or not at all; masked values are left empty.

    Args:
        columns: by name, in order.
        path: the file; its extension, .csv or .parquet, gives the format.

    Raises:
        GarnetError: the extension is another, or there is no such folder.
    """
    path = Path(path)
    require_table(path)
    if path.suffix.lower() == ".csv":
        with (
            atomic_path(path) as unfinished,
            unfinished.open("w", encoding="utf-8", errors="replace", newline="") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(columns)
            for part in _parts(columns):
                writer.writerows(zip(*map(_shown, part), strict=True))
        return
    pa, pq = _parquet()
    with atomic_path(path) as unfinished:
        shown = {name: pa.array(_encodable(column), mask=_mask(column)) for name, column in columns.items()}
        pq.write_table(pa.table(shown), unfinished)


def read_tables(
    files: Iterable[Path], like: Mapping[str, NDArray[Any]], size: int = 1 << 18
) -> Iterator[dict[str, NDArray[Any]]]:
    """Read what `save_table` wrote to some files, some rows at a time.

    Args:
        files: the files, all .csv or all .parquet.
        like: columns with these names and the types of those in the files: integers, numbers or text.
        size: rows at a time.

    Raises:
        GraphError: a file cannot be read.
    """
    for file in files:
        with reading(file):
            if file.suffix.lower() == ".csv":
                with file.open(encoding="utf-8", newline="") as stream:
                    rows = csv.reader(stream)
                    next(rows, None)
                    while some := list(islice(rows, size)):
                        found = zip(like.items(), zip(*some, strict=True), strict=True)
                        yield {name: _typed(column, one) for (name, one), column in found}
                continue
            with _parquet()[1].ParquetFile(file) as table:
                for batch in table.iter_batches(batch_size=size):
                    yield {name: batch.column(name).to_numpy(zero_copy_only=False) for name in like}


def _typed(texts: tuple[str, ...], like: NDArray[Any]) -> NDArray[Any]:
    return np.array(texts, dtype=object if like.dtype.kind in "OU" else like.dtype)


def require_table(path: Path, what: str = "A table") -> None:
    """Refuse, before any work is done, a file that could not be written.

    Args:
        path: the file.
        what: what it is to hold.

    Raises:
        GarnetError: it has another extension, cannot be written, or needs a package that is not installed.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise GarnetError(f"{what} is written to a .csv or a .parquet file. Got {path.name!r} instead.")
    require_file(path)
    if path.suffix.lower() == ".parquet":
        _parquet()


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "A Parquet table", "pygarnet[parquet]") from error
    return pa, pq


def _parts(columns: Mapping[str, NDArray[Any]]) -> Iterator[list[NDArray[Any]]]:
    """Some rows at a time: as text they take many times the memory they take as numbers."""
    rows = max((len(column) for column in columns.values()), default=0)
    for first in range(0, rows, _ROWS_AT_ONCE):
        yield [column[first : first + _ROWS_AT_ONCE] for column in columns.values()]


def _shown(column: NDArray[Any]) -> list[Any]:
    """Six digits are enough for reading and ranking; masked values and NaN have no text."""
    values: list[Any] = column.tolist()
    if np.issubdtype(column.dtype, np.floating):
        return [None if value is None or value != value else f"{value:.6g}" for value in values]
    return values


def _mask(column: NDArray[Any]) -> NDArray[np.bool_] | None:
    return np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None


def _encodable(column: NDArray[Any]) -> NDArray[Any]:
    """Lone surrogates, which no text file can hold, become question marks."""
    column = np.ma.getdata(column)
    if column.dtype.kind != "U":
        return column
    return np.array([text.encode("utf-8", "replace").decode() for text in column.tolist()], dtype=np.str_)
