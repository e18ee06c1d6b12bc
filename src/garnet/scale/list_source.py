"""Lists of edges in text or Parquet, read piece by piece."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.datasets.edge_list import _DTYPES, _HEADERS, _INTEGER, _fits, _lines, _quick, _rows, _weight
from garnet.datasets.text import reading
from garnet.errors import GraphError, MissingExtra
from garnet.scale.edge_source import Chunk, EdgeSource, checked_pairs

_LONGEST_LINE = 1 << 20
_SHORTEST_ROW = 4
_NAMES = "with a memory limit the names of nodes must be integers of 64 bits"


def text_source(path: Path, delimiter: str | None) -> EdgeSource:
    """Rows `u, v` or `u, v, weight` by the rules that `load_graph` states, with integers for names."""

    def edges(at_once: int) -> Iterator[Chunk]:
        with reading(path):
            try:
                # As no row is shorter, no piece has more rows than wanted.
                for heads, tails, weights in _tables(path, delimiter, _SHORTEST_ROW * at_once):
                    yield checked_pairs(heads, tails, weights, None)
            except csv.Error as error:
                raise GraphError(f"its rows are malformed ({error}).") from error

    return EdgeSource(edges=edges, nodes=None, one_row_an_edge=True, path=path)


def parquet_source(path: Path) -> EdgeSource:
    """The columns of integers source, target (or src, dst and so on) or else the first two; and of weights.

    Weights are in the column `weight`, or the last where there are three.
    """
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "A Parquet file", "pygarnet[parquet]") from error

    def edges(at_once: int) -> Iterator[Chunk]:
        with reading(path):
            try:
                # By default whole groups of rows, of any size, would be read ahead.
                with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
                    names = _columns(file.schema_arrow.names)
                    for batch in file.iter_batches(batch_size=at_once, columns=names, use_threads=False):
                        heads, tails, *weights = (_numbers(batch.column(name), name, names[:2]) for name in names)
                        yield checked_pairs(heads, tails, weights[0] if weights else None, None)
            except arrow.ArrowException as error:
                raise GraphError(f"it is not a whole Parquet file ({error}).") from error

    return EdgeSource(edges=edges, nodes=None, one_row_an_edge=True, path=path)


def _tables(path: Path, delimiter: str | None, size: int) -> Iterator[tuple[NDArray[Any], NDArray[Any], Any]]:
    """The columns of each piece of a text."""
    first_row: list[str] = []
    found = 0
    for line, text in _pieces(path, size):
        if not first_row:
            start = next((line for line in _lines(text) if line.strip()), None)
            if start is None:
                continue
            if delimiter is None:
                delimiter = next((mark for mark in "\t," if mark in start), " ")
            _, first_row = next(_rows(text, delimiter))
            if len(first_row) not in _DTYPES:
                raise GraphError(f"its first row has {len(first_row)} column(s); rows must be u,v or u,v,weight.")
            has_header = not any(map(_INTEGER.fullmatch, first_row[:2]))
            columns = _quick(text, first_row, delimiter) or _integers(text, line, len(first_row), delimiter, has_header)
        else:
            row = ["0"] * len(first_row)
            columns = _quick(text, row, delimiter or " ") or _integers(text, line, len(row), delimiter or " ", False)
        found += len(columns[0])
        yield columns
    if not first_row:
        raise GraphError("it has no edges.")
    if not found and tuple(cell.lower() for cell in first_row[:2]) not in _HEADERS:
        raise GraphError(f"its only row has the name {first_row[0][:40]!r}; {_NAMES}.")


def _integers(
    text: bytes, line: int, width: int, delimiter: str, has_header: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The columns of a piece in which there is something that NumPy does not take, or what that is."""
    rows = [(line + number - 1, cells) for number, cells in _rows(text, delimiter)][has_header:]
    for number, cells in rows:
        if len(cells) != width:
            raise GraphError(f"line {number} has {len(cells)} column(s) where the first row has {width}.")
        bad = next((cell for cell in cells[:2] if not _fits(cell)), None)
        if bad is not None:
            raise GraphError(f"line {number} has the name {bad[:40]!r}; {_NAMES}.")
    heads, tails = (np.array([int(cells[end]) for _, cells in rows], np.int64) for end in (0, 1))
    weights = [_weight(cells[2], number) if width == 3 else 1.0 for number, cells in rows]
    return heads, tails, np.array(weights, np.float64)


def _pieces(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """The text in pieces of whole lines, each with the number of its first."""
    line, rest = 1, b""
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as stream:
            rest = stream.read(3).removeprefix(b"\xef\xbb\xbf")
            while chunk := stream.read(size):
                text = rest + chunk
                if b"\0" in text:
                    raise GraphError("it holds NUL bytes, so it is not a text file.")
                # A carriage return at the very end may be the first half of the end of a line.
                end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
                if not end and len(text) > _LONGEST_LINE:
                    raise GraphError(f"it has a line of more than {_LONGEST_LINE} characters.")
                rest = text[end:]
                if end:
                    yield line, text[:end]
                    line += len(text[:end].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")) - 1
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise GraphError(f"it is not a whole gzip file ({error}).") from error
    if rest:
        yield line, rest


def _columns(names: list[str]) -> list[str]:
    """The columns of both ends and, if there is one, of weights."""
    lower = [name.lower() for name in names]
    pair = next((pair for pair in _HEADERS if set(pair) <= set(lower)), None)
    ends = [names[lower.index(end)] for end in pair] if pair else names[:2]
    if len(ends) < 2:
        raise GraphError(f"it has {len(names)} column(s); an edge list needs two, and may have a third of weights.")
    others = [name for name in names if name not in ends]
    weights = [name for name in others if name.lower() == "weight"] or (others if len(others) == 1 else [])
    return [*ends, *weights[:1]]


def _numbers(column: Any, name: str, ends: list[str]) -> NDArray[Any]:
    """A column of names or weights."""
    if column.null_count:
        raise GraphError(f"its column '{name}' has missing values.")
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    kind = numbers.dtype.kind
    if name not in ends and kind not in "biuf":
        raise GraphError(f"its column '{name}' of weights has type {column.type}, which is no number.")
    if name in ends and (kind not in "iu" or (kind == "u" and numbers.max(initial=0) >= 2**63)):
        raise GraphError(f"its column '{name}' has type {column.type}; {_NAMES}.")
    return numbers
