"""Lists of edges in Parquet: one file, or a folder of them as Dask and Spark write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.datasets.edge_list import HEADERS, listed_graph
from garnet.datasets.text import reading
from garnet.errors import GraphError, MissingExtra
from garnet.graph import Graph
from garnet.limits import require_memory, require_plausible

Piece = tuple[Path, Any, Any, NDArray[Any] | None]
"""A file, the ends of some of its rows, arrays of integers or lists of texts, and weights; None if it has none."""

NUM_NODES = b"garnet:num_nodes"
"""A key of the schema's metadata: the number of nodes, in digits, where nodes are known by numbers from 0 on."""

# The columns of a list in memory, their concatenation, and what proving the adjacency symmetric holds.
_BYTES_A_ROW = 120
_AT_ONCE = 1 << 20
_INDEX = re.compile(r"__index_level_\d+__")  # which pandas writes beside the columns of a table


@dataclass(frozen=True, kw_only=True)
class ParquetList:
    """A list of edges in Parquet whose rows have not been read.

    Attributes:
        files: the parts in the order of their names, or the one file.
        columns: of the two ends and, if there are three, of weights; the same in all parts.
        num_rows: of all parts.
        num_nodes: where the metadata give it, which all parts then do alike; None where the ends are names.
    """

    files: tuple[Path, ...]
    columns: tuple[str, ...]
    num_rows: int
    num_nodes: int | None

    @classmethod
    def open(cls, path: Path) -> ParquetList:
        """What the ends of the files, where Parquet has its headers, tell.

        Ends are in the columns source, target (or src, dst and so on), or else in the first two; weights in the column
        weight, or in the third of three.

        Raises:
            GraphError: a file is not a whole Parquet file, has no such columns, or other ones than those before it.
            MissingExtra: pyarrow is not installed.
        """
        with reading(path):
            files = parts_of(path)
        found = [_header(file) for file in files]
        columns, _, num_nodes = found[0]
        for file, (others, _, number) in zip(files, found, strict=True):
            with reading(file):
                if others != columns:
                    raise GraphError(
                        f"its columns are {', '.join(others)} where those of {files[0].name} are {', '.join(columns)}."
                    )
                if number != num_nodes:
                    raise GraphError(f"it gives the number of nodes as {number} where {files[0].name} has {num_nodes}.")
        num_rows = sum(rows for _, rows, _ in found)
        with reading(path):
            require_plausible(num_nodes or 0, num_rows, "nodes")
        return cls(files=files, columns=columns, num_rows=num_rows, num_nodes=num_nodes)

    def pieces(self, at_once: int, *, only_integers: bool) -> Iterator[Piece]:
        """The rows, at most so many at a time, each piece with the file that it is in.

        Args:
            at_once: rows of a piece, at most.
            only_integers: refuse names that are texts, which come as lists.
        """
        for file in self.files:
            with _opened(file) as rows:
                for batch in rows.iter_batches(batch_size=at_once, columns=list(self.columns), use_threads=False):
                    heads, tails = (_names(batch.column(name), name, only_integers) for name in self.columns[:2])
                    weights = [_weights(batch.column(name), name) for name in self.columns[2:]]
                    yield file, heads, tails, weights[0] if weights else None


def parts_of(path: Path) -> tuple[Path, ...]:
    """The file itself; or of a folder the files that end in .parquet, but for those that begin with _ or a dot.

    Raises:
        GraphError: a purification into the folder is unfinished.
    """
    if not path.is_dir():
        return (path,)
    if (path / "_work" / "run.json").exists():
        raise GraphError("it is a table that is being written, or whose run was stopped; repeat that first.")
    parts = (file for file in path.iterdir() if file.suffix.lower() == ".parquet" and file.name[0] not in "_.")
    return tuple(sorted(parts))


def read_parquet(path: Path, symmetrize: bool) -> Graph:
    """Read a list of edges by the rules that `load_graph` states for those in text."""
    found = ParquetList.open(path)
    with reading(path):
        require_memory(_BYTES_A_ROW * found.num_rows, "it")
    pieces = list(found.pieces(_AT_ONCE, only_integers=found.num_nodes is not None))
    heads, tails = ([piece[end] for piece in pieces] for end in (1, 2))
    weights = [np.ones(len(piece[1])) if piece[3] is None else piece[3].astype(np.float64) for piece in pieces]
    with reading(path):
        columns = _joined(heads), _joined(tails), np.concatenate([np.zeros(0), *weights])
        return listed_graph(columns, symmetrize, found.num_nodes, texts_stay=True)


def _joined(pieces: list[Any]) -> Any:
    """One array of integers, or one list of texts."""
    if any(isinstance(piece, list) for piece in pieces):
        return [str(name) for piece in pieces for name in piece]
    return np.concatenate([np.zeros(0, np.int64), *pieces])


def _names(column: Any, name: str, only_integers: bool) -> Any:
    numbers = _values(column, name)
    kind = numbers.dtype.kind
    if kind == "i" or (kind == "u" and numbers.max(initial=0) < 2**63):
        return numbers.astype(np.int64, copy=False)
    if not only_integers and kind == "O" and all(isinstance(cell, str) for cell in numbers):
        return numbers.tolist()
    raise GraphError(
        f"its column '{name}' has type {column.type}; the names of nodes must be integers of 64 bits, or without a "
        "memory limit texts."
    )


def _weights(column: Any, name: str) -> NDArray[Any]:
    numbers = _values(column, name)
    if numbers.dtype.kind not in "biuf":
        raise GraphError(f"its column '{name}' of weights has type {column.type}, which is no number.")
    return numbers


def _values(column: Any, name: str) -> NDArray[Any]:
    if column.null_count:
        raise GraphError(f"its column '{name}' has missing values.")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _header(file: Path) -> tuple[tuple[str, ...], int, int | None]:
    """The columns that count, the number of rows, and that of nodes if it is there."""
    with _opened(file) as rows:
        number = (rows.schema_arrow.metadata or {}).get(NUM_NODES)
        if number is not None and not (number.isdigit() and len(number) <= 18):
            raise GraphError(f"its metadata give the number of nodes as {number[:40]!r}, which is no number.")
        return _columns(rows.schema_arrow.names), rows.metadata.num_rows, None if number is None else int(number)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "A Parquet file", "pygarnet[parquet]") from error
    with reading(file):
        try:
            # By default whole groups of rows, of any size, would be read ahead.
            with parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as rows:
                yield rows
        except arrow.ArrowException as error:
            raise GraphError(f"it is not a whole Parquet file ({' '.join(str(error).split())}).") from error


def _columns(names: list[str]) -> tuple[str, ...]:
    """The columns of both ends and, if there is one, of weights."""
    names = [name for name in names if not _INDEX.fullmatch(name)]
    lower = [name.lower() for name in names]
    pair = next((pair for pair in HEADERS if set(pair) <= set(lower)), None)
    ends = [names[lower.index(end)] for end in pair] if pair else names[:2]
    if len(ends) < 2:
        raise GraphError(f"it has {len(names)} column(s); an edge list needs two, and may have a third of weights.")
    others = [name for name in names if name not in ends]
    weights = [name for name in others if name.lower() == "weight"] or (others if len(others) == 1 else [])
    return (*ends, *weights[:1])
