"""What a sum of reasons means: how much to doubt an edge that looks like false ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.float64]

WEAK = 0.65
"""Up to this power, planted edges look too similar to others to say which edges are made up, or how many."""

# The prior, before any edge is looked at. It was chosen on the ten published poisoned graphs, and what concerns degrees
# also on our own attacks on Cora; docs/results/audit.md.
_USUAL_SHARE = 0.05
"""Of false edges; it is where the search begins, and what is taken for granted where belief tells nothing."""
_LARGEST_SHARE = 0.5
"""Of false edges among those of any degree: more would make the planted edges the usual ones."""
_HELD = np.array([0.005, 0.0005])
"""How strongly, for each edge, that share is held: not to change with the degrees, and to be the usual one."""

# Strata of similar degrees; planted edges are compared with the others within each.
_MOST_STRATA = 7
_PLANTED_IN_STRATUM = 30
"""Fewer would show too little; so a graph with few planted edges has fewer strata."""

# Where the searches end.
_ENOUGH = 100_000
"""Edges to learn from."""
_ROUNDS = 100
_SETTLED = 1e-3
"""Expectation maximisation stops when no probability changes by this much."""
_NEWTON_STEPS = 50
_NEWTON_SETTLED = 1e-6
_RIDGE = 1e-3
"""Holds coefficients at zero, just enough that there are some where two kinds of edges can be told apart exactly."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about some edges.

    Attributes:
        belief: (m,) the sum of all reasons for each edge.
        degrees: (m,) the log-odds of the rank of its endpoints' degree product among all edges.
    """

    belief: Numbers
    degrees: Numbers

    def some(self) -> Evidence:
        """At most a hundred thousand of them, evenly spaced."""
        step = -(-len(self.belief) // _ENOUGH)
        return Evidence(self.belief[:: step or 1], self.degrees[:: step or 1])


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """How suspicious an edge is, given what is known about it.

    Attributes:
        say: the weight of degrees relative to belief: above 0 where false edges join nodes of few neighbours, below 0
            where they join hubs.
        slope: how much the log-odds of suspicion fall as the weighted sum of belief and degrees rises by one.
        level: the log-odds where this sum is zero.
        power: how often a planted edge was believed less than one of the graph's own.
    """

    say: float
    slope: float
    level: float
    power: float

    def suspicion(self, believed: Tensor) -> Tensor:
        """How likely edges are false, (m,) from 0 to 1, by the weighted sum of belief and degrees."""
        return torch.sigmoid(self.level - self.slope * believed).clamp_max(0.5 if self.power <= WEAK else 1.0)


def learn(edges: Evidence, false: Evidence, *, most_say: float) -> Doubt:
    """Learn how likely an edge is to be one of the false ones among all edges.

    Edges are a mixture of true and false ones, and the planted edges are a sample of the latter: among edges of similar
    degrees, the odds of the two are exponential in belief. Whoever made edges up need not have chosen degrees as the
    planted edges have them, so the share of false edges may rise or fall with the degrees. All of this is fitted by
    expectation maximisation. Then belief and degrees are added with the weights found, and suspicion is the falling
    logistic curve of this sum that comes closest to the mixture. Where belief hardly separates planted edges from
    others, the mixture could be anything: a twentieth of the edges is then assumed to be false, and no edge more likely
    false than true.

    Args:
        edges: the graph's own; a hundred thousand are enough to learn from.
        false: edges planted into copies of the graph, at least one.
        most_say: the largest weight that degrees may have.
    """
    edges, false = edges.some(), false.some()
    likely, say = _mixture(edges, false)
    say = float(np.clip(say, -most_say, most_say)) + 0.0  # never -0.0
    believed, planted = (one.belief + say * one.degrees for one in (edges, false))
    centre, spread = float(believed.mean()), max(float(believed.std()), 1e-12)
    slope, level = logistic(np.column_stack([(centre - believed) / spread, np.ones(len(believed))]), likely)
    slope = max(float(slope), 0.0) / spread
    return Doubt(say=say, slope=slope, level=float(level) + slope * centre, power=_power(believed, planted))


def _mixture(edges: Evidence, false: Evidence) -> tuple[Numbers, float]:
    """The probability that each edge is false, (m,), and the weight of degrees, in units of belief."""
    m, count = len(edges.belief), len(false.belief)
    belief = np.concatenate([edges.belief, false.belief])
    spread = max(float(edges.belief.std()), 1e-12)
    # By the planted edges, so that each stratum has some.
    strata_count = min(_MOST_STRATA, max(1, count // _PLANTED_IN_STRATUM))
    cuts = np.unique(np.quantile(false.degrees, np.arange(1, strata_count) / strata_count))
    strata = np.eye(len(cuts) + 1)[np.searchsorted(cuts, np.concatenate([edges.degrees, false.degrees]), "right")]
    looks = np.column_stack([(belief - edges.belief.mean()) / spread, strata])
    is_planted = np.repeat([0.0, 1.0], [m, count])
    chosen = np.column_stack([edges.degrees, np.ones(m)])

    usual = np.array([0.0, np.log(_USUAL_SHARE / (1 - _USUAL_SHARE))])
    telling = _power(edges.belief, false.belief) > WEAK
    odds, share, likely = np.zeros(looks.shape[1]), usual, np.full(m, _USUAL_SHARE)
    for _ in range(_ROUNDS):
        # In each stratum the planted edges weigh as much as the true ones, so degrees alone reveal nothing.
        true = (1 - likely) @ strata[:m]
        weights = np.concatenate([1 - likely, strata[m:] @ (true / np.maximum(strata[m:].sum(axis=0), 1))])
        odds = logistic(looks, is_planted, weights, start=odds)
        odds[0] = min(odds[0], 0.0)
        if telling:
            share = logistic(chosen, likely, held=_HELD * m, at=usual, start=share)
        before, likely = (
            likely,
            _chance(looks[:m] @ odds + np.minimum(chosen @ share, np.log(_LARGEST_SHARE / (1 - _LARGEST_SHARE)))),
        )
        if np.abs(likely - before).max() < _SETTLED:
            break
    return likely, float(share[0] / odds[0]) * spread if odds[0] else 0.0


def logistic(
    design: Numbers,
    target: Numbers,
    weights: Numbers | float = 1.0,
    *,
    held: Numbers | float = _RIDGE,
    at: Numbers | float = 0.0,
    start: Numbers | None = None,
) -> Numbers:
    """Coefficients of a weighted logistic regression, by Newton's method; `held` is how strongly they are held `at`."""

    def cost(at_point: Numbers) -> float:
        scores = design @ at_point
        return float(
            np.sum(weights * (np.logaddexp(0, scores) - target * scores)) + np.sum(held * (at_point - at) ** 2) / 2
        )

    found = np.zeros(design.shape[1]) if start is None else start
    least = cost(found)
    for _ in range(_NEWTON_STEPS):
        chance = _chance(design @ found)
        slope = design.T @ (weights * (chance - target)) + held * (found - at)
        curvature = (design * (weights * chance * (1 - chance))[:, None]).T @ design
        step = np.linalg.solve(curvature + np.diag(np.broadcast_to(held, len(found))), slope)
        # A full step overshoots where probabilities are near 0 or 1.
        while (reached := cost(found - step)) > least and np.abs(step).max() > _NEWTON_SETTLED:
            step = step / 2
        found, least = found - step, min(least, reached)
        if np.abs(step).max() <= _NEWTON_SETTLED:
            break
    return found


def _chance(log_odds: Numbers) -> Numbers:
    chance: Numbers = 1 / (1 + np.exp(-np.clip(log_odds, -30, 30)))
    return chance


def _power(true: Numbers, false: Numbers) -> float:
    """The probability that a false edge is believed less than a true one (area under the ROC curve)."""
    ordered = np.sort(true)
    below = (np.searchsorted(ordered, false, "left") + np.searchsorted(ordered, false, "right")) / 2
    return 1 - float(below.mean()) / max(len(true), 1)
