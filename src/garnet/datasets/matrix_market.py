"""Graphs in Matrix Market files."""

from __future__ import annotations

import io
import re
from typing import BinaryIO

from garnet.datasets.limits import require_memory, require_plausible
from garnet.errors import GraphError
from garnet.graph import Graph, as_graph

_BANNER = re.compile(
    rb"%%matrixmarket +matrix +(coordinate|array) +([a-z-]+) +([a-z-]+)[ \t\r]*\n"
    rb"((?:[ \t]*(?:%[^\n]*)?\r?\n)*)([^\n]*)",
    re.IGNORECASE,
)
_SHORTEST_ENTRY = {b"coordinate": len("1 1\n"), b"array": len("1\n")}


def read_matrix_market(data: bytes, symmetrize: bool) -> Graph:
    """Read a square matrix of real numbers, integers or a pattern, general or symmetric.

    SciPy allocates what the header declares, so the header is held against the length of the text first.
    """
    from scipy.io import mmread

    if not (header := _BANNER.match(data)):
        raise GraphError(
            "it does not begin with a Matrix Market header such as '%%MatrixMarket matrix coordinate real general'."
        )
    layout, field, symmetry = (header[i].lower() for i in (1, 2, 3))
    if field not in (b"real", b"double", b"integer", b"unsigned-integer", b"pattern"):
        raise GraphError(f"it holds {field.decode()} entries, which cannot be edge weights.")
    if symmetry not in (b"general", b"symmetric"):
        raise GraphError(f"it holds a {symmetry.decode()} matrix, which cannot be an undirected graph.")
    sizes = header[5].split()
    if len(sizes) != (3 if layout == b"coordinate" else 2) or not all(size.isdigit() for size in sizes):
        raise GraphError(
            "its line of sizes is malformed; it must give rows, columns and, for a sparse matrix, entries."
        )
    # Longer numbers than this mean nothing and Python refuses to convert the longest.
    rows, columns, *rest = (int(size[:25]) for size in sizes)
    if rows != columns:
        raise GraphError(f"an adjacency matrix must be square. Got shape ({rows}, {columns}) instead.")
    stored = rest[0] if rest else rows * (rows + 1) // 2 if symmetry == b"symmetric" else rows * rows
    if stored * _SHORTEST_ENTRY[layout] > len(data) - header.end() + 1:
        raise GraphError(f"it declares {stored} entries, more than its {len(data)} bytes can hold.")
    require_plausible(rows, stored, "rows")
    if layout == b"array":
        require_memory(8 * rows * rows, "it")

    # A banner of our own: SciPy insists on its capitals, and cuts the decimals off entries declared to be integers.
    kind = b"pattern" if field == b"pattern" else b"real"
    banner = b"%%MatrixMarket matrix " + b" ".join((layout, kind, symmetry)) + b"\n"
    try:
        matrix = mmread(io.BytesIO(banner + data[header.start(4) :]))
    except (ValueError, OverflowError, TypeError) as error:
        raise GraphError(f"its entries are malformed ({error}).") from error
    return as_graph(matrix, symmetrize=symmetrize)


def write_matrix_market(graph: Graph, stream: BinaryIO) -> None:
    """Write the adjacency as a symmetric coordinate matrix, its weights in as many digits as make them exact."""
    from scipy.io import mmwrite

    unweighted = bool((graph.adjacency.data == 1).all())
    mmwrite(stream, graph.adjacency, field="pattern" if unweighted else "real", symmetry="symmetric", precision=9)
