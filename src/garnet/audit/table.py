"""Tables of an audit: a file, .csv or .parquet for large ones, and what a notebook shows."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GarnetError, MissingExtra
from garnet.io.atomic import atomic_path
from garnet.io.targets import require_file


def save_table(columns: Mapping[str, NDArray[Any]], path: str | Path) -> None:
    """Write columns of one length, whole or not at all.

    Args:
        columns: by name, in order.
        path: the file; its ending, .csv or .parquet, says how.

    Raises:
        GarnetError: of another ending, or where there is no such folder.
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
            writer.writerows(zip(*(_shown(column) for column in columns.values()), strict=True))
        return
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "A Parquet table", "pygarnet[parquet]") from error
    with atomic_path(path) as unfinished:
        pq.write_table(pa.table({name: pa.array(_encodable(column)) for name, column in columns.items()}), unfinished)


def require_table(path: Path) -> None:
    """Refuse, before any work is done, a file that could not be written."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise GarnetError(f"A table of an audit is a .csv or a .parquet file. Got {path.name!r} instead.")
    require_file(path)


def _shown(column: NDArray[Any]) -> list[Any]:
    """Six digits of a number are enough to read, and to rank."""
    return (
        [f"{value:.6g}" for value in column.tolist()] if np.issubdtype(column.dtype, np.floating) else column.tolist()
    )


def _encodable(column: NDArray[Any]) -> NDArray[Any]:
    """Halves of a pair of code units, which no text file can hold, become question marks."""
    if column.dtype.kind != "U":
        return column
    return np.array([text.encode("utf-8", "replace").decode() for text in column.tolist()], dtype=np.str_)
