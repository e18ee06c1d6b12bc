"""The nearest points of a pool: distances by matrix products, and the top k of each row."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from garnet.linalg.dense import product

GROUP = 8
_TILE, _TILE_ON_GPU = 1 << 24, 1 << 28


def nearest_in_pool(
    queries: Tensor, query_ids: Tensor, pool: Tensor, pool_ids: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The k points of a pool nearest to each query, excluding the query itself.

    Args:
        queries: shape (q, d).
        query_ids: (q,) int64, the query's id in the pool.
        pool: (p, d), with the same origin, which should be near.
        pool_ids: (p,) int64, distinct.
        k: neighbours of each query.

    Returns:
        Squared distances and ids, (q, k) each, nearest first; infinite and -1 where the pool has too few points.
    """
    dimension, count, rows = pool.shape[1], min(k + 1, len(pool)), tile_rows(queries, len(pool))
    pool = lift(pool)
    parts = []
    for some, mine in zip(torch.split(queries, rows), torch.split(query_ids, rows), strict=True):
        lifted = lift(some)
        found = nearest_of_lifted(ask(lifted, dimension), pool, pool_ids, count)
        parts.append(without_self(*found, mine, k, lifted[:, dimension]))
    distances, ids = zip(*parts, strict=True)
    return torch.cat(distances), torch.cat(ids)


def smallest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest of each row, in order, and their positions: a faster `torch.topk` for wide rows.

    Columns fall into groups of eight. The k smallest lie in the k groups with the smallest minima, however ties are
    broken, so top-k sees an eighth of the row and then only these groups.
    """
    groups = values.shape[1] // GROUP
    if not k or groups < 2 * k:
        return values.topk(k, dim=1, largest=False)
    # A group is a column of this view, not eight adjacent entries: minima over a leading dimension vectorise.
    grouped = values[:, : GROUP * groups].view(-1, GROUP, groups)
    best = smallest(grouped.amin(dim=1), k)[1]
    parts = torch.arange(0, GROUP * groups, groups, device=values.device)
    left = (parts[:, None] + best[:, None, :]).flatten(1)
    if values.shape[1] > GROUP * groups:
        rest = torch.arange(GROUP * groups, values.shape[1], device=values.device).expand(len(values), -1)
        left = torch.cat([left, rest], dim=1)
    nearest, at = values.gather(1, left).topk(k, dim=1, largest=False)
    return nearest, left.gather(1, at)


def nearest_of_lifted(asking: Tensor, pool: Tensor, pool_ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` of a lifted pool nearest to each query: squared distances, less the query's own square, and ids."""
    away, at = smallest(product(asking, pool.T), count)
    return away, pool_ids[at]


def without_self(away: Tensor, ids: Tensor, mine: Tensor, k: int, squares: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances and ids of k of the (up to) k + 1 neighbours found, which may include the query itself."""
    short = k + 1 - away.shape[1]
    if short > 0:
        away, ids = pad(away, (0, short), value=torch.inf), pad(ids, (0, short), value=-1)
    passed = (ids == mine[:, None]).cumsum(dim=1)[:, :k]
    kept = torch.arange(k, device=ids.device) + passed
    return (away.gather(1, kept) + squares[:, None]).clamp(min=0), ids.gather(1, kept)


def lift(points: Tensor, order: Tensor | None = None) -> Tensor:
    """Each point, in a given order, followed by its square, so a matrix product gives distances; padded to fours."""
    n, dimension = points.shape
    lifted = points.new_zeros(n, lifted_width(dimension))
    order = torch.arange(n, device=points.device) if order is None else order
    rows = tile_rows(points, dimension)
    for some, part in zip(torch.split(order, rows), torch.split(lifted, rows), strict=True):
        part[:, :dimension] = points[some]
        part[:, dimension] = part[:, :dimension].square().sum(dim=1)
    return lifted


def lifted_width(dimension: int) -> int:
    """Number of coordinates of a lifted point."""
    return 4 * (dimension // 4 + 1)


def ask(lifted: Tensor, dimension: int) -> Tensor:
    """What to multiply lifted points by to get squared distances, less the query's own square."""
    asking = -2.0 * lifted
    asking[:, dimension] = 1.0
    return asking


def away_from(points: Tensor, centres: Tensor) -> Tensor:
    """Squared distances to some centres, less the point's own square, which no comparison within a row needs."""
    squares = (centres * centres).sum(dim=1).repeat(len(points), 1)
    return product(points, centres.T, onto=squares, factor=-2.0)


def tile_rows(points: Tensor, width: int) -> int:
    """How many rows a matrix of this width may have and stay small."""
    return max(1, (_TILE_ON_GPU if points.is_cuda else _TILE) // max(1, width))
