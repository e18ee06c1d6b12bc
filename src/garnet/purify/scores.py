"""What decides which edges stay: how critical each is, what supports it, and the choice among them.

It is all written for the edges of one tile: those between two parts of the nodes, whose points are the rows of two
blocks. In memory there is one tile, and both blocks hold all points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from garnet.linalg.edge_products import inner_products, squared_distances
from garnet.purify.features import scale
from garnet.purify.settings import Settings

Critical = Callable[[Tensor, Tensor, Tensor], Tensor]
"""How critical each edge is: rows of one end, rows of the other, and (2, m) edges between them give (m,)."""


class TileEdges(NamedTuple):
    """The edges of a tile, sorted: of the base graph, of the input, or of both.

    Attributes:
        ends: (2, m) rows of the first block and of the second.
        near: (m,) which are in the base graph.
        given: (m,) which are in the input.
    """

    ends: Tensor
    near: Tensor
    given: Tensor

    def of_input(self) -> TileEdges:
        """Those in the input."""
        return TileEdges(self.ends[:, self.given], self.near[self.given], self.given[self.given])


def merged(base: Tensor, given: Tensor, width: int) -> TileEdges:
    """The edges of the base graph and of the input, each once.

    Args:
        base: (2, b) edges, in any order, some perhaps twice.
        given: (2, g) edges, sorted, each once.
        width: number of possible second endpoints.
    """
    if not base.shape[1]:
        of_input = torch.ones(given.shape[1], dtype=torch.bool, device=given.device)
        return TileEdges(given, ~of_input, of_input)
    # The last bit says that a pair is from the input: one sort brings equal pairs together.
    keys = torch.cat([(base[0] * width + base[1]) << 1, ((given[0] * width + given[1]) << 1) | 1]).sort().values
    change = keys.new_ones(len(keys) + 1, dtype=torch.bool)
    change[1:-1] = keys[1:] >> 1 != keys[:-1] >> 1
    # Of equal pairs the first is the base graph's, if any is, and the last the input's.
    near, of_input = keys[change[:-1]] & 1 == 0, keys[change[1:]] & 1 == 1
    pairs = keys[change[:-1]] >> 1
    first = torch.div(pairs, max(width, 1), rounding_mode="floor")
    return TileEdges(torch.stack([first, pairs - first * width]), near, of_input)


def distance(left: Tensor, right: Tensor, edges: Tensor) -> Tensor:
    """-||V_i - V_j||^2, the simplified metric of appendix S."""
    return -squared_distances(left, right, edges)


def signed(values: Tensor) -> Critical:
    """The entry of U L U^T, the other metric of appendix S, for the signs of these eigenvalues."""
    return partial(_mirrored_products, values.sign())


def _mirrored_products(signs: Tensor, left: Tensor, right: Tensor, edges: Tensor) -> Tensor:
    mirrored = right.clone()
    mirrored[:, : len(signs)] *= signs.to(right)
    return inner_products(left, mirrored, edges)


class Measured(NamedTuple):
    """What was found about the edges of a tile, (m,) each.

    Attributes:
        score: how critical each is; infinite where nothing is known about an endpoint, so nothing speaks against it.
        support: what speaks for each input edge; finally, where planted edges determine it, how far it is trusted. NaN
            for others, or if not asked for.
        weight: the weight of each, if it stays.
    """

    score: Tensor
    support: Tensor
    weight: Tensor


def measure(edges: TileEdges, left: Tensor, right: Tensor, settings: Settings, critical: Critical) -> Measured:
    """Measure the edges of a tile by the points of their endpoints; common neighbours are yet to be added.

    The support of an edge is twice the inner product of its points. Where all rows have one length, that is minus the
    squared distance, up to a constant; but it does not put a node without features near all others.

    Args:
        edges: the edges of the tile.
        left: the points of the first endpoints.
        right: the points of the second endpoints.
        settings: of the purification.
        critical: the function that scores them.
    """
    unknown = _unknown(left)[edges.ends[0]] | _unknown(right)[edges.ends[1]]
    score = critical(left, right, edges.ends).masked_fill_(unknown, math.inf)
    support = torch.full_like(score, math.nan)
    if isinstance(settings.support, float | int):
        alike = 2 * inner_products(left, right, edges.ends[:, edges.given])
        support[edges.given] = alike.masked_fill_(unknown[edges.given], math.inf)
    if settings.weight in ("similarity", "trust"):
        directions = scale(left, "unit")
        others = directions if right is left else scale(right, "unit")
        weight = inner_products(directions, others, edges.ends).masked_fill_(unknown, 1.0)
    elif settings.weight == "score":
        weight = torch.where(score.isinf(), 1.0, score)
    else:
        weight = torch.ones_like(score)
    return Measured(score, support, weight)


def _unknown(points: Tensor) -> Tensor:
    """Which points are zero: neither spectrum nor features say anything about them."""
    return points.abs().amax(dim=1) == 0


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which of the measured edges stay, and their least weight.

    Attributes:
        threshold: gamma in the units of the scores; base edges that score below it are dropped.
        doubt: input edges with less support are not kept merely because they were there; None if none are.
        floor: the least weight.
    """

    threshold: float
    doubt: float | None
    floor: float = 0.0

    def stays(self, near: Tensor, measured: Measured) -> Tensor:
        """Which edges stay, (m,)."""
        stays = near & (measured.score >= self.threshold)
        # NaN exceeds nothing.
        return stays if self.doubt is None else stays | (measured.support >= self.doubt)


class Tally(NamedTuple):
    """The counts that a choice gives.

    Attributes:
        kept: edges of the input that stay.
        dropped: edges of the input that do not.
        added: edges that the input did not have.
        base_edges: edges of the base graph.
        heaviest: the largest weight of the edges that stay.
    """

    kept: int
    dropped: int
    added: int
    base_edges: int
    heaviest: float

    @classmethod
    def of(cls, choice: Choice, edges: TileEdges, measured: Measured) -> Tally:
        """The tally of one tile's edges."""
        stays = choice.stays(edges.near, measured)
        kept, given, staying = (int(which.sum()) for which in (edges.given & stays, edges.given, stays))
        heaviest = float(measured.weight[stays].max()) if staying else 0.0
        return cls(kept, given - kept, staying - kept, int(edges.near.sum()), heaviest)

    @classmethod
    def sum(cls, tallies: Iterable[Tally]) -> Tally:
        """The tally of several tiles together."""
        kept, dropped, added, base_edges, heaviest = zip(*tallies, strict=True)
        return cls(sum(kept), sum(dropped), sum(added), sum(base_edges), max(heaviest))


def gathered(found: Tensor, ends: Tensor, rows: int, *, largest: bool) -> Tensor:
    """The sums, (rows, q) in float64, of values of edges, (m, q), at one endpoint of each; or the largest."""
    total = torch.zeros(rows, found.shape[1], dtype=torch.float64, device=found.device)
    if largest:
        return total.scatter_reduce_(0, ends[:, None].expand_as(found), found.double(), "amax")
    return total.index_add_(0, ends, found.double())


def least_weight(settings: Settings, heaviest: float) -> float:
    """An edge that stays though its weight would vanish gets a thousandth of the largest."""
    if settings.weight not in ("similarity", "score"):
        return 0.0
    return max(1e-3 * heaviest, torch.finfo(torch.float32).tiny)
