"""Graphs in Matrix Market files."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.graph import Graph, as_graph
from garnet.io.limits import require_plausible
from garnet.io.text import parse_table

_BANNER = re.compile(
    rb"%%matrixmarket +matrix +(coordinate|array) +([a-z-]+) +([a-z-]+)[ \t\r]*\n"
    rb"(?:[ \t]*(?:%[^\n]*)?\r?\n)*([^\n]*)",
    re.IGNORECASE,
)


def read_matrix_market(data: bytes, symmetrize: bool) -> Graph:
    """Read a square matrix of real numbers, integers or a pattern, general or symmetric.

    Not by SciPy's `mmread`, which crashes the interpreter on some malformed files.
    """
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
    # Longer numbers than this mean nothing, and Python refuses to convert the longest.
    rows, columns, *rest = (int(size[:25]) for size in sizes)
    if rows != columns:
        raise GraphError(f"an adjacency matrix must be square. Got shape ({rows}, {columns}) instead.")
    mirrored = symmetry == b"symmetric"
    stored = rest[0] if rest else rows * (rows + 1) // 2 if mirrored else rows * rows
    require_plausible(rows, stored, "rows")

    try:
        if layout == b"coordinate":
            matrix = _coordinate(data[header.end() :], rows, stored, "i8,i8" if field == b"pattern" else "i8,i8,f8")
        else:
            matrix = _array(data[header.end() :], rows, stored, mirrored)
    except ValueError as error:
        raise GraphError(f"its entries are malformed: {' '.join(str(error).split())}.") from error
    return as_graph(matrix, symmetrize=symmetrize or mirrored)


def _coordinate(body: bytes, n: int, stored: int, dtype: str) -> sp.coo_array:
    table = _entries(body, stored, dtype)
    rows, cols = table["f0"], table["f1"]
    weights = table["f2"] if "f8" in dtype else np.ones(stored)
    if stored and (min(rows.min(), cols.min()) < 1 or max(rows.max(), cols.max()) > n):
        raise ValueError(f"an index lies outside of 1 to {n}")
    return sp.coo_array((weights, (rows - 1, cols - 1)), shape=(n, n))


def _array(body: bytes, n: int, stored: int, mirrored: bool) -> sp.coo_array:
    """Of all entries, which come column by column, those that are not zero; of a symmetric matrix the lower half."""
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
    return sp.coo_array((values[places], (rows, cols)), shape=(n, n))


def _entries(body: bytes, stored: int, dtype: str) -> NDArray[Any]:
    table = parse_table(body, dtype) if body.strip() else np.zeros(0, dtype)
    if len(table) != stored:
        raise ValueError(f"there are {len(table)} but {stored} are declared")
    return table


def write_matrix_market(graph: Graph, stream: BinaryIO) -> None:
    """Write the adjacency as a symmetric coordinate matrix, its weights in as many digits as make them exact."""
    from scipy.io import mmwrite

    unweighted = bool((graph.adjacency.data == 1).all())
    mmwrite(stream, graph.adjacency, field="pattern" if unweighted else "real", symmetry="symmetric", precision=9)
