"""How much each edge is doubted: as far as it, and the other edges of its endpoints, look like planted edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from garnet.linalg.edge_products import inner_products, squared_distances
from garnet.purify.calibration import WEAK, Evidence, learn
from garnet.purify.features import scale

MOST_LEARNT = 100_000
"""Input edges compared with the planted ones; a regular sample if there are more."""

# Weights, as in the audit; docs/results/audit.md says on which graphs they were chosen.
_NEIGHBORS_COUNT_FULLY = 8.0
"""At this mean degree, sharing neighbours counts one."""
_FEATURES_COUNT_FULLY = 0.5
"""Where edges are ahead of chance by so much (Somers' d) in joining nodes of alike features, these count one."""

# Chosen on cora, citeseer, chameleon, polblogs, acm and texas, clean and attacked; the study leave-it-on uses others.
_SHARE_FOR_POWER = 6.0
"""The share of edges that can be taken for made up, for each unit of power beyond the weakest: who tells them badly
cannot know that they are many. Decided on drawn block models."""
_SPREADS = 0.7
"""How much the doubt in the other edges of its endpoints counts for an edge."""
_HELD = 4.0
"""So many edges of the usual doubt are counted among those of each node."""
LEAST_TRUST = 0.25
"""An edge trusted less than this is dropped."""
LEAST_REFILL = 0.02
"""Of the mean weight of an edge: new edges that would weigh less are not worth their place."""

_KNOTS = 1_024
"""Between so many values of what is seen of edges, the log-odds of a rank are interpolated."""
_BISECTIONS = 50


def looks(
    ends: Tensor, points: tuple[Tensor, Tensor], counts: tuple[Tensor, Tensor], shared: Tensor, rank: int, mean: float
) -> Tensor:
    """What is observed about edges, (4, m): larger values speak for them, except for the last, degrees.

    The first is minus their squared length in the spectral embedding, times the root of 1 / d_i + 1 / d_j, roughly
    their effective resistance: both are terms of the gradient of the graphical model (equation 4 of the paper). Then
    come the neighbours that their endpoints share, worth less the fewer there are; how alike their features are; and
    the product of their degrees.

    Args:
        ends: (2, m) rows of the first block and of the second.
        points: the rows of V beside the features, of the first and of the second endpoints.
        counts: the number of neighbours of the nodes of both blocks.
        shared: (m,) common neighbours, as a share of the most there could be.
        rank: number of spectral coordinates.
        mean: degree, over all nodes.
    """
    first, second = (one[of].float() for one, of in zip(counts, ends, strict=True))
    fewer, more = torch.minimum(first, second).clamp_min(1), torch.maximum(first, second).clamp_min(1)

    def unit(block: slice) -> tuple[Tensor, Tensor]:
        left = scale(points[0][:, block], "unit")
        return left, left if points[1] is points[0] else scale(points[1][:, block], "unit")

    found = torch.zeros(4, ends.shape[1], device=ends.device)
    found[0] = -squared_distances(*unit(slice(rank)), ends) * (1 / fewer + 1 / more).sqrt()
    found[1] = shared * (fewer - 1).clamp_min(1) / (fewer - 1 + mean)
    if points[0].shape[1] > rank:
        found[2] = inner_products(*unit(slice(rank, None)), ends)
    found[3] = fewer * more
    return found


class Seen(NamedTuple):
    """What to learn from.

    Attributes:
        edges: (2, g) edges of the input, a sample if there are very many.
        given: (4, g) what is observed about them.
        planted: (4, p) what is observed about planted edges.
    """

    edges: Tensor
    given: Tensor
    planted: Tensor


@dataclass(frozen=True, eq=False)
class Suspicion:
    """What made-up edges look like in a graph.

    Attributes:
        knots: (4, q) sorted values of what is observed about edges.
        ranks: (4, q) the log-odds of the rank of each among the edges of the graph.
        weights: (4,) how much each counts for an edge.
        slope: how much the log-odds of being made up fall as their sum rises by one.
        level: the log-odds where the sum is zero.
        power: how often a planted edge looked worse than one of the graph's own.
        blind: whether they look too similar to tell apart.
        credit: how far an edge that looks made up is doubted, from 0 to 1.
    """

    knots: Tensor
    ranks: Tensor
    weights: Tensor
    slope: float
    level: float
    power: float
    blind: bool
    credit: float = 1.0

    def log_odds(self, seen: Tensor) -> Tensor:
        """The log-odds of being made up, (m,) in float64, given what is observed about edges, (4, m)."""
        if self.blind:
            return torch.full(seen.shape[1:], -math.inf, dtype=torch.float64, device=seen.device)
        first, second, third, last = self.said(seen)
        return self.told(first + second + third + last)

    def said(self, seen: Tensor) -> Tensor:
        """How much each observation about edges, (4, m), speaks for them, weighted: (4, m) in float64."""
        said = torch.zeros(seen.shape, dtype=torch.float64, device=seen.device)
        for row, values, knots, ranks, weight in zip(
            said, seen, self.knots, self.ranks, self.weights.tolist(), strict=True
        ):
            if weight:
                row += weight * interpolated(values.double(), knots.to(seen.device), ranks.to(seen.device))
        return said

    def told(self, belief: Tensor) -> Tensor:
        """The log-odds of being made up, (m,), given the sum of what speaks for edges."""
        told = self.level - self.slope * belief
        return told if self.credit == 1 else torch.logit(self.credit * told.sigmoid())


def suspicion_of(seen: Seen, *, alike: float, mean: float, credit: float) -> Suspicion:
    """Learn what distinguishes planted edges from the graph's own.

    `garnet.purify.calibration` decides how it is learnt, and how many edges are taken for made up.

    Args:
        seen: what to learn from.
        alike: how alike the features of joined nodes are; see `garnet.purify.features.alikeness`.
        mean: degree, over all nodes.
        credit: how far an edge that looks made up is doubted.
    """
    knots, ranks = map(torch.stack, zip(*(knots_of(values.double().cpu()) for values in seen.given), strict=True))
    features = max(0.0, alike) / _FEATURES_COUNT_FULLY
    weights = torch.tensor([1.0, mean / _NEIGHBORS_COUNT_FULLY, features, 0.0], dtype=torch.float64)

    def evidence(columns: Tensor) -> Evidence:
        *said, degrees = (interpolated(*one) for one in zip(columns.double().cpu(), knots, ranks, strict=True))
        belief = sum((weight * one for weight, one in zip(weights.tolist(), said, strict=False)), torch.zeros(()))
        return Evidence(belief.expand(len(degrees)).numpy(), degrees.numpy())

    count = seen.planted.shape[1]
    if not count or not seen.given.shape[1]:
        return Suspicion(knots, ranks, weights, 0.0, 0.0, 0.5, blind=True)
    # The more shared neighbours count, the less degrees add.
    found = learn(evidence(seen.given), evidence(seen.planted), most_say=_NEIGHBORS_COUNT_FULLY / max(mean, 1e-9))
    weights[3] = found.say
    # A few planted edges can look worse than others by chance.
    beyond = found.power - 2 * math.sqrt(found.power * (1 - found.power) / count) - WEAK
    if beyond <= 0:
        credit = 0.0
    told = Suspicion(knots, ranks, weights, found.slope, found.level, found.power, blind=not credit, credit=1.0)
    share = float(told.log_odds(seen.given).sigmoid().mean())
    return replace(told, credit=credit * min(1.0, _SHARE_FOR_POWER * beyond / share) if share else credit)


def knots_of(values: Tensor, count: int = _KNOTS) -> tuple[Tensor, Tensor]:
    """This many of the values, sorted, and the log-odds of their ranks; ties share a rank."""
    ordered, counts = torch.unique(values, return_counts=True)
    ranks = torch.logit((counts.cumsum(0).double() - counts.double() / 2) / max(len(values), 1))
    chosen = torch.linspace(0, max(len(ordered) - 1, 0), count, dtype=torch.float64).round().long()
    return (ordered[chosen], ranks[chosen]) if len(ordered) else (torch.zeros(count), torch.zeros(count))


def interpolated(values: Tensor, knots: Tensor, ranks: Tensor) -> Tensor:
    """The log-odds of the ranks of values, interpolated between knots; beyond them, those of the last knot."""
    above = torch.searchsorted(knots, values).clamp(1, len(knots) - 1)
    low, high = knots[above - 1], knots[above]
    way = torch.where(high > low, (values - low) / (high - low), 1.0).clamp(0, 1)
    return ranks[above - 1] + way * (ranks[above] - ranks[above - 1])


@dataclass(frozen=True)
class Concentration:
    """Nodes attacked once are attacked often: the doubt in the other edges of its endpoints counts for an edge.

    With s the probability that an edge is made up, and t the mean over all edges, an endpoint whose other d - 1 edges
    have the probabilities s' adds a part of the log-odds of (sum of s' + h t) / (d - 1 + h), less those of t. The shift
    keeps the mean of all probabilities unchanged.

    Attributes:
        usual: t.
        shift: of the log-odds.
    """

    usual: float
    shift: float = 0.0

    @classmethod
    def of(cls, log_odds: Tensor, first: Tensor, second: Tensor) -> Concentration:
        """The concentration of a graph.

        Args:
            log_odds: (g,) log-odds of some edges.
            first: (g, 2) the sum of the probabilities of all edges at their first endpoints, and the number of these.
            second: the same for their second endpoints.
        """
        usual = float(log_odds.sigmoid().mean())
        spread = cls(usual).log_odds(log_odds, first, second)
        low, high = -30.0, 30.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if (spread + middle).sigmoid().mean() > usual else (middle, high)
        return cls(usual, (low + high) / 2)

    def log_odds(self, log_odds: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The log-odds that edges are made up, given their endpoints, too; see `of`."""
        own, at = log_odds.sigmoid(), _logit(torch.tensor(self.usual, dtype=torch.float64))
        total = log_odds + self.shift
        for ends in (first.double(), second.double()):
            others = (ends[:, 0] - own + _HELD * self.usual) / (ends[:, 1] - 1 + _HELD)
            total = total + _SPREADS * (_logit(others) - at)
        return total


def _logit(chance: Tensor) -> Tensor:
    return torch.logit(chance.clamp(1e-6, 1 - 1e-6))
