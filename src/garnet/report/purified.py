"""The sections of a report on a purification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from garnet.graph.graph import Graph
from garnet.progress import Stage
from garnet.report.charts import BLUE, GREEN, GREY, RED, Bar, Line, Part, bars, columns, histogram, lines
from garnet.report.neighbourhood import ADDED, DROPPED, KEPT, Ties
from garnet.report.provenance import cost_section, made_section
from garnet.report.purification_record import Result, bins, counts_in
from garnet.report.sections import Section, neighbourhoods, percent, plural, table
from garnet.report.spectrum import MOST_NODES, leading_values
from garnet.report.statistics import mean_interval


def purification_sections(result: Result, nodes: Sequence[int] | None, names: Sequence[str] | None) -> list[Section]:
    """Verdict, accuracy, ledger, neighbourhoods, spectrum, scores, degrees, cost, and how it was made."""
    return [
        Section("", verdict(result)),
        *_accuracy(result),
        _ledger(result),
        *_neighbourhoods(result, nodes, names),
        *_spectrum(result),
        _shape(result),
        *_scores(result),
        *cost_section([Stage(**stage) for stage in result.summary["stages"]]),
        made_section(
            result.made,
            "The same command on the same graph gives the same edges and numbers on a CPU.",
            _python(result),
        ),
    ]


def verdict(result: Result) -> str:
    """What happened, in one sentence."""
    given, stays = result.given, result.stays
    dropped, added = int((given & ~stays).sum()), int((stays & ~given).sum())
    text = f"Of {plural(int(given.sum()), 'edge')} GARNET dropped {dropped:,} and added {added:,}"
    if (share := removed(result)) is not None:
        text += (
            f", removing {percent(share)} of the {plural(int((result.adversarial & given).sum()), 'adversarial edge')}"
        )
    if result.accuracy is not None:
        before, after = (100 * float(np.mean(one)) for one in (result.accuracy.before, result.accuracy.after))
        model = f" of {result.accuracy.model}" if result.accuracy.model else ""
        text += f"; the test accuracy{model} went from {before:.1f} % to {after:.1f} %"
    return f"{text}."


def removed(result: Result) -> float | None:
    """The share of the known adversarial edges that the purified graph has no more; None if there are none."""
    there = result.adversarial & result.given
    return float((there & ~result.stays).sum() / there.sum()) if there.any() else None


def _accuracy(result: Result) -> list[Section]:
    if result.accuracy is None:
        return []
    entries = []
    for name in ("before", "after"):
        mean, low, high = mean_interval([100 * share for share in getattr(result.accuracy, name)])
        wide = "" if low is None else f" ± {mean - low:.1f}"
        colour = GREY if name == "before" else BLUE
        entries.append(Bar(name=name, value=mean, low=low, high=high, note=f"{mean:.1f}{wide}", colour=colour))
    seeds = plural(len(result.accuracy.after), "model")
    model = f"{result.accuracy.model}: " if result.accuracy.model else ""
    ends = "; ± and whiskers are the interval of the mean at 95 %" if len(result.accuracy.after) > 1 else ""
    text = f"{model}mean over {seeds} on the test nodes{ends}."
    return [Section("Accuracy", text, bars(entries, title="Test accuracy", x="percent"))]


def _ledger(result: Result) -> Section:
    given, stays = result.given, result.stays
    whole = max(int(given.sum()), 1)
    rows = []
    for name, chosen in (("kept", given & stays), ("dropped", given & ~stays), ("added", stays & ~given)):
        count, known = int(chosen.sum()), result.scores[chosen]
        known = known[np.isfinite(known)]
        row = [name, f"{count:,}", percent(count / whole), f"{np.median(known):.3g}" if len(known) else "–"]
        if result.labels is not None:
            row.append(percent(_homophily(result, chosen)))
        if result.truth is not None:
            row.append(f"{int((chosen & result.adversarial).sum()):,}")
        rows.append(row)
    heads = ["edges", "number", "of the input", "median score"]
    heads += ["same label"] * (result.labels is not None) + ["adversarial"] * (result.truth is not None)
    text = "What became of every edge; the score says how critical an edge is, the larger the more."
    return Section("Ledger of edges", text, table(heads, rows), wide=result.accuracy is None)


def _neighbourhoods(result: Result, nodes: Sequence[int] | None, names: Sequence[str] | None) -> list[Section]:
    given, stays = result.given, result.stays
    kinds = np.where(given & stays, KEPT, np.where(given, DROPPED, ADDED)).astype(np.int8)
    known = result.truth is not None
    ties = Ties(
        edges=result.edges,
        kinds=kinds,
        marked=result.adversarial if known else kinds == DROPPED,
        scores=result.scores,
        num_nodes=result.num_nodes,
        labels=result.labels,
        names=names if names is not None else _texts(result.names),
    )
    words = {
        "kinds": ["kept", "dropped", "new"],
        "marked": "adversarial" if known else "suspicious",
        "score": "score",
        "single": False,
    }
    return neighbourhoods(
        ties,
        nodes,
        orders=[
            ("lost the most edges", kinds == DROPPED),
            ("got the most edges", kinds == ADDED),
            ("have the most edges", np.ones(len(kinds))),
        ],
        panels=[("Before", ADDED), ("After", DROPPED)],
        words=words,
        text="What lies within two edges of a node, as it was given and as it is purified.",
    )


def _spectrum(result: Result) -> list[Section]:
    if not len(result.values):
        return []
    series = [Line(name="before", x=np.arange(1, len(result.values) + 1), y=result.values, colour=GREY)]
    after = leading_values(result.after, len(result.values), result.summary["parameters"])
    if after is not None:
        series.append(Line(name="after", x=np.arange(1, len(after) + 1), y=after, colour=BLUE))
    what = "normalised adjacency" if result.summary["parameters"].get("normalize", True) else "adjacency"
    count = plural(len(result.values), "leading eigenvalue") if len(result.values) > 1 else "leading eigenvalue"
    text = f"The {count} of the {what}, before and after."
    if after is None:
        large = "; the purified graph is too large for a report to find its own" * (result.num_nodes > MOST_NODES)
        text = f"The {count} of the {what} before purification{large}."
    drawn = lines(
        series, title=f"Eigenvalues of the {what}", x="number", y="eigenvalue", points=len(result.values) < 15
    )
    return [Section("Spectrum", text, drawn)]


def _scores(result: Result) -> list[Section]:
    gamma = result.threshold + 0.0  # there is a negative zero, which reads as a mistake
    mark = (gamma, f"gamma = {gamma:.3g}")
    drawn = Markup()
    if result.base_counts.sum():
        base = Part(name="base edges", counts=result.base_counts)
        drawn += histogram(
            [base], result.base_bounds, title="Scores of the base graph", x="score", y="edges", mark=mark
        )
    finite = np.isfinite(result.scores) & result.given
    if result.truth is not None and (finite & result.adversarial).any():
        parts = {"true edges": finite & ~result.adversarial, "adversarial": finite & result.adversarial}
        colours = (GREEN, RED)
    else:
        parts, colours = {"kept": finite & result.stays, "dropped": finite & ~result.stays}, (GREY, RED)
    if finite.any():
        bounds = bins(result.scores[finite].astype(np.float64))
        shares = [
            Part(name=name, counts=_percentages(result.scores[chosen], bounds), colour=colour)
            for (name, chosen), colour in zip(parts.items(), colours, strict=True)
        ]
        drawn += histogram(
            shares, bounds, title="Scores of the input's edges", x="score", y="percent of each", mark=mark
        )
    text = "Base edges that score below gamma were pruned; edges of the input that enough speaks for stay anyway. The "
    text += "first and the last bin hold what lies beyond them."
    return [Section("Scores", text, Markup('<div class="pair">{}</div>').format(drawn), wide=True)] if drawn else []


def _shape(result: Result) -> Section:
    counts = [_degrees(graph) for graph in (result.before, result.after)]
    largest = int(max((one.max(initial=0) for one in counts), default=0))
    bounds = [0, 1, 2, 3]
    while bounds[-1] <= largest:
        bounds.append(2 * bounds[-1] - 1)
    groups = [str(low) if high - low == 1 else f"{low}–{high - 1}" for low, high in pairwise(bounds)]
    parts = [
        Part(name=name, counts=np.histogram(one, bounds)[0], colour=colour)
        for name, one, colour in zip(("before", "after"), counts, (GREY, BLUE), strict=True)
    ]
    rows = [
        ["mean degree", *(f"{one.mean():.2f}" if len(one) else "–" for one in counts)],
        ["largest degree", *(f"{one.max(initial=0):,}" for one in counts)],
        ["nodes without edges", *(f"{int((one == 0).sum()):,}" for one in counts)],
        ["homophily", *(percent(graph.homophily) for graph in (result.before, result.after))],
    ]
    drawn = columns(groups, parts, title="Degrees", x="edges of a node", y="nodes")
    text = "How many edges nodes have; homophily is the share of edges that join nodes of one class."
    return Section("Degrees and homophily", text, drawn + table(["", "before", "after"], rows))


def _python(result: Result) -> str:
    """What gives the same purification in Python."""
    from garnet.purify.garnet import GARNET

    usual = {one.name: one.default for one in fields(GARNET)}
    given = result.summary["parameters"].items()
    changed = [f"{name}={value!r}" for name, value in given if str(value) != str(usual.get(name))]
    return f"GARNET({', '.join(changed)}).purify(graph)"


def _percentages(values: NDArray[Any], bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many percent of the values are in each bin."""
    return 100 * counts_in(values.astype(np.float64), bounds) / max(len(values), 1)


def _degrees(graph: Graph) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.diff(graph.adjacency.indptr).astype(np.int64)
    return counts


def _homophily(result: Result, chosen: NDArray[np.bool_]) -> float | None:
    if result.labels is None:
        return None
    first, second = result.labels[result.edges[:, chosen]]
    known = (first >= 0) & (second >= 0)
    return float((first == second)[known].mean()) if known.any() else None


def _texts(names: NDArray[Any] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]
