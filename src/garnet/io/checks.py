"""What the arrays of a graph must be, and the sentence that reports where they are not."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.arrays import as_array, is_sparse_tensor, sound_matrix
from garnet.io.limits import require_memory

Pairs = tuple[NDArray[Any], NDArray[Any], NDArray[np.float32] | None]
"""The two endpoints of some pairs, and their weights; None if all weights are one."""

Parts = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Nodes for training, validation and testing."""

RowIs = Literal["direction", "either", "edge"]
"""What a pair stands for: one direction of an edge, whose reverse must be there too; or an edge; or either of the two:
an edge if no pair is given in both directions, as in most edge lists."""


def checked_size(n: Any) -> int:
    """A number of nodes that this machine could hold."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 0 <= n < 2**63:
        got = repr(n)[:40] if isinstance(n, int | float | str) else type(n).__name__
        raise GraphError(f"The number of nodes must be an integer >= 0. Got {got} instead.")
    # Whatever the edges: the row pointers of the matrix, of its transpose, and of SciPy's intermediate result.
    require_memory(32 * int(n), f"A graph of {n} nodes")
    return int(n)


def checked_pairs(
    heads: NDArray[Any],
    tails: NDArray[Any],
    weights: NDArray[Any] | None,
    n: int | None,
    column: str = "",
    row: int = 0,
) -> Pairs:
    """Pairs of existing nodes, with finite weights >= 0 in 32 bits.

    Args:
        heads: (m,) first endpoints.
        tails: (m,) second endpoints.
        weights: (m,) any numbers; None if all are one.
        n: number of nodes; None if the endpoints are names.
        column: for a table, the column of the weights, to locate a faulty one.
        row: for a table, the row of the first pair.

    Raises:
        GraphError: they are not; the message says which one.
    """
    if weights is not None:
        if weights.shape != heads.shape:
            raise GraphError(
                f"Each of {len(heads)} edges needs one weight. Got weights of shape {weights.shape} instead."
            )
        if weights.dtype.kind not in "biuf":
            raise GraphError(f"Edge weights must be numbers. Got dtype {weights.dtype} instead.")
    if n is not None:
        _require_nodes(heads, n)
        _require_nodes(tails, n)
    return heads, tails, None if weights is None else _checked_weights(weights, column, row)


def _require_nodes(ends: NDArray[Any], n: int) -> None:
    if ends.size and ends.dtype.kind not in "iu":
        raise GraphError(f"Node numbers must be integers. Got dtype {ends.dtype} instead.")
    if ends.size and not (ends.min() >= 0 and ends.max() < n):
        bad = ends[(ends < 0) | (ends >= n)][0]
        raise GraphError(f"Node {bad} does not exist: the graph has {n} nodes, numbered 0 to {n - 1}.")


def are_weights(numbers: NDArray[Any]) -> bool:
    """Whether numbers are all finite in 32 bits, and none of them negative."""
    return bool(((numbers >= 0) & (numbers <= np.finfo(np.float32).max)).all())


def _checked_weights(given: NDArray[Any], column: str, row: int) -> NDArray[np.float32]:
    def at(faulty: NDArray[np.bool_]) -> str:
        return f" in row {row + faulty.argmax()}, counted from 0, of column {column!r}" if column else ""

    with np.errstate(over="ignore", under="ignore"):
        weights = given.astype(np.float32, copy=False)
    endless = ~np.isfinite(weights)
    if endless.any():
        raise GraphError(f"The graph has weights that are NaN or infinite{at(endless)}; remove or repair them.")
    if (weights < 0).any():
        raise GraphError(
            f"Edge weights must not be negative. Got {weights[weights < 0][0]:g}{at(weights < 0)}; take magnitudes or "
            "drop them."
        )
    if ((weights == 0) & (given != 0)).any():
        least = np.abs(given[given != 0]).min()
        raise GraphError(
            f"The graph has a weight of {least:g}, which 32 bits cannot tell from zero; rescale the weights."
        )
    return weights


def proper_pairs(heads: NDArray[Any], tails: NDArray[Any], weights: NDArray[np.float32] | None) -> NDArray[np.bool_]:
    """Which pairs are edges: loops and zero weights are not."""
    proper: NDArray[np.bool_] = heads != tails
    return proper if weights is None else proper & (weights > 0)


def require_undirected(pairs: int, one_way: int, weights_differ: bool, row_is: RowIs) -> None:
    """Refuse a directed graph.

    Args:
        pairs: ordered pairs of nodes, each counted once.
        one_way: those whose reverse is missing.
        weights_differ: whether any pair and its reverse have different weights.
        row_is: what such a pair stands for.

    Raises:
        GraphError: it is directed.
    """
    if row_is == "edge" or (row_is == "either" and one_way == pairs) or not (one_way or weights_differ):
        return
    trouble = (
        f"{one_way} of its {pairs} edges have no reverse edge"
        if one_way
        else "some edges and their reverse have different weights"
    )
    raise GraphError(
        f"The graph is directed: {trouble}. Symmetrize it (symmetrize=True, or --symmetrize) to keep every edge in "
        "both directions."
    )


def same_weights(there: NDArray[np.float32], back: NDArray[np.float32]) -> bool:
    """Whether the weights of edges and of their reverses differ by no more than rounding."""
    return np.allclose(there, back, rtol=1e-5, atol=0)


def checked_features(features: Any, n: int) -> sp.csr_array | NDArray[np.float32]:
    """Features as finite 32-bit numbers, dense or CSR, one row for each of n nodes."""
    if sp.issparse(features) or is_sparse_tensor(features):
        matrix = sound_matrix(features, "Features")
    else:
        matrix = as_array(features, "Features")
    if matrix.ndim != 2 or matrix.shape[0] != n:
        raise GraphError(f"Features must have shape ({n}, d), a row for each node. Got {matrix.shape} instead.")
    if matrix.dtype.kind not in "biuf":
        raise GraphError(f"Features must be numbers. Got dtype {matrix.dtype} instead.")
    with np.errstate(over="ignore"):
        matrix = matrix.astype(np.float32, copy=False)
    if sp.issparse(matrix):
        matrix = sp.csr_array(matrix)
    if not np.isfinite(matrix.data if sp.issparse(matrix) else matrix).all():
        raise GraphError("The features have entries that are NaN or infinite; remove or repair them.")
    return matrix


def most_classes(different: int) -> int:
    """How many classes this many different labels may stand for; some classes may have no node in a part of a graph."""
    return 1000 + 10 * different


def are_classes(labels: NDArray[Any]) -> bool:
    """Whether integers number classes; models have an output for each, so one absurd number would blow them up."""
    largest = int(labels.max(initial=0))
    return largest < most_classes(0) or largest < most_classes(len(np.unique(labels)))


def checked_labels(labels: Any, n: int) -> NDArray[np.int64]:
    """The classes of n nodes, -1 where unknown."""
    array = as_array(labels, "Labels")
    if array.shape != (n,):
        raise GraphError(f"Labels must have shape ({n},), one for each node. Got {array.shape} instead.")
    if array.dtype.kind not in "iu":
        raise GraphError(f"Labels must be integers, negative where unknown. Got dtype {array.dtype} instead.")
    if not are_classes(array):
        raise GraphError(
            f"Labels must number the classes from 0. Got {array.max()} among {len(np.unique(array))} different labels; "
            "renumber them without large gaps."
        )
    return np.maximum(array.astype(np.int64), -1)


def checked_label_names(names: Any, labels: NDArray[np.int64] | None) -> NDArray[np.str_]:
    """The names of the classes: a distinct text for each number among the labels, and perhaps more."""
    array = as_array(names, "The names of labels")
    if array.ndim != 1 or array.dtype.kind != "U":
        raise GraphError(
            f"The names of labels must be texts, one for each class. Got shape {array.shape}, dtype {array.dtype} "
            "instead."
        )
    if labels is not None and len(array) <= labels.max(initial=-1):
        raise GraphError(f"There are {len(array)} names of labels, and none for class {labels.max()}.")
    if len(np.unique(array)) < len(array):
        raise GraphError("Two classes have the same name; the names of labels must differ.")
    return array


def checked_split(split: tuple[Any, Any, Any], n: int) -> Parts:
    """Three disjoint sets of the n nodes."""
    parts = [as_array(part, "A split") for part in split]
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in parts):
        raise GraphError("A split must be three one-dimensional arrays of node numbers.")
    train, val, test = (part.astype(np.int64) for part in parts)
    nodes = np.concatenate([train, val, test])
    outside = nodes[(nodes < 0) | (nodes >= n)]
    if len(outside):
        raise GraphError(
            f"A split must hold node numbers from 0 to {n - 1}. Got {outside[0]}; it may be that of another graph."
        )
    counts = np.bincount(nodes, minlength=1)
    if counts.max() > 1:
        raise GraphError(
            f"A split names a node twice, such as {counts.argmax()}; training, validation and test nodes must be "
            "disjoint."
        )
    return train, val, test


def checked_sides(sides: Any, n: int) -> NDArray[np.bool_]:
    """The side of each of n nodes of a bipartite graph, true for the second.

    Args:
        sides: how many nodes are on the first side, which come first; or (n,) booleans.
        n: number of nodes.
    """
    if isinstance(sides, int | np.integer) and not isinstance(sides, bool):
        if not 0 <= sides <= n:
            raise GraphError(f"The first side of a bipartite graph must have 0 to {n} nodes. Got {sides} instead.")
        return np.arange(n) >= sides
    array = as_array(sides, "The sides of a bipartite graph")
    if array.shape != (n,) or array.dtype.kind != "b":
        raise GraphError(
            f"The sides of a bipartite graph must be the number of nodes of the first, or {n} booleans, true for the "
            f"second. Got shape {array.shape}, dtype {array.dtype} instead."
        )
    return array


def require_across(sides: NDArray[np.bool_], heads: NDArray[Any], tails: NDArray[Any]) -> None:
    """Refuse a bipartite graph in which an edge joins two nodes of one side."""
    within = np.flatnonzero(sides[heads] == sides[tails])
    if len(within):
        one, other = heads[within[0]], tails[within[0]]
        raise GraphError(
            f"The graph is not bipartite: nodes {one} and {other} are of the same side and joined, as are the ends of "
            f"{len(within)} of its edges in all; correct its sides, or leave them out."
        )


def checked_names(names: Any, n: int) -> NDArray[Any] | None:
    """Distinct integers or texts for n nodes; None if they are the node numbers."""
    array = as_array(names, "Names")
    if array.shape != (n,) or array.dtype.kind not in "iuU":
        raise GraphError(f"Names must be {n} integers or texts. Got shape {array.shape}, dtype {array.dtype} instead.")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    # NumPy stores any number as a character, and fails only when Python reads it.
    if array.dtype.kind == "U" and np.ascontiguousarray(array).view(np.uint32).max(initial=0) > sys.maxunicode:
        raise GraphError("Names must be texts, and one of them has a letter that Unicode does not have.")
    if len(np.unique(array)) < n:
        raise GraphError("Two nodes have the same name; names must be distinct.")
    return None if array.dtype.kind != "U" and np.array_equal(array, np.arange(n)) else array
