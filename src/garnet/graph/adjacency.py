"""The one place where pairs of nodes become an adjacency matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.checks import RowIs, checked_pairs, checked_size, proper_pairs, require_undirected, same_weights
from garnet.io.table_layout import Duplicates


def build_adjacency(
    rows: NDArray[Any], cols: NDArray[Any], weights: NDArray[Any], n: Any, symmetrize: bool
) -> sp.csr_array:
    """The matrix of weighted, possibly directed, possibly repeated pairs, by the rules of `as_graph`.

    Args:
        rows: (m,) first nodes.
        cols: (m,) second nodes.
        weights: (m,) weights.
        n: number of nodes.
        symmetrize: give each edge both directions and the larger of its two weights.

    Returns:
        (n, n) float32; symmetric, finite, positive entries, no self-loops, sorted indices.

    Raises:
        GraphError: the pairs do not make such a graph; the message says why.
    """
    n = checked_size(n)
    return join_pairs(*checked_pairs(rows, cols, weights, n), n, "edge" if symmetrize else "direction").adjacency


@dataclass(frozen=True)
class Merged:
    """What became of the pairs.

    Attributes:
        adjacency: (n, n) float32 CSR.
        loops: pairs of a node with itself, which are no edges.
        zeros: other pairs of weight zero, which are not edges either.
        repeated: pairs that were given before in the same direction.
    """

    adjacency: sp.csr_array
    loops: int
    zeros: int
    repeated: int


def join_pairs(
    heads: NDArray[Any],
    tails: NDArray[Any],
    weights: NDArray[np.float32] | None,
    n: int,
    row_is: RowIs,
    duplicates: Duplicates = "max",
) -> Merged:
    """The same for pairs that have been checked.

    Args:
        heads: (m,) first nodes.
        tails: (m,) second nodes.
        weights: (m,) weights; None if all are one.
        n: number of nodes.
        row_is: what a pair stands for; if an edge, it gets both directions.
        duplicates: how to merge several pairs of the same nodes. Where both directions of every pair are given with the
            same weights, they are two rows for one edge whatever the rule.
    """
    keep = proper_pairs(heads, tails, weights)
    loops = int((heads == tails).sum())
    heads, tails = heads[keep], tails[keep]
    values = np.ones(len(heads), np.float32) if weights is None else weights[keep]
    matrix = sp.coo_array((values, (heads, tails)), shape=(n, n)).tocsr()
    repeated = len(values) - matrix.nnz
    if repeated or duplicates == "count":
        matrix = _one_of_repeated(heads.astype(np.int64), tails.astype(np.int64), values, n, duplicates)
    matrix.sort_indices()
    loops_zeros_repeated = loops, len(keep) - len(values) - loops, repeated

    reverse = matrix.T.tocsr()
    reverse.sort_indices()
    both_ways = np.array_equal(matrix.indptr, reverse.indptr) and np.array_equal(matrix.indices, reverse.indices)
    if both_ways and np.array_equal(matrix.data, reverse.data):
        return Merged(matrix, *loops_zeros_repeated)
    stored_twice = both_ways and same_weights(matrix.data, reverse.data)
    if row_is != "edge":
        one_way = 0 if both_ways else matrix.nnz - (matrix.astype(bool) * reverse.astype(bool)).nnz
        require_undirected(matrix.nnz, one_way, both_ways and not stored_twice, row_is)
    if duplicates == "first" and not stored_twice:
        low, high = np.minimum(heads, tails).astype(np.int64), np.maximum(heads, tails).astype(np.int64)
        matrix = _one_of_repeated(low, high, values, n, duplicates)
        reverse = matrix.T.tocsr()
    both = matrix.maximum(reverse) if duplicates == "max" or stored_twice else matrix + reverse
    _require_finite(both.data)
    return Merged(both.tocsr(), *loops_zeros_repeated)


def _one_of_repeated(
    rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float32], n: int, duplicates: Duplicates
) -> sp.csr_array:
    order = np.lexsort((cols, rows))
    rows, cols, weights = rows[order], cols[order], weights[order]
    first = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(cols) != 0)))[: len(rows)]
    if duplicates == "max":
        merged = np.maximum.reduceat(weights, first) if len(first) else weights
    elif duplicates == "sum":
        merged = np.add.reduceat(weights.astype(np.float64), first) if len(first) else weights
    else:
        merged = weights[first] if duplicates == "first" else np.diff(np.append(first, len(rows)))
    with np.errstate(over="ignore"):
        merged = merged.astype(np.float32)
    _require_finite(merged)
    return sp.coo_array((merged, (rows[first], cols[first])), shape=(n, n)).tocsr()


def _require_finite(merged: NDArray[Any]) -> None:
    if not np.isfinite(merged).all():
        raise GraphError("The weights of repeated edges add up to more than 32 bits can hold; rescale them.")
