"""Which cell each point is in, which cells lie near each other, and how the points of a cell find their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from garnet.linalg.triton_ops import nearest, usable
from garnet.neighbors.distances import GROUP, ask, lift, nearest_of_lifted, tile_rows, without_self
from garnet.neighbors.quantizer import Quantizer, sorted_places

Fetch = Callable[[int], tuple[Tensor, Tensor]]
"""Returns the points of a cell, as `lift` makes them, and their numbers."""


@dataclass(frozen=True)
class CellIndex:
    """Points in cells small enough for all their points to be compared at once.

    Attributes:
        cell: (n,) the cell of each point.
        ranked: (cells, m) the cells to search for the neighbours of each cell's points, itself first.
    """

    cell: Tensor
    ranked: Tensor

    @cached_property
    def sizes(self) -> Tensor:
        """How many points each cell has, (cells,)."""
        return torch.bincount(self.cell, minlength=len(self.ranked))

    @cached_property
    def order(self) -> Tensor:
        """The points, (n,), cell by cell."""
        return self.cell.argsort(stable=True)

    @classmethod
    def of(cls, quantizer: Quantizer, owner: Tensor, *, largest: int, reach: int) -> CellIndex:
        """An index of points whose cells are known; a cell of more than `largest` points is split.

        Args:
            quantizer: of the cells.
            owner: (n,) the cell of each point.
            largest: maximum number of points in a cell.
            reach: cells to rank around each.
        """
        counts = torch.bincount(owner, minlength=len(quantizer.centres))
        _, places = sorted_places(owner, counts)
        pieces = (counts + largest - 1) // largest
        first = pieces.cumsum(0) - pieces
        cell = first[owner] + places * pieces[owner] // counts[owner]
        # The j-th piece around a cell belongs to the cell whose pieces, counted from the nearest, include it.
        passed = pieces[quantizer.ranked].cumsum(dim=1)
        steps = torch.arange(min(reach, int(passed[:, -1].min())), device=owner.device)
        at = torch.searchsorted(passed, steps.expand(len(passed), -1).contiguous(), right=True)
        near = quantizer.ranked.gather(1, at)
        ranked = first[near] + steps - (passed.gather(1, at) - pieces[near])
        ranked = ranked.repeat_interleave(pieces, dim=0)
        own = torch.arange(len(ranked), device=owner.device)
        ranked[:, -1] = torch.where((ranked == own[:, None]).any(dim=1), ranked[:, -1], own)
        others = (ranked != own[:, None]).to(torch.uint8)
        return cls(cell, ranked.gather(1, others.argsort(dim=1, stable=True)))

    def search(self, points: Tensor, k: int, probes: int) -> tuple[Tensor, Tensor]:
        """Squared distances and indices of the k nearest points to each within `probes` cells around its own.

        On a GPU, neighbours whose squared distances differ by a few millionths may swap places.
        """
        n = len(points)
        left = torch.arange(n, device=points.device)
        away = points.new_empty(n, k)
        found = self.order.new_empty(n, k)
        if usable(points):
            away, places, sure = nearest(points[self.order], self.sizes, self.ranked, k, probes)
            found = self.order[places]
            left = (~sure).nonzero()[:, 0]
        if len(left):
            sizes, dimension = self.sizes.tolist(), points.shape[1]
            lifted = lift(points, self.order)
            cells = list(zip(torch.split(lifted, sizes), torch.split(self.order, sizes), strict=True))
            around = self.around(k, probes)
            counts = torch.bincount(self.cell[self.order[left]], minlength=len(cells)).tolist()
            for number, mine in enumerate(torch.split(left, counts)):
                if len(mine):
                    asking = lifted[mine], self.order[mine]
                    for some, *near in compare(asking, around[number], cells.__getitem__, k, dimension):
                        away[mine[some]], found[mine[some]] = near
        back = torch.empty_like(self.order)
        back[self.order] = torch.arange(n, device=back.device)
        return away[back], found[back]

    def around(self, k: int, probes: int) -> list[list[int]]:
        """The cells to search for the k neighbours of each cell's points: more than `probes` where these are small.

        All cells, where the ranked ones have too few points.
        """
        enough = (self.sizes[self.ranked].cumsum(dim=1) <= k).sum(dim=1) + 1
        widths = enough.clamp(min=probes).tolist()
        every = list(range(len(self.ranked)))
        return [
            near[:width] if width <= len(near) else every
            for near, width in zip(self.ranked.tolist(), widths, strict=True)
        ]


def compare(
    asking: tuple[Tensor, Tensor], around: list[int], fetch: Fetch, k: int, dimension: int
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """The k nearest to some points among the points of some cells, by one distance matrix.

    Args:
        asking: the query points, as `lift` makes them, and their numbers.
        around: the cells to search.
        fetch: returns the points of a cell.
        k: neighbours of each point.
        dimension: number of coordinates.

    Yields:
        Some of the points, and the squared distances and numbers of their neighbours, (s, k) each.
    """
    lifted, numbers = asking
    pools, ids = zip(*map(fetch, around), strict=True)
    # Pools are padded to whole groups, with points that are infinitely far away.
    lacking = -sum(map(len, ids)) % GROUP
    nobody = lifted.new_zeros(lacking, lifted.shape[1])
    nobody[:, dimension] = torch.inf
    pool, pool_ids = torch.cat([*pools, nobody]), torch.cat([*ids, numbers.new_full((lacking,), -1)])
    rows = tile_rows(lifted, len(pool))
    for begin in range(0, len(numbers), rows):
        some = slice(begin, begin + rows)
        near = nearest_of_lifted(ask(lifted[some], dimension), pool, pool_ids, k + 1)
        yield some, *without_self(*near, numbers[some], k, lifted[some, dimension])


def probes_needed(ranked: Tensor, truth: Tensor, recall: float) -> tuple[int, float]:
    """How many cells to probe to find a share `recall` of the neighbours, and the recall that this reaches.

    Estimated from a sample: the recall relied on is two standard errors below the sample mean.

    Args:
        ranked: (s, m) cells around each query of the sample, in the order of probing.
        truth: (s, k) cells of its true neighbours.
        recall: share of the neighbours to find.
    """
    hits = torch.zeros(ranked.shape, device=ranked.device)
    for neighbor in truth.T:
        hits += ranked == neighbor[:, None]
    found = hits.cumsum(dim=1) / truth.shape[1]
    error = found.std(dim=0) / len(found) ** 0.5 if len(found) > 1 else torch.zeros_like(found[0])
    sure = (found.mean(dim=0) - 2 * error).clamp_min(0).tolist()
    needed = next((p for p, share in enumerate(sure, 1) if share >= recall - 1e-6), len(sure))
    return needed, sure[needed - 1]
