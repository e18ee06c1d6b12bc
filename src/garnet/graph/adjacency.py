"""The one place where pairs of nodes become an adjacency matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.io.checks import RowIs, checked_pairs, checked_size, proper_pairs, require_undirected, same_weights


def build_adjacency(
    rows: NDArray[Any], cols: NDArray[Any], weights: NDArray[Any], n: Any, symmetrize: bool
) -> sp.csr_array:
    """The matrix of weighted, possibly directed, possibly repeated pairs, by the rule that `as_graph` states.

    Args:
        rows: (m,) first nodes.
        cols: (m,) second nodes.
        weights: (m,) weights.
        n: number of nodes.
        symmetrize: give each edge both directions and the larger of its two weights.

    Returns:
        (n, n) float32; symmetric, finite, positive entries, no self-loops, sorted indices.

    Raises:
        GraphError: the pairs are no such graph; the message says why.
    """
    n = checked_size(n)
    return join_pairs(*checked_pairs(rows, cols, weights, n), n, "edge" if symmetrize else "direction")


def join_pairs(
    heads: NDArray[Any], tails: NDArray[Any], weights: NDArray[np.float32] | None, n: int, row_is: RowIs
) -> sp.csr_array:
    """The same of pairs that have been checked.

    Args:
        heads: (m,) first nodes.
        tails: (m,) second nodes.
        weights: (m,) weights; None if all are one.
        n: number of nodes.
        row_is: what a pair is; those that are edges get both directions.
    """
    keep = proper_pairs(heads, tails, weights)
    heads, tails = heads[keep], tails[keep]
    values = np.ones(len(heads), np.float32) if weights is None else weights[keep]
    matrix = sp.coo_array((values, (heads, tails)), shape=(n, n)).tocsr()
    if matrix.nnz < len(values):
        matrix = _largest_of_repeated(heads.astype(np.int64), tails.astype(np.int64), values, n)
    matrix.sort_indices()

    reverse = matrix.T.tocsr()
    reverse.sort_indices()
    both_ways = np.array_equal(matrix.indptr, reverse.indptr) and np.array_equal(matrix.indices, reverse.indices)
    if both_ways and np.array_equal(matrix.data, reverse.data):
        return matrix
    if row_is != "edge":
        one_way = 0 if both_ways else matrix.nnz - (matrix.astype(bool) * reverse.astype(bool)).nnz
        differ = both_ways and not same_weights(matrix.data, reverse.data)
        require_undirected(matrix.nnz, one_way, differ, row_is)
    return matrix.maximum(reverse).tocsr()


def _largest_of_repeated(
    rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float32], n: int
) -> sp.csr_array:
    order = np.lexsort((cols, rows))
    rows, cols, weights = rows[order], cols[order], weights[order]
    first = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(cols) != 0)))
    largest = np.maximum.reduceat(weights, first)
    return sp.coo_array((largest, (rows[first], cols[first])), shape=(n, n)).tocsr()
