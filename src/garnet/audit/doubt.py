"""What a sum of reasons means: how much an edge is to be doubted that looks as false ones do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_FIRST_GUESS, _MOST = 0.05, 0.5
_STRATA, _HELD = 7, np.array([0.005, 0.0005])
_ROUNDS, _SETTLED, _ENOUGH = 100, 1e-3, 100_000
_STEPS, _RIDGE = 25, 1e-3


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of some edges.

    Attributes:
        belief: (m,) what all reasons together say for each.
        degrees: (m,) the product of the degrees of its ends.
    """

    belief: Numbers
    degrees: Numbers

    def some(self) -> Evidence:
        """About a hundred thousand of the edges, evenly: enough to learn from."""
        step = max(1, len(self.belief) // _ENOUGH)
        return Evidence(self.belief[::step], self.degrees[::step])


@dataclass(frozen=True, eq=False)
class Doubt:
    """How suspicious edges are.

    Attributes:
        suspicion: (m,) from 0 to 1.
        share: its mean, about the share of false edges.
        power: how often a planted edge was believed less than one of the graph.
        planted: (f,) how suspicious the planted edges are.
        say: what the log-odds of the degrees' rank count: above 0 where false edges join nodes of few neighbours, below
            0 where they join hubs.
    """

    suspicion: Numbers
    share: float
    power: float
    planted: Numbers
    say: float


def doubt(edges: Evidence, false: Evidence, *, most_say: float) -> Doubt:
    """How likely each edge is to be one of the false ones that are among all edges.

    Edges are a mixture of true and false ones, of which the planted are a sample: among edges of alike degrees, the
    odds of both are exponential in belief. Who made edges up need not have chosen degrees as the planted have them, so
    the share of false edges may rise or fall with the degrees. All of this follows by expectation and maximisation.
    Then belief and degrees are added up, each with the say that was found, and suspicion is the falling logistic curve
    of this sum that comes nearest to the mixture.

    Args:
        edges: of the graph.
        false: of edges that were planted into copies of the graph.
        most_say: the most that the degrees may count.
    """
    if not len(edges.belief) or not len(false.belief):
        return Doubt(np.zeros(len(edges.belief)), 0.0, 0.5, np.zeros(len(false.belief)), 0.0)
    learnt = edges.some()
    likely, say = _mixture(learnt, false.some())
    say = float(np.clip(say, -most_say, most_say))
    sums = [one.belief + say * log_odds_of_rank(one.degrees, edges.degrees) for one in (learnt, edges, false)]
    centre, spread = sums[1].mean(), max(float(sums[1].std()), 1e-12)
    designs = [np.stack([(centre - one) / spread, np.ones(len(one))], axis=1) for one in sums]
    curve = _logistic(designs[0], likely)
    curve[0] = max(curve[0], 0.0)
    suspicion, planted = (_chance(design @ curve) for design in designs[1:])
    return Doubt(suspicion, float(suspicion.mean()), _power(sums[1], sums[2]), planted, say)


def log_odds_of_rank(values: Numbers, among: Numbers) -> Numbers:
    """The log-odds of the rank that each value has, or would have, among others; ties share theirs."""
    ordered = np.sort(among)
    below = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    share = np.clip(below / len(ordered), 0.5 / len(ordered), 1 - 0.5 / len(ordered))
    return np.log(share / (1 - share))


def _mixture(edges: Evidence, false: Evidence) -> tuple[Numbers, float]:
    """The chance of each edge to be false, (m,), and what degrees count, in units of belief."""
    m, count = len(edges.belief), len(false.belief)
    belief = np.concatenate([edges.belief, false.belief])
    spread = max(float(edges.belief.std()), 1e-12)
    cuts = np.unique(np.quantile(edges.degrees, np.arange(1, _STRATA) / _STRATA))
    strata = np.eye(len(cuts) + 1)[np.searchsorted(cuts, np.concatenate([edges.degrees, false.degrees]), "right")]
    looks = np.column_stack([(belief - edges.belief.mean()) / spread, strata])
    is_planted = np.repeat([0.0, 1.0], [m, count])
    ranks = log_odds_of_rank(edges.degrees, edges.degrees)
    chosen = np.column_stack([ranks, np.ones(m)])

    usual = np.array([0.0, np.log(_FIRST_GUESS / (1 - _FIRST_GUESS))])
    odds, share, likely = np.zeros(looks.shape[1]), usual, np.full(m, _FIRST_GUESS)
    for _ in range(_ROUNDS):
        # In each stratum the planted edges weigh as much as the true ones, so that degrees alone tell nothing.
        true = (1 - likely) @ strata[:m]
        weights = np.concatenate([1 - likely, strata[m:] @ (true / np.maximum(strata[m:].sum(axis=0), 1))])
        odds = _logistic(looks, is_planted, weights, start=odds)
        odds[0] = min(odds[0], 0.0)
        share = _logistic(chosen, likely, held=_HELD * m, at=usual, start=share)
        before, likely = likely, _chance(looks[:m] @ odds + np.minimum(chosen @ share, np.log(_MOST / (1 - _MOST))))
        if np.abs(likely - before).max() < _SETTLED:
            break
    return likely, float(share[0] / odds[0]) * spread if odds[0] else 0.0


def _logistic(
    design: Numbers,
    target: Numbers,
    weights: Numbers | float = 1.0,
    *,
    held: Numbers | float = _RIDGE,
    at: Numbers | float = 0.0,
    start: Numbers | None = None,
) -> Numbers:
    """Coefficients of a weighted logistic regression, by Newton's method; `held` is how strongly they are held `at`."""
    found = np.zeros(design.shape[1]) if start is None else start
    for _ in range(_STEPS):
        chance = _chance(design @ found)
        slope = design.T @ (weights * (chance - target)) + held * (found - at)
        curvature = (design * (weights * chance * (1 - chance))[:, None]).T @ design + np.diag(
            np.broadcast_to(held, len(found))
        )
        step = np.linalg.solve(curvature, slope)
        found = found - step
        if np.abs(step).max() < 1e-6:
            break
    return found


def _chance(log_odds: Numbers) -> Numbers:
    chance: Numbers = 1 / (1 + np.exp(-np.clip(log_odds, -30, 30)))
    return chance


def _power(true: Numbers, false: Numbers) -> float:
    """The chance that a false edge is believed less than a true one (area under the ROC curve)."""
    ordered = np.sort(true)
    below = (np.searchsorted(ordered, false, "left") + np.searchsorted(ordered, false, "right")) / 2
    return 1 - float(below.mean()) / max(len(true), 1)
