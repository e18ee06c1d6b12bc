"""The sections of a report on an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from garnet.audit.audit import Audit
from garnet.audit.words import SENTENCES, WORDINGS
from garnet.graph.provenance import Provenance
from garnet.report.charts import GREEN, RED, Part, histogram
from garnet.report.neighbourhood import FEW, KEPT, Ties, neighbourhood_section
from garnet.report.rings import groups_section
from garnet.report.sections import Section, cost_section, made_section, percent, plural, table
from garnet.report.statistics import percentages_in

_SHOWN_EDGES, _SHOWN_NODES, _BINS, _FARTHEST = 50, 20, 40, 12.0


def audit_sections(
    audit: Audit, nodes: Sequence[int] | None, names: Sequence[str] | None, command: str = ""
) -> list[Section]:
    """Verdict, how suspicion is spread, the least stable nodes, the most suspicious edges, groups, neighbourhoods."""
    ties = Ties(
        edges=audit.edges,
        kinds=np.full(len(audit.suspicion), KEPT, dtype=np.int8),
        marked=audit.doubted,
        scores=audit.suspicion,
        num_nodes=audit.graph.num_nodes,
        labels=audit.graph.labels,
        names=audit.graph.names if names is None else names,
    )
    pictures = neighbourhood_section(
        ties,
        nodes,
        orders=[
            ("have the most suspicious edges", audit.doubted),
            ("have the most suspicion in all", audit.suspicion),
            ("have the most edges", np.ones(len(audit.suspicion))),
        ],
        panels=[("Graph", -1)],
        words={"kinds": ["given"] * 3, "marked": "suspicious", "score": "suspicion"},
        text=(
            f"The edges of a node that matter: those more likely made up than not, in red, the {FEW[0]} most "
            f"suspicious of them if there are more, and the {FEW[1]} that are trusted most; and how these neighbours "
            "are joined."
        ),
        few=True,
    )
    made = audit.made or Provenance.here(command, graph=audit.graph)
    return [
        Section("", _verdict(audit)),
        _spread(audit),
        _nodes(audit, ties),
        _edges(audit, ties),
        _meanings(audit),
        *groups_section(audit, ties.name),
        *pictures,
        *cost_section(audit.stages),
        made_section(made, "The same command on the same graph gives the same numbers on a CPU."),
    ]


def _verdict(audit: Audit) -> str:
    m, count = len(audit.suspicion), int(audit.doubted.sum())
    if not len(audit.planted):
        return (
            f"No edge was planted into this graph to compare with, so nothing can be said of its {plural(m, 'edge')}."
        )
    if audit.blind:
        return f"In this graph of {plural(m, 'edge')}, made-up edges can hardly be told from others."
    return (
        f"Of {plural(m, 'edge')}, {count:,} ({percent(count / max(m, 1))}) {'is' if count == 1 else 'are'} more likely "
        f"made up than not. {audit.caveat}"
    )


def _spread(audit: Audit) -> Section:
    """The log-odds of suspicion, of the edges and of those that the audit planted."""
    title = "How suspicion is spread"
    if not len(audit.planted):
        return Section(title, "The audit compares edges to those that it plants at random; it found room for none.")
    bounds = np.linspace(-_FARTHEST, _FARTHEST, _BINS + 1)
    parts = [
        Part(name=name, counts=percentages_in(_log_odds(values), bounds), colour=colour)
        for name, values, colour in (
            ("edges of the graph", audit.suspicion, GREEN),
            ("planted at random", audit.planted, RED),
        )
    ]
    drawn = histogram(
        parts, bounds, title="Log-odds of suspicion", x="log-odds of suspicion", y="percent of each",
        mark=(0.0, "suspicion 0.5"),
    )  # fmt: skip
    text = (
        f"Of edges planted at random, {percent(audit.power)} looked worse than an edge of the graph, where "
        "50 % would be chance. Where nobody made edges up, few edges of the graph look like the planted ones. The "
        "first and the last bin hold what lies beyond."
    )
    if audit.doubted.any():
        text = (
            f"About {percent(audit.share)} of all edges look made up; by its own estimate the audit doubts "
            f"{percent(audit.false_alarms)} of the doubted ones wrongly, and edges that are there by mere chance look "
            f"made up, too. {text}"
        )
    return Section(title, text, drawn)


def _log_odds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.clip(values, 1e-12, 1 - 1e-12)
    return np.asarray(np.log(share / (1 - share)))


def _nodes(audit: Audit, ties: Ties) -> Section:
    degrees, doubted = (
        np.bincount(edges.ravel(), minlength=ties.num_nodes) for edges in (audit.edges, audit.edges[:, audit.doubted])
    )
    score = np.bincount(audit.edges.ravel(), np.tile(audit.suspicion, 2), ties.num_nodes)
    rows = [
        [
            ties.name(int(node)),
            f"{audit.nodes[node]:.3f}",
            f"{degrees[node]:,}",
            f"{doubted[node]:,}",
            f"{score[node]:.1f}",
        ]
        for node in np.argsort(audit.nodes, kind="stable")[:_SHOWN_NODES]
    ]
    text = (
        "The nodes with the least reliable edges, and how many of these are suspicious; the score is about how "
        "many are made up: the sum of their suspicion."
    )
    return Section("Least stable nodes", text, table(["node", "stability", "edges", "suspicious", "score"], rows))


def _edges(audit: Audit, ties: Ties) -> Section:
    # What speaks against an edge, in words, is what a narrow screen should show; the rest are figures.
    reasons = {name: values for name, values in audit.reasons.items() if name != "because"}
    shown, words = audit.order[:_SHOWN_EDGES], audit.reason
    rows = [
        [
            Markup("<bdi>{}</bdi>\N{NO-BREAK SPACE}– <bdi>{}</bdi>").format(
                *(ties.name(int(node)) for node in audit.edges[:, edge])
            ),
            words[edge],
            f"{audit.suspicion[edge]:.3f}",
            *(_said(values[edge]) for values in reasons.values()),
        ]
        for edge in shown
    ]
    heads = ["edge", "reason", "suspicion", *(name.replace("_", " ") for name in reasons)]
    text = (
        f"The {plural(len(rows), 'edge')} to doubt first, with what speaks against each, strongest first; the words "
        "are explained below."
    )
    return Section("Most suspicious edges", text, table(heads, rows, labels=2), wide=True)


def _meanings(audit: Audit) -> Section:
    """What each wording means, and what the audit was told."""
    told = []
    if audit.labels:
        told.append(audit.labels)
    if audit.judged is not None:
        counts = audit.summary()
        told.append(
            f"{plural(counts['confirmed'], 'edge was', 'edges were')} confirmed and {counts['refuted']:,} refuted, "
            "which changed the rest."
        )
    # A table, as names and values side by side would leave the meanings no room on a phone.
    rows = list({**WORDINGS, **SENTENCES}.items())
    text = " ".join(["A reason is said of an edge if it counts much against it, the strongest first.", *told])
    return Section("What the reasons mean", text, table(["words", "meaning"], rows, labels=2), wide=True)


def _said(value: Any) -> str:
    return f"{float(value):.3g}" if isinstance(value, np.number) else str(value).replace("_", " ")
