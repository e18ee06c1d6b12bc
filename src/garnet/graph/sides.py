"""The two sides of a bipartite graph: whether its edges determine them, and whether a graph looks bipartite."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from garnet.errors import BipartiteWarning, GraphError

EVEN_CYCLES = 10
"""A graph with at least this many independent cycles, all of them even, looks bipartite: in a graph without sides each
would be odd about half of the time, so this many even ones come by chance once in a thousand times."""
_FEW = 1 << 15  # nodes around the one with most neighbours, checked before all others


def told_sides(adjacency: sp.csr_array) -> NDArray[np.bool_]:
    """The sides of a graph whose edges leave no doubt about them: it is bipartite and connected.

    Nodes without edges are on the first side, and so is the first node that has any.

    Raises:
        GraphError: the edges do not determine the sides.
    """
    sides = two_colouring(adjacency)
    if sides is None:
        raise GraphError("The graph is not bipartite: it has a cycle of odd length; leave 'bipartite' out.")
    joined = np.diff(adjacency.indptr) > 0
    count, piece = connected_components(adjacency, directed=False)
    if len(np.unique(piece[joined])) > 1:
        raise GraphError(
            f"The edges of a graph in {count} pieces do not tell which node is of which side; say how many nodes the "
            "first side has, or give booleans: as_graph(graph, bipartite=...)."
        )
    told: NDArray[np.bool_] = joined & (sides != sides[joined.argmax()]) if len(joined) else sides
    return told


def two_colouring(adjacency: sp.csr_array) -> NDArray[np.bool_] | None:
    """A 2-colouring of the nodes in which every edge joins two sides, component by component; None if there is none.

    In the double cover, where an edge joins a node of the first copy to one of the second, a bipartite component falls
    in two, and any other stays whole.
    """
    n = adjacency.shape[0]
    twice = sp.csr_array(
        (
            np.ones(2 * adjacency.nnz, np.int8),
            np.concatenate([adjacency.indices.astype(np.int64) + n, adjacency.indices]),
            np.concatenate([adjacency.indptr, adjacency.indptr[1:].astype(np.int64) + adjacency.nnz]),
        ),
        shape=(2 * n, 2 * n),
    )
    _, piece = connected_components(twice, directed=False)
    first, second = piece[:n], piece[n:]
    joined = np.diff(adjacency.indptr) > 0
    if (first == second)[joined].any():
        return None
    sides: NDArray[np.bool_] = (first > second) & joined
    return sides


def looks_bipartite(adjacency: sp.csr_array) -> NDArray[np.bool_] | None:
    """The sides of a graph whose cycles are all even, and too many for chance; None for any other."""
    n = adjacency.shape[0]
    if n > _FEW:
        hub = int(np.diff(adjacency.indptr).argmax())
        near = np.append(adjacency[[hub]].indices[: _FEW // 2], hub)
        some = np.unique(np.append(near, adjacency[near[:64]].indices[: _FEW // 2]))
        if two_colouring(adjacency[some][:, some]) is None:
            return None  # a part that is not bipartite is enough, and cheaper
    sides = two_colouring(adjacency)
    if sides is None:
        return None
    pieces, _ = connected_components(adjacency, directed=False)
    return sides if adjacency.nnz // 2 - n + pieces >= EVEN_CYCLES else None


def warn_of_sides(given: sp.csr_array, cleaned: sp.csr_array) -> None:
    """Warn of edges within a side of a graph that looks bipartite, though it was not marked as such.

    Args:
        given: the adjacency of the input graph.
        cleaned: that of the purified graph.
    """
    sides = looks_bipartite(given)
    if sides is None:
        return
    heads = np.repeat(np.arange(cleaned.shape[0]), np.diff(cleaned.indptr))
    within = int((sides[heads] == sides[cleaned.indices]).sum()) // 2
    if within:
        warnings.warn(
            f"The graph looks bipartite, as all its cycles are even, with sides of {(~sides).sum()} and {sides.sum()} "
            f"nodes, but {within} of the purified edges join two nodes of one side. If it is, say so: "
            "as_graph(graph, bipartite=...); or add nothing, with only_drop.",
            BipartiteWarning,
            stacklevel=3,
        )
