"""The one place where pairs of nodes become an adjacency matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.limits import require_memory


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
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 0 <= n < 2**63:
        got = repr(n)[:40] if isinstance(n, int | float | str) else type(n).__name__
        raise GraphError(f"The number of nodes must be an integer >= 0. Got {got} instead.")
    n = int(n)
    # Whatever the edges: the row pointers of the matrix, of its transpose, and of what SciPy holds between the two.
    require_memory(32 * n, f"A graph of {n} nodes")
    if weights.shape != rows.shape:
        raise GraphError(f"Each of {len(rows)} edges needs one weight. Got weights of shape {weights.shape} instead.")
    if weights.dtype.kind not in "biuf":
        raise GraphError(f"Edge weights must be numbers. Got dtype {weights.dtype} instead.")
    for ends in (rows, cols):
        if ends.size and ends.dtype.kind not in "iu":
            raise GraphError(f"Node numbers must be integers. Got dtype {ends.dtype} instead.")
        if ends.size and not (ends.min() >= 0 and ends.max() < n):
            bad = ends[(ends < 0) | (ends >= n)][0]
            raise GraphError(f"Node {bad} does not exist: the graph has {n} nodes, numbered 0 to {n - 1}.")
    given = weights
    with np.errstate(over="ignore", under="ignore"):
        weights = weights.astype(np.float32)
    if not np.isfinite(weights).all():
        raise GraphError("The graph has weights that are NaN or infinite; remove or repair them.")
    if (weights < 0).any():
        raise GraphError(f"Edge weights must not be negative. Got {weights.min():g}; take magnitudes or drop them.")
    if ((weights == 0) & (given != 0)).any():
        least = np.abs(given[given != 0]).min()
        raise GraphError(
            f"The graph has a weight of {least:g}, which 32 bits cannot tell from zero; rescale the weights."
        )

    keep = (rows != cols) & (weights > 0)
    rows, cols, weights = rows[keep], cols[keep], weights[keep]
    matrix = sp.coo_array((weights, (rows, cols)), shape=(n, n)).tocsr()
    if matrix.nnz < len(weights):
        matrix = _largest_of_repeated(rows.astype(np.int64), cols.astype(np.int64), weights, n)
    matrix.sort_indices()

    reverse = matrix.T.tocsr()
    reverse.sort_indices()
    if not (np.array_equal(matrix.indptr, reverse.indptr) and np.array_equal(matrix.indices, reverse.indices)):
        one_way = matrix.nnz - (matrix.astype(bool) * reverse.astype(bool)).nnz
        trouble = f"{one_way} of its {matrix.nnz} edges have no reverse edge"
    elif not np.allclose(matrix.data, reverse.data, rtol=1e-5, atol=0):
        trouble = "some edges and their reverse have different weights"
    else:
        return matrix if np.array_equal(matrix.data, reverse.data) else matrix.maximum(reverse)
    if symmetrize:
        return matrix.maximum(reverse).tocsr()
    raise GraphError(
        f"The graph is directed: {trouble}. Symmetrize it (symmetrize=True, or --symmetrize) to keep every edge in "
        "both directions."
    )


def _largest_of_repeated(
    rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float32], n: int
) -> sp.csr_array:
    order = np.lexsort((cols, rows))
    rows, cols, weights = rows[order], cols[order], weights[order]
    first = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(cols) != 0)))
    largest = np.maximum.reduceat(weights, first)
    return sp.coo_array((largest, (rows[first], cols[first])), shape=(n, n)).tocsr()
