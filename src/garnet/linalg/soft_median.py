"""The soft median of each node's neighbours, with gradients, in memory that does not grow with the neighbourhoods."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.linalg.sparse import SparseRows

# Numbers gathered at a time: what a CPU's cache holds; a GPU needs more.
_GATHERED, _GATHERED_ON_GPU = 1 << 18, 1 << 26


class Neighborhoods:
    """The rows of a matrix with few entries in each, for robust products.

    Args:
        matrix: square, its entries not negative.
        device: where means are computed.

    Attributes:
        columns: (n, k) column of each entry; rows with fewer than k are padded.
        weights: (n, k) entries; zero where padded.
    """

    def __init__(self, matrix: sp.csr_array, device: str = "cpu") -> None:
        n = int(matrix.shape[0])
        lengths = np.diff(matrix.indptr)
        filled = np.arange(max(int(lengths.max(initial=0)), 1)) < lengths[:, None]
        columns, weights = np.zeros(filled.shape, dtype=np.int64), np.zeros(filled.shape, dtype=np.float32)
        columns[filled], weights[filled] = matrix.indices, matrix.data
        self._weigh(torch.from_numpy(columns).to(device), torch.from_numpy(weights).to(device))
        numbered = sp.csr_array((np.flatnonzero(filled), matrix.indices, matrix.indptr), shape=matrix.shape)
        turned = sp.csr_array(numbered.T.tocsr())
        self._places = torch.from_numpy(turned.data.astype(np.int64)).to(device)
        starts, rows = (torch.from_numpy(one.astype(np.int64)).to(device) for one in (turned.indptr, turned.indices))
        self._turned = SparseRows(starts, rows, torch.zeros(0, device=device), n)

    @classmethod
    def weighing(cls, columns: Tensor, weights: Tensor) -> Self:
        """Rows with entries (n, k) at columns (n, k); zeros are not entries. Gradients flow to the entries."""
        near = object.__new__(cls)
        near._weigh(columns, weights)
        n, k = columns.shape
        flat = columns.flatten()
        near._places = flat.argsort(stable=True)
        starts = torch.searchsorted(flat.index_select(0, near._places), torch.arange(n + 1, device=flat.device))
        near._turned = SparseRows(starts, near._places // k, weights.new_zeros(0), n)
        return near

    def _weigh(self, columns: Tensor, weights: Tensor) -> None:
        self.columns, self.weights = columns, weights
        self._sums = weights.detach().sum(dim=1, keepdim=True)
        # A row without entries has a mean of zero, whatever its shares are.
        self._logs = torch.where(self._sums > 0, weights.detach().log(), 0.0)

    def soft_median(self, hidden: Tensor, temperature: float) -> Tensor:
        r"""The soft median of the rows that each row of the matrix points to.

        With :math:`\bar x_i` the weighted median in each dimension of the rows :math:`x_j`, of d numbers,
        :math:`\sum_j a_{ij} \, s_{ij} x_j \cdot \sum_j a_{ij} / \sum_j a_{ij} s_{ij}` with
        :math:`s_{ij} = \exp(-\|\bar x_i - x_j\| / (T \sqrt d))`. Infinitely hot, it is the product with the matrix.

        Args:
            hidden: (S, n, d) rows, of each seed.
            temperature: T; the lower, the less rows far from the median count.

        Returns:
            (S, n, d); gradients flow through all of it, through the entries that are medians, and to the weights. The
            choice of these entries is held fixed.
        """
        return torch.stack([_soft_median(self, self.weights, one, temperature) for one in hidden])

    def blocks(self, hidden: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Some rows of the matrix at a time, and (rows, k, d) the rows they point to."""
        n, k = self.columns.shape
        most = _GATHERED if hidden.device.type == "cpu" else _GATHERED_ON_GPU
        step = max(1, most // max(k * hidden.shape[1], 1))
        for first in range(0, n, step):
            part = slice(first, min(first + step, n))
            columns = self.columns[part]
            yield part, hidden.index_select(0, columns.flatten()).view(*columns.shape, -1)

    def turned(self, values: Tensor, block: Tensor) -> Tensor:
        """The transpose of the matrix with these (n, k) entries, times (n, d)."""
        entries = values.flatten().index_select(0, self._places)
        return SparseRows(self._turned.starts, self._turned.columns, entries, self._turned.width).product(block)


def median_places(values: Tensor, weights: Tensor) -> Tensor:
    """Which of k numbers is the weighted median: the smallest with half the weight at or below it.

    Args:
        values: (rows, k, d).
        weights: (rows, k), not negative.

    Returns:
        (rows, d) places from 0 to k - 1.
    """
    rows, k, d = values.shape
    # A double has bits to spare for the place of the number it is: one sort then brings both in order, which on a CPU
    # is ten times as fast as sorting places by numbers.
    bits = max(k - 1, 1).bit_length()
    keys = torch.empty(rows, d, k, dtype=torch.float64, device=values.device).copy_(values.transpose(1, 2))
    if values.dtype == torch.float64:  # which is shortened to leave room
        keys.view(torch.int64).bitwise_and_(-1 << bits)
    keys.view(torch.int64).bitwise_or_(torch.arange(k, device=values.device))
    if values.device.type == "cpu":
        keys.numpy().sort(axis=2)
    else:
        keys = keys.sort(dim=2).values
    # NaN has lost its place in the sort.
    places = keys.view(torch.int64).bitwise_and_((1 << bits) - 1).clamp_(max=k - 1)
    below = weights[:, None].expand(rows, d, k).gather(2, places).cumsum(dim=2)
    first = (below < below[:, :, -1:] / 2).sum(dim=2, keepdim=True)
    return places.gather(2, first)[:, :, 0]


class _SoftMedian(torch.autograd.Function):
    """Forward and backward in blocks of rows; between them there are n numbers for each neighbour and dimension."""

    @staticmethod
    def forward(ctx: Any, near: Neighborhoods, weights: Tensor, hidden: Tensor, temperature: float) -> Tensor:
        ctx.near, ctx.temperature = near, temperature
        means = torch.empty_like(hidden)
        picked = torch.empty(hidden.shape, dtype=torch.int64, device=hidden.device)
        shares, distances = torch.empty_like(weights), torch.empty_like(weights)
        for part, rows in near.blocks(hidden):
            places = median_places(rows, weights[part])
            picked[part] = near.columns[part].gather(1, places)
            median = rows.gather(1, places[:, None])
            distances[part] = (rows - median).norm(dim=2) / math.sqrt(hidden.shape[1])
            logs = near._logs[part] - distances[part] / temperature
            shares[part] = logs.softmax(dim=1) * near._sums[part]
            means[part] = torch.bmm(shares[part][:, None], rows)[:, 0]
        ctx.save_for_backward(hidden, picked, shares, distances)
        return means

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor, None]:
        near, (hidden, picked, shares, distances) = ctx.near, ctx.saved_tensors
        to_weights = torch.empty_like(shares) if ctx.needs_input_grad[1] else None
        medians = hidden.gather(0, picked)
        to_medians, pulls = torch.empty_like(hidden), torch.empty_like(shares)
        for part, rows in near.blocks(hidden):
            inner = torch.bmm(rows, gradient[part][:, :, None])[:, :, 0]
            mean = (shares[part] * inner).sum(dim=1, keepdim=True) / near._sums[part].clamp_min(1e-30)
            to_logs = shares[part] * (inner - mean)
            if to_weights is not None:
                weights = near.weights[part]
                to_weights[part] = torch.where(weights > 0, to_logs / weights + mean, 0.0)
            # Of a distance by the coordinates' difference; at the median itself it has none.
            scale = hidden.shape[1] * ctx.temperature * distances[part]
            pulls[part] = torch.where(scale > 0, -to_logs / scale, 0.0)
            to_medians[part] = pulls[part].sum(dim=1, keepdim=True) * medians[part]
            to_medians[part] -= torch.bmm(pulls[part][:, None], rows)[:, 0]
        result = near.turned(shares, gradient) - near.turned(pulls, medians)
        totals = torch.zeros_like(hidden[:, 0]).index_add_(0, near.columns.flatten(), pulls.flatten())
        result += totals[:, None] * hidden
        return None, to_weights, result.scatter_add_(0, picked, to_medians), None


# Torch does not type `apply`.
_soft_median: Callable[[Neighborhoods, Tensor, Tensor, float], Tensor] = _SoftMedian.apply
