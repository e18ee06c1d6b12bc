"""Cells of points: two-level k-means, and which cells lie near each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.neighbors.distances import away_from, smallest, tile_rows

Closest = Callable[[Tensor, Tensor, int], Tensor]
"""Returns the centres closest to each of some points."""

_ROUNDS = 3
_VOTES = 4
_BEAM = 4


@dataclass(frozen=True)
class Quantizer:
    """Cells in groups: a point belongs to the closest cell of the groups closest to it.

    Attributes:
        groups: centres of the groups, shape (g, d).
        centres: of the cells, group after group, (c, d).
        counts: cells of each group, which has at least one.
        ranked: (c, m) int64, the cells that hold neighbours of a cell's points, itself first, then the likeliest.
    """

    groups: Tensor
    centres: Tensor
    counts: tuple[int, ...]
    ranked: Tensor

    def assign(self, points: Tensor) -> Tensor:
        """The cell of each of some points, shape (n,) int64."""
        return _assign(points, self.groups, torch.split(self.centres, list(self.counts)))


def closest(points: Tensor, centres: Tensor, count: int) -> Tensor:
    """The `count` centres closest to each point, (n, count)."""
    tiles = torch.split(points, tile_rows(points, len(centres)))
    return torch.cat([smallest(away_from(part, centres), count)[1] for part in tiles])


def fit_quantizer(sample: Tensor, cells: int, *, seed: int, reach: int = 256, closest: Closest = closest) -> Quantizer:
    """About `cells` cells by k-means on a sample with a few dozen points per cell: first groups, then each is split.

    Cells are ranked by the votes of the sample: a point that lies in one cell and has another among its four closest
    joins the two. In many dimensions, with points of uneven density, distances between centres say far less; they only
    order cells that share no vote.

    Args:
        sample: shape (s, d), centred.
        cells: approximate number of cells; crowded ones are split and empty ones dropped.
        seed: of the initial centres.
        reach: cells to rank around each.
        closest: stands in for the function of this name, which does most of the work.
    """
    generator = torch.Generator().manual_seed(seed)
    groups = _means(sample, round(cells**0.5), generator)
    group = _closest(sample, groups)
    sizes = torch.bincount(group, minlength=len(groups))
    members = torch.split(group.argsort(stable=True), sizes.tolist())
    # A group that has lost its points to others still has its own centre as a cell.
    centres = [
        _means(sample[mine], max(1, round(cells * len(mine) / len(sample))), generator)
        if len(mine)
        else groups[g : g + 1]
        for g, mine in enumerate(members)
    ]
    ranked = _ranked(sample, _assign(sample, groups, centres), torch.cat(centres), reach, closest)
    return Quantizer(groups, torch.cat(centres), tuple(len(mine) for mine in centres), ranked)


def _assign(points: Tensor, groups: Tensor, cells: Sequence[Tensor]) -> Tensor:
    """The cell of each point, where `cells` holds the cell centres of each group; only the closest groups are searched.

    One group is not enough: in many dimensions the closest cell is often in another, and neighbours would be scattered.
    """
    rows = tile_rows(points, len(groups))
    beam = min(_BEAM, len(groups))
    near = torch.cat([smallest(away_from(part, groups), beam)[1] for part in torch.split(points, rows)])
    least = points.new_full((len(points),), torch.inf)
    owner = torch.zeros_like(near[:, 0])
    for group in near.T:
        sizes, first = torch.bincount(group, minlength=len(groups)), 0
        for mine, centres in zip(torch.split(group.argsort(stable=True), sizes.tolist()), cells, strict=True):
            for some in torch.split(mine, tile_rows(points, len(centres))):
                away, cell = away_from(points[some], centres).min(dim=1)
                closer = away < least[some]
                owner[some] = torch.where(closer, first + cell, owner[some])
                least[some] = torch.where(closer, away, least[some])
            first += len(centres)
    return owner


def _closest(points: Tensor, centres: Tensor) -> Tensor:
    """The centre closest to each point."""
    if len(centres) == 1 or not len(points):
        return torch.zeros(len(points), dtype=torch.int64, device=points.device)
    tiles = torch.split(points, tile_rows(points, len(centres)))
    return torch.cat([away_from(part, centres).argmin(dim=1) for part in tiles])


def _means(sample: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """About `count` centres after a few rounds of Lloyd."""
    if count == 1:
        return sample.mean(dim=0, keepdim=True)
    centres = sample[torch.randperm(len(sample), generator=generator)[:count].to(sample.device)]
    for left in range(_ROUNDS, 0, -1):
        centres = _lloyd(sample, centres, len(sample) / count if left > 1 else math.inf)
    return centres


def _lloyd(sample: Tensor, centres: Tensor, fair: float) -> Tensor:
    """The means of the non-empty cells; one with twice its fair share is replaced by some of its points."""
    owner = _closest(sample, centres)
    sizes = torch.bincount(owner, minlength=len(centres))
    means = torch.zeros_like(centres).index_add_(0, owner, sample) / sizes.clamp(min=1)[:, None]
    heirs = (sizes > 2 * fair)[owner] & (sorted_places(owner, sizes)[1] < sizes[owner] / fair)
    return torch.cat([means[(sizes > 0) & (sizes <= 2 * fair)], sample[heirs]])


def _ranked(sample: Tensor, owner: Tensor, centres: Tensor, reach: int, closest: Closest = closest) -> Tensor:
    """The cells around each cell, by the votes of a sample whose cells are known, and then by distance.

    Besides the result, it holds in memory the votes and a tile of the distances between cells.
    """
    cells, rows = len(centres), tile_rows(sample, len(centres))
    pairs, votes = _votes(sample, owner, centres, closest)
    parts = torch.split(torch.arange(cells, device=centres.device), rows)
    firsts = torch.arange(0, cells * len(parts) * rows + 1, cells * rows, device=centres.device)
    begins = torch.searchsorted(pairs, firsts).tolist()
    ranked = torch.empty(cells, min(reach, cells), dtype=torch.int64, device=centres.device)
    for number, part in enumerate(parts):
        away = away_from(centres[part], centres)
        away -= away.amin(dim=1, keepdim=True)
        away /= 2 * away.amax(dim=1, keepdim=True).clamp(min=torch.finfo(away.dtype).tiny)
        some = slice(begins[number], begins[number + 1])
        away.view(-1).index_add_(0, pairs[some] - firsts[number], votes[some], alpha=-1)
        away[torch.arange(len(part), device=part.device), part] = -torch.inf
        ranked[part] = smallest(away, ranked.shape[1])[1]
    return ranked


def _votes(sample: Tensor, owner: Tensor, centres: Tensor, closest: Closest) -> tuple[Tensor, Tensor]:
    """Pairs of cells that some point joins, as first * cells + second, sorted, both ways; and their votes."""
    cells = len(centres)
    weights = torch.arange(min(_VOTES, cells), 0, -1, device=centres.device, dtype=torch.float32)
    near = closest(sample, centres, len(weights))
    joined = torch.cat([owner[:, None] * cells + near, near * cells + owner[:, None]])
    pairs, places = torch.unique(joined, return_inverse=True)
    # Sums of small integers: exact in any order.
    votes = centres.new_zeros(len(pairs)).index_add_(0, places.view(-1), weights.repeat(len(joined)))
    return pairs, votes


def sorted_places(owner: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The points sorted by cell, and the position of each within its cell."""
    order = owner.argsort(stable=True)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(owner), device=owner.device) - (sizes.cumsum(0) - sizes)[owner[order]]
    return order, places
