"""Points sorted by cell, each cell searched together with those around it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.linalg.triton_ops import nearest, usable
from garnet.neighbors.distances import GROUP, ask, lift, nearest_of_lifted, tile_rows, without_self
from garnet.neighbors.quantizer import Quantiser, sorted_places


@dataclass(frozen=True)
class Layout:
    """Points sorted by cell, where a cell too large for one matrix is cut into parts.

    Attributes:
        order: (n,) the points, part after part.
        part: (n,) the part of each point.
        sizes: (parts,) how many points each has.
        ranked: (parts, m) the parts to search for the neighbours of each, itself leading.
    """

    order: Tensor
    part: Tensor
    sizes: Tensor
    ranked: Tensor

    @classmethod
    def of(cls, quantiser: Quantiser, owner: Tensor, *, largest: int, reach: int) -> Layout:
        """The layout of points whose cells are known, in parts of at most `largest`, `reach` of them around each."""
        counts = torch.bincount(owner, minlength=len(quantiser.centres))
        order, places = sorted_places(owner, counts)
        parts = (counts + largest - 1) // largest
        first = parts.cumsum(0) - parts
        part = first[owner] + places * parts[owner] // counts[owner]
        # The j-th part around a cell belongs to the cell at which so many parts have been passed.
        passed = parts[quantiser.ranked].cumsum(dim=1)
        steps = torch.arange(min(reach, int(passed[:, -1].min())), device=owner.device)
        at = torch.searchsorted(passed, steps.expand(len(passed), -1).contiguous(), right=True)
        cell = quantiser.ranked.gather(1, at)
        ranked = first[cell] + steps - (passed.gather(1, at) - parts[cell])
        ranked = ranked.repeat_interleave(parts, dim=0)
        own = torch.arange(len(ranked), device=owner.device)
        ranked[:, -1] = torch.where((ranked == own[:, None]).any(dim=1), ranked[:, -1], own)
        others = (ranked != own[:, None]).to(torch.uint8)
        return cls(order, part, torch.bincount(part), ranked.gather(1, others.argsort(dim=1, stable=True)))

    def search(self, points: Tensor, k: int, probes: int) -> tuple[Tensor, Tensor]:
        """Squared distances and indices of the k nearest to each point within `probes` parts around its own.

        On a GPU, neighbours that are equally far but for some millionths of their squares may change places.
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
            self._compare(points, left, k, probes, away, found)
        back = torch.empty_like(self.order)
        back[self.order] = torch.arange(n, device=back.device)
        return away[back], found[back]

    def _compare(self, points: Tensor, left: Tensor, k: int, probes: int, away: Tensor, found: Tensor) -> None:
        """Fill in some rows, sorted, by one matrix of distances for each part that has some."""
        dimension, sizes = points.shape[1], self.sizes.tolist()
        points = lift(points, self.order)
        parts = list(zip(torch.split(points, sizes), torch.split(self.order, sizes), strict=True))
        # Pools are filled up to whole groups, with points that are infinitely far.
        nobody = torch.zeros_like(points[:GROUP])
        nobody[:, dimension] = torch.inf
        enough = (self.sizes[self.ranked].cumsum(dim=1) <= k).sum(dim=1) + 1
        wide, ranked = enough.clamp(min=probes).tolist(), self.ranked.tolist()
        counts = torch.bincount(self.part[self.order[left]], minlength=len(parts)).tolist()
        for number, mine in enumerate(torch.split(left, counts)):
            if not len(mine):
                continue
            near, width = ranked[number], wide[number]
            members = [parts[other] for other in near[:width]] if width <= len(near) else parts
            lacking = -sum(len(ids) for _, ids in members) % GROUP
            pool = torch.cat([*(lifted for lifted, _ in members), nobody[:lacking]])
            pool_ids = torch.cat([*(ids for _, ids in members), self.order[:lacking]])
            for some in torch.split(mine, tile_rows(points, len(pool))):
                asking = points[some]
                near_some = nearest_of_lifted(ask(asking, dimension), pool, pool_ids, k + 1)
                away[some], found[some] = without_self(*near_some, self.order[some], k, asking[:, dimension])


def probes_needed(ranked: Tensor, truth: Tensor, recall: float) -> tuple[int, float]:
    """How many cells to probe so that `recall` of the neighbours are found, and the recall that this many reach.

    A sample tells: the recall counted on is less than its mean by two standard errors of the mean.

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
