"""The sections of a report on an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from garnet.graph import Edges, Graph
from garnet.report.charts import GREEN, RED, Part, histogram
from garnet.report.neighbourhood import KEPT, Ties
from garnet.report.sections import Section, neighbourhoods, percent, plural, table

SUSPICIOUS = 0.5
"""Edges above it are drawn red, unless the audit has a `threshold` of its own."""

_SHOWN_EDGES, _SHOWN_NODES, _BINS, _FARTHEST = 50, 20, 40, 12.0


class Audited(Protocol):
    """What an audit has: the graph, of each edge the suspicion and its reasons, and of each node the stability."""

    @property
    def graph(self) -> Graph: ...  # noqa: D102
    @property
    def edges(self) -> Edges: ...  # noqa: D102
    @property
    def suspicion(self) -> NDArray[np.floating[Any]]: ...  # noqa: D102
    @property
    def reasons(self) -> Mapping[str, NDArray[Any]]: ...  # noqa: D102
    @property
    def nodes(self) -> NDArray[np.floating[Any]]: ...  # noqa: D102


def audit_sections(audit: Audited, nodes: Sequence[int] | None, names: Sequence[str] | None) -> list[Section]:
    """Verdict, how suspicion is spread, the least stable nodes, the most suspicious edges, and neighbourhoods."""
    limit = float(getattr(audit, "threshold", SUSPICIOUS))
    if names is None and audit.graph.names is not None:
        names = [str(name) for name in audit.graph.names]
    suspicion = np.asarray(audit.suspicion, dtype=np.float64)
    ties = Ties(
        edges=audit.edges,
        kinds=np.full(len(suspicion), KEPT, dtype=np.int8),
        marked=suspicion > limit,
        scores=suspicion,
        num_nodes=audit.graph.num_nodes,
        labels=audit.graph.labels,
        names=names,
    )
    pictures = neighbourhoods(
        ties,
        nodes,
        panels=[("Graph", -1)],
        words={"kinds": ["given"] * 3, "marked": "suspicious", "score": "suspicion", "single": True},
        text=f"What lies within two edges of a node; edges with a suspicion above {limit:g} are red. The list has "
        "the nodes with the most of these.",
    )
    return [
        Section("", _verdict(suspicion, limit) + _how_sure(audit)),
        _spread(suspicion, limit, getattr(audit, "planted", None)),
        _nodes(audit, ties),
        _edges(audit, ties),
        *pictures,
    ]


def _verdict(suspicion: NDArray[np.float64], limit: float) -> str:
    if not len(suspicion):
        return "The graph has no edges, so there is nothing to doubt."
    count = int((suspicion > limit).sum())
    return (
        f"Of {plural(len(suspicion), 'edge')}, {count:,} ({percent(count / len(suspicion))}) have a suspicion "
        f"above {limit:g}; the highest is {suspicion.max():.2f}."
    )


def _how_sure(audit: Audited) -> str:
    """What the audit says of itself, if it does."""
    share, power = getattr(audit, "share", None), getattr(audit, "power", None)
    if share is None or power is None:
        return ""
    return (
        f" About {percent(share)} of all edges look made up. Of edges that were planted at random, {percent(power)} "
        "looked worse than an edge of the graph, where 50 % would be chance."
    )


def _edges(audit: Audited, ties: Ties) -> Section:
    worst = np.argsort(-ties.scores, kind="stable")[:_SHOWN_EDGES]
    rows = [
        [
            f"{ties.name(int(audit.edges[0, edge]))} – {ties.name(int(audit.edges[1, edge]))}",
            f"{ties.scores[edge]:.3f}",
            *(_said(values[edge]) for values in audit.reasons.values()),
        ]
        for edge in worst
    ]
    heads = ["edge", "suspicion", *(name.replace("_", " ") for name in audit.reasons)]
    text = f"The {plural(len(rows), 'edge')} to doubt first, with what speaks against each."
    return Section("Most suspicious edges", text, table(heads, rows), wide=True)


def _spread(suspicion: NDArray[np.float64], limit: float, planted: NDArray[np.float64] | None) -> Section:
    if planted is not None and len(planted):
        return _against_planted(suspicion, limit, planted)
    counts, bounds = np.histogram(suspicion, bins=_BINS, range=(0.0, 1.0))
    part = Part(name="edges", counts=counts)
    drawn = histogram([part], bounds, title="Suspicion", x="suspicion", y="edges", mark=(limit, f"{limit:g}"))
    return Section("How suspicion is spread", "Most edges of a graph that nobody attacked are on the left.", drawn)


def _against_planted(suspicion: NDArray[np.float64], limit: float, planted: NDArray[np.float64]) -> Section:
    """The log-odds of suspicion, of the edges and of those that the audit planted."""
    bounds = np.linspace(-_FARTHEST, _FARTHEST, _BINS + 1)
    parts = [
        Part(name=name, counts=100 * np.histogram(_log_odds(values), bounds)[0] / len(values), colour=colour)
        for name, values, colour in (("edges of the graph", suspicion, GREEN), ("planted at random", planted, RED))
    ]
    drawn = histogram(
        parts, bounds, title="Log-odds of suspicion", x="log-odds of suspicion", y="percent of each",
        mark=(float(_log_odds(np.array([limit]))[0]), f"suspicion {limit:g}"),
    )  # fmt: skip
    text = (
        "Where nobody made edges up, few edges of the graph look like those that the audit planted at random. The "
        "first and the last bin hold what lies beyond them."
    )
    return Section("How suspicion is spread", text, drawn)


def _log_odds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.clip(values, 1e-12, 1 - 1e-12)
    return np.clip(np.log(share / (1 - share)), -_FARTHEST, _FARTHEST)


def _nodes(audit: Audited, ties: Ties) -> Section:
    stability = np.asarray(audit.nodes, dtype=np.float64)
    degrees = np.diff(audit.graph.adjacency.indptr)
    marked = np.bincount(audit.edges[:, ties.marked].ravel(), minlength=ties.num_nodes)
    rows = [
        [ties.name(int(node)), f"{stability[node]:.3f}", f"{degrees[node]:,}", f"{marked[node]:,}"]
        for node in np.argsort(stability, kind="stable")[:_SHOWN_NODES]
    ]
    text = "The nodes of which the least is certain, with how many of their edges are suspicious."
    return Section("Least stable nodes", text, table(["node", "stability", "edges", "suspicious"], rows))


def _said(value: Any) -> str:
    return f"{float(value):.3g}" if np.issubdtype(np.asarray(value).dtype, np.number) else str(value)
