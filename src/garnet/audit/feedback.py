"""What a person said about some edges, and what follows for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.audit.evidence import Reasons
from garnet.audit.judged import CONFIRMED, REFUTED, Judged
from garnet.graph.graph import Edges
from garnet.purify.calibration import WEAK, Doubt, logistic

Numbers = NDArray[np.float64]

# The weights of judged edges. All were chosen on block models with rings, and on Cora with edges made up at random,
# between classes, and at some targets, with half of them refuted or the forty most suspicious edges judged: of six
# settings, the one with the largest gains among those that hardly ever lost.
_KNOWN = 40.0
"""The edges that the audit itself takes for made up count as this many refuted edges."""
_CONFIRMED_COUNT = 0.25
"""Weight of a confirmed edge beside an unjudged one: people confirm among the worst edges, which are not typical."""
_HELD = 5.0
"""How strongly each weight is held at its old value, in examples."""
_SPREADS = 0.5
"""How much the judged edges at its ends count for an edge, before the data show whether they should."""
_LEAST_SPREADS = 0.1
"""The least they count: a refuted edge makes the others at its ends more suspicious, whatever the data show."""
_EDGES_HELD = 4.0
"""Pseudo-count: this many edges of the usual doubt are added to the judged ones of each node."""
_LEAST_SHARE = 0.005
"""Least share of made-up edges; with fewer, the true ones would be too many to learn anything against."""
_ENOUGH = 100_000
"""Unjudged edges to learn from."""


@dataclass(frozen=True, eq=False)
class Revised:
    """What an audit believes after feedback.

    Attributes:
        suspicion: (m,) of each edge; 1 for refuted ones, 0 for confirmed ones.
        weights: the new weight of each reason.
        beside: (m,) what the judged edges at its ends say against each, in the units of the sum of reasons.
    """

    suspicion: Numbers
    weights: Mapping[str, float]
    beside: Tensor


def revise(edges: Edges, n: int, reasons: Reasons, found: Doubt, judged: Judged) -> Revised:
    """Suspicion after some edges have been refuted or confirmed.

    The log-odds of suspicion are a weighted sum of all reasons and of what the judged edges at both ends say. The
    weights are learnt again by a logistic regression that is held at the old ones. Its false edges are those that the
    audit takes for made up, in proportion to their suspicion, and the refuted ones, which count more the more there
    are; its true edges likewise. An end with r refuted and c confirmed edges, besides the one in question, adds the
    log-odds of (r + h t) / (r + c + h) minus those of t, where t is the usual suspicion; whether made-up edges gather
    in this way is learnt as well. A confirmation never makes the other edges of its ends more suspicious.

    Args:
        edges: (2, m) of the graph.
        n: the number of nodes.
        reasons: the evidence on each edge, and the weights so far.
        found: what the audit made of it.
        judged: (m,) the judgement on each edge; at least one was judged.
    """
    names = list(reasons.weights)
    against = np.column_stack([-reasons.said[name].double().cpu().numpy() for name in names])
    start = (found.level - found.slope * reasons.belief).cpu().numpy()
    before = np.array([found.slope * reasons.weights[name] for name in names])
    lesson = _lesson(edges, n, against, start, before, judged)
    log_odds = start + lesson.change
    if (judged == CONFIRMED).any():
        # A confirmed edge may look odd in a way of its own, which would count more if this counted less.
        refuted = np.where(judged == REFUTED, judged, 0).astype(np.int8)
        otherwise = start + _lesson(edges, n, against, start, before, refuted).change if refuted.any() else start
        touched = np.zeros(n, dtype=bool)
        touched[edges[:, judged == CONFIRMED]] = True
        near = touched[edges].any(axis=0)
        log_odds[near] = np.minimum(log_odds, otherwise)[near]
    suspicion = torch.sigmoid(torch.from_numpy(log_odds)).clamp_max(0.5 if found.power <= WEAK else 1.0).numpy()
    suspicion[judged == REFUTED], suspicion[judged == CONFIRMED] = 1.0, 0.0
    unit = found.slope or 1.0
    weights = {name: float(weight) / unit for name, weight in zip(names, lesson.weights, strict=True)}
    return Revised(suspicion, weights, torch.from_numpy(lesson.beside / unit))


class _Lesson(NamedTuple):
    """What judged edges teach.

    Attributes:
        change: (m,) change of the log-odds of suspicion of each edge.
        weights: weights of the reasons, in units of these log-odds.
        beside: (m,) what the judged edges at its ends say against each.
    """

    change: Numbers
    weights: Numbers
    beside: Numbers


def _lesson(edges: Edges, n: int, against: Numbers, start: Numbers, before: Numbers, judged: Judged) -> _Lesson:
    chance = _chance(start)
    usual = float(np.clip(chance.mean(), _LEAST_SHARE, 0.5))
    beside = _of_ends(edges, n, usual, judged)
    false, true = _examples(chance, usual, judged)
    counts = false + true
    design = np.column_stack([against, np.ones(len(judged)), beside])
    # The part of the initial log-odds that the sum of reasons does not explain.
    held_at = np.concatenate([before, [float((start - against @ before).mean()), _SPREADS]])
    chosen = counts > 0
    target = false[chosen] / counts[chosen]
    learnt = logistic(design[chosen], target, counts[chosen], held=_HELD, at=held_at, start=held_at)
    learnt[-1] = max(learnt[-1], _LEAST_SPREADS)
    change = design @ (learnt - np.append(held_at[:-1], 0.0))
    return _Lesson(change, learnt[: len(before)], learnt[-1] * beside)


def _examples(chance: Numbers, usual: float, judged: Judged) -> tuple[Numbers, Numbers]:
    """How much each edge counts as an example of made-up ones, and of true ones."""
    free = judged == 0
    free &= _some(free)
    refuted, confirmed = judged == REFUTED, judged == CONFIRMED
    total = _KNOWN / usual + refuted.sum() + confirmed.sum()

    def side(mine: NDArray[np.bool_], each: float, rest: Numbers, share: float) -> Numbers:
        told = each * mine.sum()
        new = told / (told + _KNOWN * share / usual)
        mixed = new * mine / max(mine.sum(), 1) + (1 - new) * rest / max(rest.sum(), 1e-12)
        return np.asarray(total * share * mixed)

    return side(refuted, 1.0, chance * free, usual), side(confirmed, _CONFIRMED_COUNT, (1 - chance) * free, 1 - usual)


def _of_ends(edges: Edges, n: int, usual: float, judged: Judged) -> Numbers:
    """What the judged edges at both ends, other than itself, say against each edge."""
    total = np.zeros(len(judged))
    refuted, confirmed = judged == REFUTED, judged == CONFIRMED
    at = [np.bincount(edges.ravel(), np.tile(some, 2), n) for some in (refuted, confirmed)]
    for end in edges:
        bad, good = at[0][end] - refuted, at[1][end] - confirmed
        share = (bad + _EDGES_HELD * usual) / (bad + good + _EDGES_HELD)
        total += np.log(share / (1 - share)) - np.log(usual / (1 - usual))
    return total


def _some(free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """At most a hundred thousand of them, evenly spaced."""
    step = -(-int(free.sum()) // _ENOUGH) or 1
    return np.asarray((np.cumsum(free) - 1) % step == 0)


def _chance(log_odds: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -30, 30))))
