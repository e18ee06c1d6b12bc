"""What a sum of reasons means: edges that are known to be false are planted, and others are compared to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from garnet.edges import canonical, contains
from garnet.graph import Graph

Numbers = NDArray[np.float64]

_SHARE, _FIRST_GUESS, _MOST = 0.05, 0.05, 0.5
_ROUNDS, _SETTLED = 50, 1e-4
_STEPS, _RIDGE = 50, 1e-3


@dataclass(frozen=True, eq=False)
class Doubt:
    """How suspicious edges are.

    Attributes:
        suspicion: (m,) from 0 to 1; it falls as belief rises.
        share: its mean, about the share of false edges.
        power: how often a planted edge was believed less than one of the graph.
        planted: (f,) how suspicious the planted edges are.
    """

    suspicion: Numbers
    share: float
    power: float
    planted: Numbers


def planted(graph: Graph, *, seed: int) -> tuple[Graph, NDArray[np.bool_]]:
    """The graph with a twentieth more edges, and which of the edges of this one are the new ones.

    The ends of a new edge are drawn as a rewiring that keeps all degrees would draw them (the configuration model).

    Args:
        graph: the graph.
        seed: of the new edges.
    """
    edges, n = graph.edges, graph.num_nodes
    count = max(1, round(_SHARE * edges.shape[1]))
    rng = np.random.default_rng(seed)
    if not edges.size:
        return graph, np.zeros(0, dtype=np.bool_)
    drawn = edges.ravel()[rng.integers(edges.size, size=(2, 4 * count))]
    drawn = drawn[:, drawn[0] != drawn[1]]
    new = canonical(drawn[0], drawn[1], n)
    new = new[:, ~contains(edges, new, n)]
    new = new[:, np.sort(rng.permutation(new.shape[1])[:count])]
    weights = np.concatenate([graph.weights, np.full(new.shape[1], np.median(graph.weights))])
    copy = graph.with_edges(np.concatenate([edges, new], axis=1), weights)
    return copy, contains(new, copy.edges, n)


def doubt(belief: Numbers, false: Numbers) -> Doubt:
    """How likely each edge is to be one of the false ones that are among all edges.

    Edges are a mixture of true and false ones, of which the planted are a sample. The odds of both are taken to be
    exponential in belief; they and the share of false edges follow by expectation and maximisation.

    Args:
        belief: (m,) of the edges.
        false: (f,) of edges that were planted into copies of the graph.
    """
    if not len(belief) or not len(false):
        return Doubt(np.zeros(len(belief)), 0.0, 0.5, np.zeros(len(false)))
    m, both = len(belief), np.concatenate([belief, false])
    scaled = (both - both.mean()) / max(float(both.std()), 1e-12)
    label = np.concatenate([np.zeros(m), np.ones(len(false))])
    suspicion = np.full(len(both), _FIRST_GUESS)
    for _ in range(_ROUNDS):
        true = 1 - suspicion[:m]
        slope, level = _logistic(scaled, label, np.concatenate([true, np.full(len(false), true.sum() / len(false))]))
        odds = np.exp(np.clip(min(slope, 0.0) * scaled + level, -30, 30))
        share = min(float(suspicion[:m].mean()), _MOST)
        before, suspicion = suspicion, share * odds / (share * odds + 1 - share)
        if np.abs(suspicion - before).max() < _SETTLED:
            break
    return Doubt(suspicion[:m], float(suspicion[:m].mean()), _power(belief, false), suspicion[m:])


def _logistic(
    values: NDArray[np.float64], label: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """Slope and level of a weighted logistic regression on one variable, by Newton's method."""
    design = np.stack([values, np.ones_like(values)], axis=1)
    found = np.zeros(2)
    for _ in range(_STEPS):
        likely = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        gradient = design.T @ (weights * (likely - label)) + _RIDGE * found
        curvature = (design * (weights * likely * (1 - likely))[:, None]).T @ design + _RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        found -= step
        if np.abs(step).max() < 1e-8:
            break
    return float(found[0]), float(found[1])


def _power(true: Numbers, false: Numbers) -> float:
    """The chance that a false edge is believed less than a true one (area under the ROC curve)."""
    ordered = np.sort(true)
    below = (np.searchsorted(ordered, false, "left") + np.searchsorted(ordered, false, "right")) / 2
    return 1 - float(below.mean()) / max(len(true), 1)
