"""The largest entries of personalised PageRank, with gradients to the weights of edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from garnet.linalg.pagerank import columns_together, spread
from garnet.linalg.sparse import SparseRows, WeightedMatrix

# Edges that weigh less are not walked; their derivatives are those at a weight of zero.
_LEAST_WEIGHT = 0.01
# Errors of the solutions, values and derivatives: single precision, and double.
_TOLERANCES = {torch.float32: (1e-6, 1e-4), torch.float64: (1e-13, 1e-13)}


def weighted_pagerank(edges: Tensor, weights: Tensor, n: int, *, alpha: float, k: int) -> tuple[Tensor, Tensor]:
    r"""The k largest entries of each row of :math:`\Pi = \alpha (I - (1 - \alpha) S)^{-1}`, as in `top_pagerank`.

    The choice of the largest entries is held fixed at these weights; gradients flow through their values, exactly, by
    :math:`d \Pi = \frac{1 - \alpha}{\alpha} \Pi \, dS \, \Pi`. That derivative reaches all pairs, edges or not, and is
    computed some columns at a time, so nothing has n x n numbers; the work grows with the square of n.

    If there are very many pairs, most have weights near zero, and a walk over all of them would take seconds. Edges
    below 0.01 are therefore treated as absent: they have derivatives, at weight zero, but their small weight is
    ignored.

    Args:
        edges: (2, m) undirected, no loops.
        weights: (m,), not negative.
        n: number of nodes.
        alpha: probability of return.
        k: entries of each row, at most n.

    Returns:
        (n, k) columns and (n, k) values; zero where a component has fewer nodes than k.
    """
    # Their value is dropped, their derivative stays.
    weights = weights - torch.where(weights < _LEAST_WEIGHT, weights, 0.0).detach()
    matrix = WeightedMatrix.normalized(edges, weights, n)
    columns, values = _largest(matrix, matrix.values, alpha, min(k, n))
    return columns, values


class _Walk(NamedTuple):
    """Products with (1 - alpha) S, over its non-zero entries."""

    rows: SparseRows
    alpha: float
    tolerance: float

    def spread(self, block: Tensor) -> Tensor:
        return spread(self.rows.product, block, self.alpha, self.tolerance)


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: WeightedMatrix, values: Tensor, alpha: float, k: int) -> tuple[Tensor, Tensor]:
        ctx.matrix, ctx.alpha = matrix, alpha
        n, (tolerance, _) = matrix.shape[0], _TOLERANCES[values.dtype]
        walk = _walk(matrix, values, alpha, tolerance)
        columns, largest = [], []
        for nodes in _some_nodes(n, values.device):
            # The matrix is symmetric, so its columns are its rows.
            top = walk.spread(_ones_at(nodes, n, values)).T.contiguous().topk(k, dim=1)
            columns.append(top.indices)
            largest.append(torch.where(top.values > _TOLERANCES[torch.float32][0], top.values, 0.0))
        found, entries = torch.cat(columns), torch.cat(largest)
        ctx.mark_non_differentiable(found)
        ctx.save_for_backward(values, found, entries)
        return found, entries

    @staticmethod
    def backward(ctx: Any, _: Tensor, gradient: Tensor) -> tuple[None, Tensor, None, None]:
        matrix, alpha, (values, found, entries) = ctx.matrix, ctx.alpha, ctx.saved_tensors
        n, k = found.shape
        starts = torch.arange(0, n * k + 1, k, device=values.device)
        asked = torch.where(entries > 0, gradient, 0.0).flatten()
        gradients = SparseRows(starts, found.flatten(), asked, n)
        walk = _walk(matrix, values, alpha, _TOLERANCES[values.dtype][1])
        parts = []
        for nodes in _some_nodes(n, values.device):
            block = walk.spread(gradients.product(walk.spread(_ones_at(nodes, n, values))))
            first, last = int(nodes[0]), int(nodes[-1]) + 1
            some = slice(int(matrix.starts[first]), int(matrix.starts[last]))
            # Entry (j, i) in place of (i, j): as S is symmetric, both have the same origin.
            places = matrix.columns[some] * len(nodes) + (matrix.rows[some] - first)
            parts.append(block.contiguous().view(-1).index_select(0, places))
        return None, torch.cat(parts) * ((1 - alpha) / alpha), None, None


# Torch does not type `apply`.
_largest: Callable[[WeightedMatrix, Tensor, float, int], tuple[Tensor, Tensor]] = _Largest.apply


def _walk(matrix: WeightedMatrix, values: Tensor, alpha: float, tolerance: float) -> _Walk:
    there = values != 0
    n = matrix.shape[0]
    rows = matrix.rows[there]
    starts = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    return _Walk(SparseRows(starts, matrix.columns[there], (1 - alpha) * values[there], n), alpha, tolerance)


def _some_nodes(n: int, device: torch.device) -> Sequence[Tensor]:
    return torch.split(torch.arange(n, device=device), columns_together(n, device.type))


def _ones_at(nodes: Tensor, n: int, like: Tensor) -> Tensor:
    """(n, c) columns of the identity."""
    block = like.new_zeros(n, len(nodes))
    block[nodes, nodes - nodes[0]] = 1.0
    return block
