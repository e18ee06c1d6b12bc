"""A smaller graph with the smooth eigenvectors of a large one: where to begin if eigenvalues crowd at 1.

A path, a grid or a sheet has leading eigenvectors that hardly change from a node to its neighbours, and eigenvalues so
close to 1 that a filter needs a high degree to separate them. Merging the nodes of such a graph with their neighbours
keeps these vectors, and a few products smooth the steps between groups. (In a graph with communities the leading
vectors live on few nodes, and this does not pay.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.graph.edges import numbers
from garnet.linalg.sparse import SparseRows

_SMOOTHED = 10  # products that turn the ones into roughly the leading vector locally


@dataclass(frozen=True)
class Coarse:
    """A matrix between groups of nodes.

    Attributes:
        matrix: P^T A P.
        group: (n,) the group of each node.
        weight: (n,) its entry in P, whose columns have length one.
    """

    matrix: SparseRows
    group: Tensor
    weight: Tensor

    def refined(self, vectors: Tensor) -> Tensor:
        """P X: vectors on the groups extended to the nodes."""
        return vectors[self.group] * self.weight[:, None]


def coarsened(matrix: SparseRows, generator: torch.Generator) -> Coarse:
    """Groups of nodes around centres that are not neighbours, and the matrix between the groups.

    Args:
        matrix: symmetric, without negative entries.
        generator: draws the order in which nodes may become centres; on the matrix's device.
    """
    device, n = matrix.values.device, matrix.width
    rows = torch.arange(n, device=device).repeat_interleave(matrix.starts.diff().long())
    columns = matrix.columns.long()
    group = _groups(rows, columns, torch.randperm(n, generator=generator, device=device))
    weight = torch.ones(n, 1, device=device, dtype=matrix.values.dtype)
    for _ in range(_SMOOTHED):
        weight = matrix.product(weight)
        weight /= weight.amax().clamp_min(torch.finfo(weight.dtype).tiny)
    # A node without entries is a group of its own.
    weight = weight[:, 0].clamp_min(1e-6)
    count = int(group.max()) + 1
    lengths = torch.zeros(count, dtype=torch.float64, device=device).index_add_(0, group, weight.double().square())
    weight = (weight / lengths.sqrt()[group]).to(weight)
    keys, place = torch.unique(numbers(group[rows], group[columns], count), return_inverse=True)
    values = torch.zeros(len(keys), dtype=torch.float64, device=device)
    values.index_add_(0, place, (matrix.values * weight[rows] * weight[columns]).double())
    ends = torch.searchsorted(keys, torch.arange(count + 1, device=device) * count)
    of = SparseRows(ends.to(matrix.starts), (keys % count).to(matrix.columns), values.to(matrix.values), count)
    return Coarse(of, group, weight)


def _groups(rows: Tensor, columns: Tensor, rank: Tensor) -> Tensor:
    """(n,) groups, numbered from 0: each has a centre, which its other nodes join.

    A node that outranks all its neighbours not yet in a group becomes a centre.
    """
    n = len(rank)
    open_, centre = torch.ones(n, dtype=torch.bool, device=rank.device), torch.full_like(rank, -1)
    while bool(open_.any()):
        live = open_[rows] & open_[columns] & (rows != columns)
        highest = torch.full_like(rank, -1).scatter_reduce(0, rows[live], rank[columns[live]], "amax")
        chosen = open_ & (rank > highest)
        centre[chosen] = rank[chosen]
        # Neighbours join their highest-ranked centre.
        near = torch.full_like(rank, -1).scatter_reduce(0, columns[chosen[rows]], rank[rows[chosen[rows]]], "amax")
        joins = open_ & ~chosen & (near >= 0)
        centre[joins] = near[joins]
        open_ &= ~(chosen | joins)
    found: Tensor = torch.unique(centre, return_inverse=True)[1]
    return found
