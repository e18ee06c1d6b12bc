"""The largest entries of each row of personalised PageRank, without forming all n x n numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.linalg.sparse import SparseMatrix

# Entries of the exact rows are accurate to this.
_TOLERANCE = 1e-6
# On 256 rows of ogbn-arxiv, alpha 0.1, the 64 entries kept with this error have 99.9 % of the sum of the largest 64.
_ERROR = 3e-4
# Multiplications beyond which rows are approximated: under a minute of one core.
_MOST_PRODUCTS, _MOST_ON_GPU = 4e11, 4e13
# Numbers in a block of columns: what a CPU's cache holds; a GPU needs more.
_BLOCK, _BLOCK_ON_GPU = 1 << 20, 1 << 28
# Numbers in a block of approximated rows.
_BLOCK_OF_PUSHES = 1 << 24


def top_pagerank(
    adjacency: sp.csr_array, *, alpha: float, k: int, error: float | None = None, device: str = "cpu"
) -> sp.csr_array:
    r"""The k largest entries of each row of :math:`\alpha (I - (1 - \alpha) S)^{-1}`, unscaled.

    :math:`S = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}` is the matrix of a GCN, with a loop of weight one at every node.

    Args:
        adjacency: symmetric and not negative, without loops.
        alpha: probability of return, above 0 and at most 1.
        k: most entries to keep; a row has fewer in a component with fewer nodes.
        error: None is exact to 1e-6 where that is cheap, by Chebyshev iteration over blocks of columns, and an error of
            3e-4 elsewhere. A number approximates by pushes, with at most that error times the root of the degree of the
            entry's column: cheap on the largest graphs, since the work for a row does not grow with the graph.
        device: where exact rows are computed; approximate ones are always computed on the CPU.
    """
    n = adjacency.shape[0]
    looped = sp.csr_array(adjacency.astype(np.float64) + sp.eye_array(n, format="csr"))
    degrees = np.asarray(looped.sum(axis=1)).ravel()
    root = sp.diags_array(1 / np.sqrt(degrees))
    matrix = sp.csr_array(root @ looped @ root).astype(np.float32)
    most = _MOST_PRODUCTS if device == "cpu" else _MOST_ON_GPU
    if error is None and float(n) * (matrix.nnz + 5 * n) * _steps(alpha) > most:
        error = _ERROR
    if error is None:
        return _exact(matrix, alpha, min(k, n), device)
    pushes = _Pushes(matrix, np.sqrt(degrees).astype(np.float32) * np.float32(error), alpha)
    parts = [pushes.top(np.arange(first, min(first + pushes.together, n)), k) for first in range(0, n, pushes.together)]
    return sp.csr_array(sp.vstack(parts, format="csr"))


def _steps(alpha: float, tolerance: float = _TOLERANCE) -> int:
    """Steps of Chebyshev iteration to a tolerance, from its rate for a spectrum within 1 +- (1 - alpha)."""
    radius = 1 - alpha
    rate = radius / (1 + math.sqrt(1 - radius**2))
    return 1 + math.ceil(math.log(2 / tolerance) / -math.log(rate)) if rate else 1


def spread(product: Callable[[Tensor], Tensor], block: Tensor, alpha: float, tolerance: float = _TOLERANCE) -> Tensor:
    r""":math:`\alpha (I - (1 - \alpha) S)^{-1} B` by Chebyshev iteration, for a symmetric S of norm one.

    Args:
        product: multiplies :math:`(1 - \alpha) S` with a block.
        block: B, (n, c).
        alpha: probability of return.
        tolerance: error, relative to B.
    """
    radius, given = 1 - alpha, alpha * block
    before, weight = given, 2.0
    now = given + product(given)
    for _ in range(_steps(alpha, tolerance)):
        weight = 1 / (1 - radius**2 * weight / 4)
        after = product(now).add_(given).mul_(weight).add_(before, alpha=1 - weight)
        before, now = now, after
    return now


def columns_together(n: int, device: str) -> int:
    """How many columns of n numbers to solve for at a time."""
    return max(1, (_BLOCK if device == "cpu" else _BLOCK_ON_GPU) // max(n, 1))


def _exact(matrix: sp.csr_array, alpha: float, k: int, device: str) -> sp.csr_array:
    """Solves for a block of columns at a time; the matrix is symmetric, so they are rows."""
    n, radius = matrix.shape[0], 1 - alpha
    product = SparseMatrix(matrix * np.float32(radius), device, symmetric=True, learnt=False)
    width = columns_together(n, device)
    values, columns = [], []
    for first in range(0, n, width):
        nodes = torch.arange(first, min(first + width, n), device=device)
        block = torch.zeros(n, len(nodes), device=device)
        block[nodes, nodes - first] = 1.0
        top = spread(product.__matmul__, block, alpha).T.contiguous().topk(k, dim=1)
        values.append(top.values.cpu())
        columns.append(top.indices.cpu())
    data, indices = torch.cat(values).numpy().ravel(), torch.cat(columns).numpy().ravel()
    rows = sp.csr_array((np.where(data > _TOLERANCE, data, 0), indices, np.arange(0, n * k + 1, k)), shape=(n, n))
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


class _Pushes:
    r"""The pushes of Andersen, Chung and Lang (FOCS 2006), for many rows at a time.

    A residual R begins as rows of I. While an entry is at least `least`, at its column, it is taken out of R, added to
    P, and :math:`1 - \alpha` times it goes back to R spread by S. Throughout, :math:`\Pi = \alpha P + R \Pi`. What
    remains in the end counts as if it were spread no further: with R below :math:`\epsilon \sqrt{d_j}`, and since
    :math:`S \sqrt d = \sqrt d`, every entry is too small by at most :math:`\epsilon \sqrt{d_j}`.

    R and P are dense for the few rows at hand, but never scanned: only the pushes cost work.
    """

    def __init__(self, matrix: sp.csr_array, least: NDArray[np.float32], alpha: float) -> None:
        self._spread, self._least, self._alpha = matrix * np.float32(1 - alpha), least, alpha
        self.together = min(matrix.shape[0], max(1, _BLOCK_OF_PUSHES // max(matrix.shape[0], 1)))
        self._residual = np.zeros(self.together * matrix.shape[0], dtype=np.float32)
        self._noted = np.zeros_like(self._residual)

    def top(self, nodes: NDArray[np.int64], k: int) -> sp.csr_array:
        """The k largest entries of the rows of these nodes, no more than `together` of them."""
        n, residual, noted = len(self._least), self._residual, self._noted
        shape, bounds = (len(nodes), n), np.arange(len(nodes) + 1) * n
        places = bounds[:-1] + nodes
        residual[places] = 1
        touched = [places]
        while len(places):
            amounts = residual[places]
            residual[places] = 0
            noted[places] += amounts
            moved = sp.csr_array((amounts, places % n, np.searchsorted(places, bounds)), shape=shape)
            arrived = moved @ self._spread
            places = np.repeat(bounds[:-1], np.diff(arrived.indptr)) + arrived.indices
            before = residual[places]
            residual[places] = after = before + arrived.data
            touched.append(places[before == 0])
            places = np.sort(places[after >= self._least[arrived.indices]])
        places = np.sort(np.concatenate(touched))
        places = places[np.diff(places, prepend=-1) > 0]
        values = self._alpha * (residual[places] + noted[places])
        residual[places] = noted[places] = 0
        rows, starts = places // n, np.searchsorted(places, bounds)
        largest = np.lexsort((-values, rows))[np.arange(len(places)) - starts[rows] < k]
        kept = np.sort(largest)
        return sp.csr_array((values[kept], places[kept] % n, np.searchsorted(places[kept], bounds)), shape=shape)
