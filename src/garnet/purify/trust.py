"""From suspicion to trust: the weights of edges, and what nodes get back for the weight they have lost."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from garnet.purify.features import alikeness, scale
from garnet.purify.place import Embedding, Learnt, Neighborhoods, Scored, Work
from garnet.purify.scores import Measured, TileEdges
from garnet.purify.settings import Settings
from garnet.purify.suspicion import (
    LEAST_REFILL,
    LEAST_TRUST,
    Concentration,
    Seen,
    suspicion_of,
)

_NEXT_TO_NONE = 1e-6  # of trust, so that one can divide by it


def learn(work: Work, embedding: Embedding, settings: Settings) -> Learnt:
    """Learn what distinguishes planted edges from the others."""
    seen: Seen = work.seen(embedding)
    rank, alike = embedding.spectrum.rank, 0.0
    if embedding.feature_weight:
        alike = alikeness(lambda nodes: scale(work.take(embedding.points, nodes)[:, rank:], "unit"), seen.edges)
    shape = work.shape
    suspicion = suspicion_of(seen, alike=alike, mean=2 * shape.edges / shape.nodes, credit=settings.credit)
    return Learnt(suspicion, seen.edges.cpu(), suspicion.log_odds(seen.given).cpu())


def trusted(work: Work, scored: Scored, learnt: Learnt, settings: Settings) -> tuple[Scored, Neighborhoods]:
    """Put each edge's trust in its support, and where edges weigh by trust, scale its weight by it."""
    concentration, sums = None, torch.zeros(work.shape.nodes, 2, dtype=torch.float64)
    if not learnt.suspicion.blind:
        sums = work.at_nodes(scored, chances).cpu().float()
        first, second = sums[learnt.edges]
        concentration = Concentration.of(learnt.log_odds, first, second)
    weigh = settings.weight == "trust"
    scored = work.revise("trusted", scored, partial(_trusted, concentration, settings.caution, weigh), sums)
    best = work.at_nodes(scored, _trust, largest=True)
    upheld = work.revise("upheld", scored, partial(_upheld, weigh), best)
    return upheld, Neighborhoods(concentration, sums, best)


def chances(edges: TileEdges, measured: Measured) -> Tensor:
    """(m, 2) the probability that each input edge is made up, and a one for each."""
    return torch.stack([torch.where(edges.given, (-measured.support.double()).sigmoid(), 0.0), edges.given], dim=1)


def _trusted(
    concentration: Concentration | None,
    caution: float,
    weigh: bool,
    edges: TileEdges,
    measured: Measured,
    left: Tensor,
    right: Tensor,
) -> tuple[TileEdges, Measured]:
    trust = torch.ones_like(measured.support)
    if concentration is not None:
        first, second = left[edges.ends[0]], right[edges.ends[1]]
        trust = trust_of(concentration, caution, -measured.support.double(), first, second)
    trust = trust.masked_fill(~edges.given, math.nan)
    weight = torch.where(edges.given & weigh, measured.weight * trust, measured.weight)
    return edges, Measured(measured.score, trust, weight)


def trust_of(concentration: Concentration, caution: float, log_odds: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """How far edges are trusted, (m,), by their log-odds of being made up and the (m, 2) `sums` of their endpoints."""
    told = concentration.log_odds(log_odds, first, second)
    # If neither spectrum nor features describe an endpoint, nothing speaks against the edge.
    told = torch.where(log_odds.isinf(), -math.inf, told)
    return (-told - math.log(caution)).sigmoid().clamp_min(_NEXT_TO_NONE).float()


def _trust(edges: TileEdges, measured: Measured) -> Tensor:
    return torch.where(edges.given, measured.support, 0.0)[:, None]


def _upheld(
    weigh: bool, edges: TileEdges, measured: Measured, left: Tensor, right: Tensor
) -> tuple[TileEdges, Measured]:
    trust = measured.support
    upheld = upheld_by(trust, left[edges.ends[0], 0], right[edges.ends[1], 0])
    weight = torch.where(edges.given & weigh, measured.weight * (upheld / trust), measured.weight)
    return edges, Measured(measured.score, upheld, weight)


def upheld_by(trust: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Where an endpoint trusts none of its edges much, this counts against none of them in full.

    So trust is divided by the root of the largest trust at each endpoint, the smaller of the two; and the edge that an
    endpoint trusts most is never dropped, as that would isolate the node.
    """
    upheld = uphold(trust, first, second)
    best = (trust >= first) | (trust >= second)
    return torch.where(best, upheld.clamp_min(LEAST_TRUST), upheld)


def uphold(trust: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Trust, (m,), divided by the root of the largest trust at each endpoint, the smaller of the two."""
    return (trust / torch.minimum(first, second).clamp_min(_NEXT_TO_NONE).sqrt()).clamp_max(1.0)


def refilled(work: Work, scored: Scored, threshold: float, refill: float) -> Scored:
    """Share the weight each node has lost among its near neighbours; those that would get next to nothing get none."""
    shape = work.shape
    usual = shape.mean_degree * shape.nodes / max(2 * shape.edges, 1)
    lost, near = work.at_nodes(scored, partial(_lost, threshold)).unbind(dim=1)
    rates = torch.where(near > 0, refill * lost / near.clamp_min(1e-12), 0.0).float()[:, None]
    return work.revise("refilled", scored, partial(_refilled, threshold, LEAST_REFILL * usual), rates)


def _stays(measured: Measured) -> Tensor:
    """Which input edges are trusted enough; NaN is not."""
    return measured.support >= LEAST_TRUST


def _nearness(edges: TileEdges, measured: Measured, threshold: float) -> Tensor:
    """(m,) how near the endpoints of unpruned base edges are; one for edges of the input."""
    near = edges.near & (measured.score >= threshold)
    return torch.where(near, torch.where(edges.given, 1.0, measured.weight.clamp_min(0)), 0.0).double()


def _lost(threshold: float, edges: TileEdges, measured: Measured) -> Tensor:
    """(m, 2) the weight that each input edge has lost, and its nearness."""
    before = measured.weight.double() / measured.support.double()
    after = torch.where(_stays(measured), measured.weight.double(), 0.0)
    return torch.stack([torch.where(edges.given, before - after, 0.0), _nearness(edges, measured, threshold)], dim=1)


def _refilled(
    threshold: float, least: float, edges: TileEdges, measured: Measured, left: Tensor, right: Tensor
) -> tuple[TileEdges, Measured]:
    rates = left[edges.ends[0], 0].double() + right[edges.ends[1], 0].double()
    new = rates * _nearness(edges, measured, threshold)
    near = new >= least if least > 0 else new > 0
    kept = torch.where(_stays(measured), measured.weight.double(), 0.0)
    weight = (kept + torch.where(near, new, 0.0)).float()
    return TileEdges(edges.ends, near, edges.given), Measured(measured.score, measured.support, weight)
