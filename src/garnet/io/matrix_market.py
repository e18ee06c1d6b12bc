"""Graphs in Matrix Market files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.checks import RowIs, checked_pairs
from garnet.io.edge_source import EdgeSource, GraphArrays
from garnet.io.limits import require_plausible
from garnet.io.text import parse_table, read_text, reading

Triple = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | None]
"""The row, the column and the number of each entry; None if all numbers are one."""

_BANNER = re.compile(
    rb"%%matrixmarket +matrix +(coordinate|array) +([a-z-]+) +([a-z-]+)[ \t\r]*\n"
    rb"(?:[ \t]*(?:%[^\n]*)?\r?\n)*([^\n]*)",
    re.IGNORECASE,
)


def open_matrix_market(path: Path) -> EdgeSource:
    """A square matrix of real numbers, integers or a pattern, general or symmetric; read in one go.

    Not by SciPy's `mmread`, which crashes the interpreter on some malformed files.
    """
    with reading(path):
        n, mirrored, entries = _read(read_text(path))
        pairs = checked_pairs(*entries, n)
    row_is: RowIs = "edge" if mirrored else "direction"
    return EdgeSource(edges=lambda _: iter([pairs]), num_nodes=n, row_is=row_is, path=path)


def _read(data: bytes) -> tuple[int, bool, Triple]:
    """The size of a matrix, whether an entry stands for its mirror image too, and the entries."""
    if not (header := _BANNER.match(data)):
        raise GraphError("it does not begin with a header such as '%%MatrixMarket matrix coordinate real general'.")
    layout, field, symmetry = (header[i].lower() for i in (1, 2, 3))
    if field not in (b"real", b"double", b"integer", b"unsigned-integer", b"pattern"):
        raise GraphError(f"it holds {field.decode()} entries, which cannot be edge weights.")
    if symmetry not in (b"general", b"symmetric"):
        raise GraphError(f"it holds a {symmetry.decode()} matrix, which cannot be an undirected graph.")
    sizes = header[4].split()
    if len(sizes) != (3 if layout == b"coordinate" else 2) or not all(size.isdigit() for size in sizes):
        raise GraphError("its line of sizes is malformed; it must give rows, columns and, if sparse, entries.")
    # Numbers longer than this mean nothing, and Python refuses to convert the longest.
    rows, columns, *rest = (int(size[:25]) for size in sizes)
    if rows != columns:
        raise GraphError(f"an adjacency matrix must be square. Got shape ({rows}, {columns}) instead.")
    mirrored = symmetry == b"symmetric"
    stored = rest[0] if rest else rows * (rows + 1) // 2 if mirrored else rows * rows
    require_plausible(rows, stored, "rows")

    try:
        body = data[header.end() :]
        if layout == b"coordinate":
            return rows, mirrored, _coordinate(body, rows, stored, weighted=field != b"pattern")
        return rows, mirrored, _array(body, rows, stored, mirrored)
    except ValueError as error:
        raise GraphError(f"its entries are malformed: {' '.join(str(error).split())}.") from error


def _coordinate(body: bytes, n: int, stored: int, *, weighted: bool) -> Triple:
    table = _entries(body, stored, "i8,i8,f8" if weighted else "i8,i8")
    rows, cols = table["f0"], table["f1"]
    if stored and (min(rows.min(), cols.min()) < 1 or max(rows.max(), cols.max()) > n):
        raise ValueError(f"an index lies outside of 1 to {n}")
    return rows - 1, cols - 1, table["f2"] if weighted else None


def _array(body: bytes, n: int, stored: int, mirrored: bool) -> Triple:
    """The non-zero entries of all, which come column by column; only the lower half for a symmetric matrix."""
    values = _entries(body, stored, "f8")
    if values.ndim != 1:
        raise ValueError("a line has several entries")
    places = np.flatnonzero(values)
    if mirrored:
        starts = np.cumsum(np.arange(n, 0, -1)) - np.arange(n, 0, -1)
        cols = np.searchsorted(starts, places, side="right") - 1
        rows = places - starts[cols] + cols
    else:
        cols, rows = np.divmod(places, max(n, 1))
    return rows, cols, values[places]


def _entries(body: bytes, stored: int, dtype: str) -> NDArray[Any]:
    table = parse_table(body, dtype) if body.strip() else np.zeros(0, dtype)
    if len(table) != stored:
        raise ValueError(f"there are {len(table)} but {stored} are declared")
    return table


def write_matrix_market(graph: GraphArrays, stream: BinaryIO) -> None:
    """Write the adjacency as a symmetric coordinate matrix, with enough digits to keep its weights exact."""
    from scipy.io import mmwrite

    unweighted = bool((graph.adjacency.data == 1).all())
    mmwrite(stream, graph.adjacency, field="pattern" if unweighted else "real", symmetry="symmetric", precision=9)
