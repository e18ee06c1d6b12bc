"""Graphlet degree vectors: how many small subgraphs a node is in, and at which position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.graph.graph import Graph

ORBITS = (
    "edge", "end of a path of 3", "middle of a path of 3", "triangle", "end of a path of 4", "inside a path of 4",
    "leaf of a star of 4", "centre of a star of 4", "cycle of 4", "tail of a paw", "side of a paw", "joint of a paw",
    "tip of a diamond", "waist of a diamond",
)  # fmt: skip
"""What the columns count, numbered as by Przulj (2007); the next one there, the clique of 4, is left out.

A paw is a triangle with a tail: its joint has the tail, its sides do not. A diamond is a cycle of 4 with one chord: its
waist has the chord, its tips do not.
"""

_CHUNK = 1 << 24  # walks of two steps processed together


def graphlet_degrees(graph: Graph) -> NDArray[np.float64]:
    r"""(n, 14) the count of each of `ORBITS` at each node; edge weights do not matter.

    A subgraph counts whether or not its nodes have further edges among them: four nodes of a clique are three cycles.
    Induced counts are linear combinations of these and of the cliques of 4, which no product of sparse matrices gives.
    With A the adjacency, d its degrees and :math:`C = A \odot A^2` the common neighbours of each edge's endpoints, all
    counts are sums over edges except the cycles, which need the other entries of :math:`A^2`, and the tips of diamonds,
    :math:`\operatorname{diag}(A (C - A) A) / 2`; both are computed a few rows at a time.
    """
    edges = graph.adjacency.sign().astype(np.float64)
    degrees = np.asarray(edges.sum(axis=1)).ravel()
    shared, cycles = _common_neighbours(edges, degrees)
    triangles = np.asarray(shared.sum(axis=1)).ravel() / 2
    others = np.maximum(degrees - 1, 0)
    around = edges @ others
    counts = (
        degrees,
        around,
        _pairs(degrees),
        triangles,
        edges @ around - degrees * others - 2 * triangles,
        others * around - 2 * triangles,
        edges @ _pairs(others),
        _pairs(degrees) * (degrees - 2) / 3,
        cycles,
        edges @ triangles - 2 * triangles,
        shared @ (degrees - 2),
        triangles * (degrees - 2),
        _tips(edges, degrees, shared),
        _sums_of_pairs(shared),
    )
    return np.stack(counts, axis=1)


def _pairs(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return counts * (counts - 1) / 2


def _sums_of_pairs(counts: sp.csr_array) -> NDArray[np.float64]:
    """The pairs that each entry counts, summed over each row."""
    pairs = sp.csr_array((_pairs(counts.data), counts.indices, counts.indptr), shape=counts.shape)
    return np.asarray(pairs.sum(axis=1)).ravel()


def _common_neighbours(edges: sp.csr_array, degrees: NDArray[np.float64]) -> tuple[sp.csr_array, NDArray[np.float64]]:
    """The common neighbours of each edge's endpoints, and the 4-cycles through each node."""
    shared, cycles = [], []
    for rows in _blocks(edges, degrees):
        walks = sp.csr_array(edges[rows] @ edges)
        shared.append(walks.multiply(edges[rows]))
        # Two walks to the same node make a cycle, unless they return to where they began.
        cycles.append(_sums_of_pairs(walks) - _pairs(degrees[rows]))
    return sp.csr_array(sp.vstack(shared, format="csr")), np.concatenate(cycles)


def _tips(edges: sp.csr_array, degrees: NDArray[np.float64], shared: sp.csr_array) -> NDArray[np.float64]:
    """Diamonds with each node as a tip: its triangles, times the others on the side that faces it."""
    facing = sp.csr_array(shared - shared.sign())
    sums = [
        np.asarray((edges[rows] @ facing).multiply(edges[rows]).sum(axis=1)).ravel() for rows in _blocks(edges, degrees)
    ]
    return np.concatenate(sums) / 2


def _blocks(edges: sp.csr_array, degrees: NDArray[np.float64]) -> Iterator[slice]:
    """Blocks of rows with not too many walks of two steps."""
    walks = np.cumsum(edges @ degrees)
    first = 0
    while first < len(degrees):
        reached = walks[first - 1] if first else 0.0
        last = max(first + 1, int(np.searchsorted(walks, reached + _CHUNK, side="right")))
        yield slice(first, last)
        first = last
