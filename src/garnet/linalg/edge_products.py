"""Distances and inner products of two rows, for every edge between them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from garnet.graph.graph import Edges
from garnet.linalg.triton_ops import compared, usable

# Numbers gathered at once: few enough to stay in a processor's cache.
_GATHERED, _GATHERED_ON_GPU = 1 << 20, 1 << 28


def squared_distances(left: Tensor, right: Tensor, edges: Edges | Tensor) -> Tensor:
    """||L_i - R_j||^2 for each edge (i, j), shape (m,), some edges at a time."""
    if usable(left):
        return compared(left, right, torch.as_tensor(edges, device=left.device), distance=True)
    parts = [(left[u] - right[v]).square_().sum(dim=1) for u, v in _some_at_a_time(edges, left)]
    return torch.cat(parts) if parts else left.new_zeros(0)


def inner_products(left: Tensor, right: Tensor, edges: Edges | Tensor) -> Tensor:
    """Row i of `left` times row j of `right` for each edge, shape (m,).

    With left = U|L|^(1/2) and right = left with the signs of L, these are entries of U L U^T.
    """
    if usable(left):
        return compared(left, right, torch.as_tensor(edges, device=left.device), distance=False)
    parts = [(left[u] * right[v]).sum(dim=1) for u, v in _some_at_a_time(edges, left)]
    return torch.cat(parts) if parts else left.new_zeros(0)


def _some_at_a_time(edges: Edges | Tensor, points: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of index tensors, few enough at a time to keep the gathered rows small."""
    ends = torch.as_tensor(edges, device=points.device)
    gathered = _GATHERED if points.device.type == "cpu" else _GATHERED_ON_GPU
    width = max(1, gathered // max(points.shape[1], 1))
    yield from zip(torch.split(ends[0], width), torch.split(ends[1], width), strict=True)
