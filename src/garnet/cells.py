"""Points in cells, and the nearest of a pool: the pieces of a search, none of which needs all points at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

_TILE, _TILE_ON_GPU = 1 << 24, 1 << 28
_GROUP = 8
_ROUNDS = 3
_VOTES = 4
_BEAM = 4


@dataclass(frozen=True)
class Quantiser:
    """Cells in groups: a point belongs to the closest cell of the groups closest to it.

    Attributes:
        groups: centres of the groups, shape (g, d).
        centres: of the cells, group after group, (c, d).
        counts: cells of each group, which has at least one.
        ranked: (c, m) int64, the cells that hold neighbours of a cell's points, likeliest first, itself leading.
    """

    groups: Tensor
    centres: Tensor
    counts: tuple[int, ...]
    ranked: Tensor

    def assign(self, points: Tensor) -> Tensor:
        """The cell of each of some points, shape (n,) int64."""
        return _assign(points, self.groups, torch.split(self.centres, list(self.counts)))

    def around(self, probes: int) -> Tensor:
        """The cells to search for the neighbours of each cell's points, (c, probes) or fewer."""
        return self.ranked[:, :probes]


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
        order, places = _places(owner, counts)
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
        """Squared distances and indices of the k nearest to each point within `probes` parts around its own."""
        (n, dimension), sizes = points.shape, self.sizes.tolist()
        points = _lifted(points, self.order)
        parts = list(zip(torch.split(points, sizes), torch.split(self.order, sizes), strict=True))
        # Pools are filled up to whole groups, with points that are infinitely far.
        nobody = torch.zeros_like(points[:_GROUP])
        nobody[:, dimension] = torch.inf
        enough = (self.sizes[self.ranked].cumsum(dim=1) <= k).sum(dim=1) + 1
        wide = enough.clamp(min=probes).tolist()
        away = points.new_empty(n, k + 1)
        found = self.order.new_empty(n, k + 1)
        start = 0
        for (mine, _), near, width in zip(parts, self.ranked.tolist(), wide, strict=True):
            members = [parts[other] for other in near[:width]] if width <= len(near) else parts
            lacking = -sum(len(ids) for _, ids in members) % _GROUP
            pool = torch.cat([*(lifted for lifted, _ in members), nobody[:lacking]])
            names = torch.cat([*(ids for _, ids in members), self.order[:lacking]])
            for part in torch.split(_asking(mine, dimension), _rows(mine, len(pool))):
                end = start + len(part)
                away[start:end], found[start:end] = _nearest(part, pool, names, k + 1)
                start = end
        away, found = _without_self(away, found, self.order, k, points[:, dimension])
        back = torch.empty_like(self.order)
        back[self.order] = torch.arange(n, device=back.device)
        return away[back], found[back]


def fit_quantiser(sample: Tensor, cells: int, *, seed: int, reach: int = 256) -> Quantiser:
    """About `cells` cells by k-means on a sample, of a few dozen points a cell: groups first, each then split.

    Cells are ranked by the votes of the sample: a point that lies in one cell and has another among its four closest
    joins the two. In many dimensions, where points are dense here and sparse there, distances between centres say far
    less; they only order the cells that share no vote.

    Args:
        sample: shape (s, d), centred.
        cells: how many, about; crowded ones are split and empty ones dropped.
        seed: of the first centres.
        reach: cells to rank around each.
    """
    generator = torch.Generator().manual_seed(seed)
    groups = _means(sample, round(cells**0.5), generator)
    group = _closest(sample, groups)
    sizes = torch.bincount(group, minlength=len(groups))
    members = torch.split(group.argsort(stable=True), sizes.tolist())
    # A group that has lost its points to others still has its own centre for a cell.
    centres = [
        _means(sample[mine], max(1, round(cells * len(mine) / len(sample))), generator)
        if len(mine)
        else groups[g : g + 1]
        for g, mine in enumerate(members)
    ]
    ranked = _ranked(sample, _assign(sample, groups, centres), torch.cat(centres), reach)
    return Quantiser(groups, torch.cat(centres), tuple(len(mine) for mine in centres), ranked)


def probes_needed(ranked: Tensor, truth: Tensor, recall: float) -> tuple[int, float]:
    """How many cells to probe so that `recall` of the neighbours are found, and the recall that this many reach.

    A sample tells: the recall counted on is less than its mean by the mean's standard error.

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
    sure = (found.mean(dim=0) - error).tolist()
    needed = next((p for p, share in enumerate(sure, 1) if share >= recall - 1e-6), len(sure))
    return needed, sure[needed - 1]


def nearest_in_pool(
    queries: Tensor, query_ids: Tensor, pool: Tensor, pool_ids: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The k points of a pool nearest to each query, itself excepted.

    Args:
        queries: shape (q, d).
        query_ids: (q,) int64, by which a query is known in the pool.
        pool: (p, d), about the same origin, which should be near.
        pool_ids: (p,) int64, each once.
        k: neighbours of each query.

    Returns:
        Squared distances and ids, (q, k) each, nearest first; infinite and -1 where the pool has too few.
    """
    dimension, count, rows = pool.shape[1], min(k + 1, len(pool)), _rows(queries, len(pool))
    pool = _lifted(pool)
    parts = []
    for some, mine in zip(torch.split(queries, rows), torch.split(query_ids, rows), strict=True):
        lifted = _lifted(some)
        found = _nearest(_asking(lifted, dimension), pool, pool_ids, count)
        parts.append(_without_self(*found, mine, k, lifted[:, dimension]))
    distances, ids = zip(*parts, strict=True)
    return torch.cat(distances), torch.cat(ids)


def smallest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest of each row, in order, and where they stand: `torch.topk`, which is slow on wide rows.

    Columns fall into groups of eight. The k smallest lie in the k groups of the smallest minima, whichever they are
    among equals, so that top-k sees an eighth of the row and then these groups alone.
    """
    groups = values.shape[1] // _GROUP
    if groups < 2 * k:
        return values.topk(k, dim=1, largest=False)
    # A group is a column of this view, not eight neighbours: minima over a leading dimension vectorise.
    grouped = values[:, : _GROUP * groups].view(-1, _GROUP, groups)
    best = smallest(grouped.amin(dim=1), k)[1]
    parts = torch.arange(0, _GROUP * groups, groups, device=values.device)
    left = (parts[:, None] + best[:, None, :]).flatten(1)
    if values.shape[1] > _GROUP * groups:
        rest = torch.arange(_GROUP * groups, values.shape[1], device=values.device).expand(len(values), -1)
        left = torch.cat([left, rest], dim=1)
    nearest, at = values.gather(1, left).topk(k, dim=1, largest=False)
    return nearest, left.gather(1, at)


def _nearest(asking: Tensor, pool: Tensor, pool_ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """How near, less its own square, and which are the `count` of a lifted pool nearest to each query."""
    away, at = smallest(asking @ pool.T, count)
    return away, pool_ids[at]


def _without_self(away: Tensor, ids: Tensor, mine: Tensor, k: int, squares: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances and ids of k neighbours out of k + 1 that were found, or fewer, among them the query or not."""
    short = k + 1 - away.shape[1]
    if short > 0:
        away, ids = pad(away, (0, short), value=torch.inf), pad(ids, (0, short), value=-1)
    passed = (ids == mine[:, None]).cumsum(dim=1)[:, :k]
    kept = torch.arange(k, device=ids.device) + passed
    return (away.gather(1, kept) + squares[:, None]).clamp(min=0), ids.gather(1, kept)


def _places(owner: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The points sorted by cell, and the place of each among those of its cell."""
    order = owner.argsort(stable=True)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(owner), device=owner.device) - (sizes.cumsum(0) - sizes)[owner[order]]
    return order, places


def _assign(points: Tensor, groups: Tensor, cells: Sequence[Tensor]) -> Tensor:
    """The cell of each point, where `cells` holds the centres of each group's; the closest groups are looked through.

    One group would not do: in many dimensions the closest cell is often in another, and neighbours would be scattered.
    """
    rows = _rows(points, len(groups))
    beam = min(_BEAM, len(groups))
    near = torch.cat([smallest(_away(part, groups), beam)[1] for part in torch.split(points, rows)])
    least = points.new_full((len(points),), torch.inf)
    owner = torch.zeros_like(near[:, 0])
    for group in near.T:
        sizes, first = torch.bincount(group, minlength=len(groups)), 0
        for mine, centres in zip(torch.split(group.argsort(stable=True), sizes.tolist()), cells, strict=True):
            for some in torch.split(mine, _rows(points, len(centres))):
                away, cell = _away(points[some], centres).min(dim=1)
                closer = away < least[some]
                owner[some] = torch.where(closer, first + cell, owner[some])
                least[some] = torch.where(closer, away, least[some])
            first += len(centres)
    return owner


def _closest(points: Tensor, centres: Tensor) -> Tensor:
    """The centre closest to each point."""
    if len(centres) == 1 or not len(points):
        return torch.zeros(len(points), dtype=torch.int64, device=points.device)
    tiles = torch.split(points, _rows(points, len(centres)))
    return torch.cat([_away(part, centres).argmin(dim=1) for part in tiles])


def _means(sample: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """About `count` centres after a few rounds of Lloyd."""
    if count == 1:
        return sample.mean(dim=0, keepdim=True)
    centres = sample[torch.randperm(len(sample), generator=generator)[:count].to(sample.device)]
    for left in range(_ROUNDS, 0, -1):
        centres = _lloyd(sample, centres, len(sample) / count if left > 1 else math.inf)
    return centres


def _lloyd(sample: Tensor, centres: Tensor, fair: float) -> Tensor:
    """The means of the cells that have points; one with twice its fair share gives way to some of its points."""
    owner = _closest(sample, centres)
    sizes = torch.bincount(owner, minlength=len(centres))
    means = torch.zeros_like(centres).index_add_(0, owner, sample) / sizes.clamp(min=1)[:, None]
    heirs = (sizes > 2 * fair)[owner] & (_places(owner, sizes)[1] < sizes[owner] / fair)
    return torch.cat([means[(sizes > 0) & (sizes <= 2 * fair)], sample[heirs]])


def _ranked(sample: Tensor, owner: Tensor, centres: Tensor, reach: int) -> Tensor:
    """The cells around each cell, by the votes of a sample whose cells are known, and then by distance."""
    cells = len(centres)
    votes = torch.zeros(cells * cells, device=centres.device)
    weights = torch.arange(min(_VOTES, cells), 0, -1, device=centres.device, dtype=torch.float32)
    rows = _rows(sample, cells)
    for part, mine in zip(torch.split(sample, rows), torch.split(owner, rows), strict=True):
        pairs = mine[:, None] * cells + smallest(_away(part, centres), len(weights))[1]
        votes.index_add_(0, pairs.reshape(-1), weights.expand_as(pairs).reshape(-1))
    votes = votes.view(cells, cells)
    ranked = []
    for part in torch.split(torch.arange(cells, device=centres.device), rows):
        away = _away(centres[part], centres)
        away -= away.amin(dim=1, keepdim=True)
        away /= 2 * away.amax(dim=1, keepdim=True).clamp(min=torch.finfo(away.dtype).tiny)
        away -= votes[part] + votes.T[part]
        away[torch.arange(len(part), device=part.device), part] = -torch.inf
        ranked.append(smallest(away, min(reach, cells))[1])
    return torch.cat(ranked)


def _rows(points: Tensor, width: int) -> int:
    """Rows of a matrix of this width that stays small."""
    return max(1, (_TILE_ON_GPU if points.is_cuda else _TILE) // max(1, width))


def _lifted(points: Tensor, order: Tensor | None = None) -> Tensor:
    """Each point, in some order, with its square behind it, so that a matrix product gives distances; in fours."""
    n, dimension = points.shape
    lifted = points.new_zeros(n, 4 * (dimension // 4 + 1))
    order = torch.arange(n, device=points.device) if order is None else order
    rows = _rows(points, dimension)
    for some, part in zip(torch.split(order, rows), torch.split(lifted, rows), strict=True):
        part[:, :dimension] = points[some]
        part[:, dimension] = part[:, :dimension].square().sum(dim=1)
    return lifted


def _asking(lifted: Tensor, dimension: int) -> Tensor:
    """What to multiply lifted points with for their squared distances, less a query's own square."""
    asking = -2.0 * lifted
    asking[:, dimension] = 1.0
    return asking


def _away(points: Tensor, centres: Tensor) -> Tensor:
    """Squared distances to some centres, less the point's own square, which no comparison within a row sees."""
    return torch.addmm((centres * centres).sum(dim=1), points, centres.T, alpha=-2.0)
