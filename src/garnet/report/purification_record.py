"""What became of a graph when it was purified: all that a report needs to know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.edges import canonical, contains
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.graph.provenance import Provenance
from garnet.linalg.sparse import to_host
from garnet.purify.result import Purification

_BINS, _QUANTILES, _CROWDED = 50, (0.005, 0.05, 0.95, 0.995), 0.2


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How well models do on the test nodes, a share for each seed, when trained on the graph before and after.

    Attributes:
        before: on the graph that was given.
        after: on the purified graph.
        model: its name.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    model: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What became of a graph when it was purified.

    Attributes:
        edges: (2, m) edges of the graph before, after, or of both, as `garnet.graph.graph.Edges`.
        scores: (m,) how critical each is; infinite where nothing is known of an end.
        weights_before: (m,) zero for edges that were not there.
        weights_after: (m,) zero for edges that are there no more.
        num_nodes: of both graphs.
        labels: (n,) or None.
        names: (n,) or None.
        base_counts: (b,) how many edges of the base graph have a score in each bin.
        base_bounds: (b + 1,) of the bins.
        threshold: gamma in the units of the scores.
        values: (r,) the leading eigenvalues of the graph before.
        summary: as `Purification.summary` gives it.
        made: where it came from, with the fingerprints of the graphs `before` and `after`.
        truth: (2, t) the edges that an attack is known to have added; None if that is not known.
        accuracy: of models; None if none were trained.
    """

    edges: Edges
    scores: NDArray[np.float32]
    weights_before: NDArray[np.float32]
    weights_after: NDArray[np.float32]
    num_nodes: int
    labels: NDArray[np.int64] | None
    names: NDArray[Any] | None
    base_counts: NDArray[np.int64]
    base_bounds: NDArray[np.float64]
    threshold: float
    values: NDArray[np.float64]
    summary: Mapping[str, Any]
    made: Provenance
    truth: Edges | None
    accuracy: Accuracy | None

    @property
    def given(self) -> NDArray[np.bool_]:
        """(m,) which edges the graph had before."""
        return self.weights_before > 0

    @property
    def stays(self) -> NDArray[np.bool_]:
        """(m,) which edges it has after."""
        return self.weights_after > 0

    @cached_property
    def before(self) -> Graph:
        """The graph that was given, without features."""
        return self._graph(self.weights_before)

    @cached_property
    def after(self) -> Graph:
        """The purified graph, without features."""
        return self._graph(self.weights_after)

    @cached_property
    def adversarial(self) -> NDArray[np.bool_]:
        """(m,) which edges an attack is known to have added; none if nothing is known."""
        if self.truth is None:
            return np.zeros(self.edges.shape[1], dtype=bool)
        return contains(self.truth, self.edges, self.num_nodes)

    def _graph(self, weights: NDArray[np.float32]) -> Graph:
        there = weights > 0
        nodes = as_graph((np.zeros((2, 0), dtype=np.int64), self.num_nodes), labels=self.labels, names=self.names)
        return nodes.with_edges(self.edges[:, there], weights[there])


def make_result(
    before: Graph,
    result: Purification,
    *,
    truth: Edges | None = None,
    accuracy: Accuracy | None = None,
    command: str = "",
) -> Result:
    """What a report needs of a purification.

    Args:
        before: the graph that was purified.
        result: what that gave.
        truth: (2, t) edges that an attack is known to have added, in any order.
        accuracy: of models trained on both graphs.
        command: that made it, if it was one.
    """
    require_accuracy(accuracy)
    if not isinstance(result, Purification):
        raise GraphError("A purification in pieces on disk keeps no single edges; purify in memory to report on it.")
    ledger, n = result.ledger, before.num_nodes
    if result.graph.num_nodes != n or ledger.counts["kept"] + ledger.counts["dropped"] != before.num_edges:
        raise GraphError(f"The purification is of another graph than {before!r}; give the one that it was made from.")
    kept = to_host(ledger.given | ledger.stays).numpy()
    edges = np.ascontiguousarray(to_host(ledger.edges).numpy()[:, kept])
    weights = {}
    for name, graph in (("before", before), ("after", result.graph)):
        weights[name] = np.zeros(edges.shape[1], dtype=np.float32)
        weights[name][contains(graph.edges, edges, n)] = graph.weights
    base = result.scores[np.isfinite(result.scores)].astype(np.float64)
    bounds = bins(base)
    return Result(
        edges=edges,
        scores=to_host(ledger.scores).numpy()[kept],
        weights_before=weights["before"],
        weights_after=weights["after"],
        num_nodes=n,
        labels=before.labels,
        names=before.names,
        base_counts=counts_in(base, bounds),
        base_bounds=bounds,
        threshold=float(result.threshold),
        values=to_host(result.spectrum.values).numpy().astype(np.float64),
        summary=result.summary(),
        made=Provenance.here(command, before=before, after=result.graph),
        truth=None if truth is None else _known_edges(truth, n),
        accuracy=accuracy,
    )


def bins(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds of bins for the middle 99 % of values, or the middle 90 % where the rest would leave these no room."""
    if not len(values):
        return np.zeros(1)
    least, low, high, most = np.quantile(values, _QUANTILES)
    if high - low < _CROWDED * (most - least):
        least, most = low, high
    # Bins narrower than the digits of their bounds are none; NumPy makes them wide where all values are equal.
    middle = (least + most) / 2
    apart = most - least > 1e-9 * abs(middle)
    return np.histogram_bin_edges([least, most] if apart else [middle, middle], bins=_BINS)


def counts_in(values: NDArray[np.float64], bounds: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many values are in each bin; those beyond the last are counted in it, and in the first alike."""
    return np.histogram(np.clip(values, bounds[0], bounds[-1]), bounds)[0].astype(np.int64)


def _known_edges(edges: Edges, n: int) -> Edges:
    edges = np.asarray(edges)
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise GraphError(f"The known adversarial edges must be integers of shape (2, m). Got shape {edges.shape}.")
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        raise GraphError(f"The known adversarial edges must join nodes 0 to {n - 1}. Got {edges.min()}, {edges.max()}.")
    return canonical(edges[0], edges[1], n)


def require_accuracy(accuracy: Accuracy | None) -> None:
    """Refuse accuracies that are no shares."""
    for name in ("before", "after") if accuracy is not None else ():
        shares = getattr(accuracy, name)
        if not shares or not all(math.isfinite(one) and 0 <= one <= 1 for one in shares):
            raise GraphError(f"Accuracy {name} must be a share from 0 to 1 for each seed. Got {shares!r} instead.")
