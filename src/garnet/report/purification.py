"""The sections of a report on a purification."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from garnet.errors import ConvergenceWarning, RankWarning, warnings_are
from garnet.graph.graph import Graph
from garnet.graph.pieces import Pieces, fell_apart
from garnet.progress import Stage
from garnet.purify.garnet import GARNET
from garnet.report.charts import BLUE, GREEN, GREY, RED, Bar, Line, Part, bars, columns, histogram, lines
from garnet.report.neighbourhood import ADDED, DROPPED, KEPT, Ties, neighbourhood_section
from garnet.report.purification_record import PurificationRecord
from garnet.report.sections import Section, cost_section, made_section, percent, plural, table
from garnet.report.statistics import bins, percentages_in
from garnet.spectral import choose_solver
from garnet.spectral.spectrum import End, normalized_adjacency, spread_components

_MOST_MENDED = 5
_MOST_NODES = 50_000  # whose eigenvalues a report finds; with more it would wait for minutes


def purification_sections(
    record: PurificationRecord, nodes: Sequence[int] | None, names: Sequence[str] | None
) -> list[Section]:
    """Verdict, accuracy, ledger, neighbourhoods, spectrum, scores, degrees, cost, and how it was made."""
    return [
        Section("", verdict(record)),
        *_accuracy(record),
        _ledger(record),
        *_neighbourhoods(record, nodes, names),
        *_spectrum(record),
        _shape(record),
        *_scores(record),
        *cost_section([Stage(**stage) for stage in record.summary["stages"]]),
        made_section(
            record.made,
            "The same command on the same graph gives the same edges and numbers on a CPU.",
            _python(record),
        ),
    ]


def verdict(record: PurificationRecord) -> str:
    """What happened, in one sentence, and in another if the graph fell apart."""
    given, stays = record.given, record.stays
    dropped, added = int((given & ~stays).sum()), int((stays & ~given).sum())
    text = f"Of {plural(int(given.sum()), 'edge')} GARNET dropped {dropped:,} and added {added:,}"
    if (share := removed(record)) is not None:
        text += (
            f", removing {percent(share)} of the {plural(int((record.adversarial & given).sum()), 'adversarial edge')}"
        )
    if record.accuracy is not None:
        before, after = (100 * float(np.mean(one)) for one in (record.accuracy.before, record.accuracy.after))
        model = f" of {record.accuracy.model}" if record.accuracy.model else ""
        text += f"; the test accuracy{model} went from {before:.1f} % to {after:.1f} %"
    apart = fell_apart(Pieces.of(record.before), Pieces.of(record.after))
    return f"{text}. {apart}".rstrip()


def removed(record: PurificationRecord) -> float | None:
    """The share of the known adversarial edges that purification removed; None if there are none."""
    there = record.adversarial & record.given
    return float((there & ~record.stays).sum() / there.sum()) if there.any() else None


def _accuracy(record: PurificationRecord) -> list[Section]:
    if record.accuracy is None:
        return []
    entries = []
    for name, colour in (("before", GREY), ("after", BLUE)):
        shares = [100 * share for share in getattr(record.accuracy, name)]
        mean, sd = float(np.mean(shares)), float(np.std(shares, ddof=1)) if len(shares) > 1 else None
        ends = (None, None) if sd is None else (max(mean - sd, 0.0), min(mean + sd, 100.0))
        note = f"{mean:.1f}" + ("" if sd is None else f" ± {sd:.1f}")
        entries.append(Bar(name=name, value=mean, low=ends[0], high=ends[1], note=note, colour=colour))
    seeds = plural(len(record.accuracy.after), "model")
    model = f", {record.accuracy.model}," if record.accuracy.model else ""
    spread = "; ± and whiskers are the standard deviation over the seeds" if len(record.accuracy.after) > 1 else ""
    text = f"Mean over {seeds}{model} on the test nodes{spread}."
    return [Section("Accuracy", text, bars(entries, title="Test accuracy", x="percent"))]


def _ledger(record: PurificationRecord) -> Section:
    given, stays = record.given, record.stays
    whole = max(int(given.sum()), 1)
    rows = []
    for name, chosen in (("kept", given & stays), ("dropped", given & ~stays), ("added", stays & ~given)):
        count, known = int(chosen.sum()), record.scores[chosen]
        known = known[np.isfinite(known)]
        row = [name, f"{count:,}", percent(count / whole), f"{np.median(known):.3g}" if len(known) else "–"]
        if record.labels is not None:
            row.append(percent(_homophily(record, chosen)))
        if record.truth is not None:
            row.append(f"{int((chosen & record.adversarial).sum()):,}")
        rows.append(row)
    heads = ["edges", "number", "of the input", "median score"]
    heads += ["same label"] * (record.labels is not None) + ["adversarial"] * (record.truth is not None)
    text = "What became of every edge; the score says how critical an edge is, the larger the more."
    return Section("Ledger of edges", text, table(heads, rows), wide=record.accuracy is None)


def _neighbourhoods(
    record: PurificationRecord, nodes: Sequence[int] | None, names: Sequence[str] | None
) -> list[Section]:
    given, stays = record.given, record.stays
    kinds = np.where(given & stays, KEPT, np.where(given, DROPPED, ADDED)).astype(np.int8)
    known = record.truth is not None
    ties = Ties(
        edges=record.edges,
        kinds=kinds,
        marked=record.adversarial if known else kinds == DROPPED,
        scores=record.scores,
        num_nodes=record.num_nodes,
        labels=record.labels,
        names=record.names if names is None else names,
    )
    return neighbourhood_section(
        ties,
        nodes,
        orders=[
            ("lost the most adversarial edges", record.adversarial & (kinds == DROPPED)),
            ("lost the most edges", kinds == DROPPED),
            ("got the most edges", kinds == ADDED),
            ("have the most edges", np.ones(len(kinds))),
        ],
        panels=[("Before", ADDED), ("After", DROPPED)],
        words={
            "kinds": ["kept", "dropped", "new"],
            "marked": "adversarial" if known else "suspicious",
            "score": "score",
        },
        text="What lies within two edges of a node, as it was given and as it is purified.",
        first=_mended(record),
    )


def _mended(record: PurificationRecord) -> tuple[list[int], str]:
    """The nodes that purification put right, those first that lost the most edges, of an attack if one is known."""
    if record.accuracy is None or not record.accuracy.mended:
        return [], ""
    lost = record.given & ~record.stays
    counted = lost & record.adversarial if record.truth is not None else lost
    counts = np.bincount(record.edges[:, counted].ravel(), minlength=record.num_nodes)
    order = sorted(record.accuracy.mended, key=lambda node: (-counts[node], node))
    words = "adversarial edges" if record.truth is not None else "edges"
    return order[:_MOST_MENDED], (
        f"the nodes that every model had wrong before and has right after, first those that lost the most {words}"
    )


def _spectrum(record: PurificationRecord) -> list[Section]:
    if not len(record.values):
        return []
    series = [Line(name="before", x=np.arange(1, len(record.values) + 1), y=record.values, colour=GREY)]
    after = leading_values(record.after, len(record.values), record.summary["parameters"])
    if after is not None:
        series.append(Line(name="after", x=np.arange(1, len(after) + 1), y=after, colour=BLUE))
    what = "normalised adjacency" if record.summary["parameters"].get("normalize", True) else "adjacency"
    count = plural(len(record.values), "leading eigenvalue") if len(record.values) > 1 else "leading eigenvalue"
    text = f"The {count} of the {what}, before and after."
    if after is None:
        large = "; the purified graph is too large for a report to find its own" * (record.num_nodes > _MOST_NODES)
        text = f"The {count} of the {what} before purification{large}."
    drawn = lines(
        series, title=f"Eigenvalues of the {what}", x="number", y="eigenvalue", points=len(record.values) < 15
    )
    return [Section("Spectrum", text, drawn)]


def _scores(record: PurificationRecord) -> list[Section]:
    gamma = record.threshold + 0.0  # there is a negative zero, which reads as a mistake
    mark = (gamma, f"gamma = {gamma:.3g}")
    drawn = Markup()
    if record.base_counts.sum():
        base = Part(name="base edges", counts=record.base_counts)
        drawn += histogram(
            [base], record.base_bounds, title="Scores of the base graph", x="score", y="edges", mark=mark
        )
    finite = np.isfinite(record.scores) & record.given
    if record.truth is not None and (finite & record.adversarial).any():
        parts = {"true edges": finite & ~record.adversarial, "adversarial": finite & record.adversarial}
        colours = (GREEN, RED)
    else:
        parts, colours = {"kept": finite & record.stays, "dropped": finite & ~record.stays}, (GREY, RED)
    if finite.any():
        bounds = bins(record.scores[finite].astype(np.float64))
        shares = [
            Part(name=name, counts=percentages_in(record.scores[chosen].astype(np.float64), bounds), colour=colour)
            for (name, chosen), colour in zip(parts.items(), colours, strict=True)
        ]
        drawn += histogram(
            shares, bounds, title="Scores of the input's edges", x="score", y="percent of each", mark=mark
        )
    text = "Base edges that score below gamma were pruned; edges of the input with enough support stay anyway. The "
    text += "first and the last bin hold what lies beyond them."
    return [Section("Scores", text, Markup('<div class="pair">{}</div>').format(drawn), wide=True)] if drawn else []


def _shape(record: PurificationRecord) -> Section:
    counts = [_degrees(graph) for graph in (record.before, record.after)]
    largest = int(max((one.max(initial=0) for one in counts), default=0))
    bounds = [0, 1, 2, 3]
    while bounds[-1] <= largest:
        bounds.append(2 * bounds[-1] - 1)
    groups = [str(low) if high - low == 1 else f"{low}–{high - 1}" for low, high in pairwise(bounds)]
    parts = [
        Part(name=name, counts=np.histogram(one, bounds)[0], colour=colour)
        for name, one, colour in zip(("before", "after"), counts, (GREY, BLUE), strict=True)
    ]
    pieces = [Pieces.of(graph) for graph in (record.before, record.after)]
    rows = [
        ["mean degree", *(f"{one.mean():.2f}" if len(one) else "–" for one in counts)],
        ["largest degree", *(f"{one.max(initial=0):,}" for one in counts)],
        ["nodes without edges", *(f"{one.isolated:,}" for one in pieces)],
        ["connected components", *(f"{one.components:,}" for one in pieces)],
        ["homophily", *(percent(graph.homophily) for graph in (record.before, record.after))],
    ]
    drawn = columns(groups, parts, title="Degrees", x="edges of a node", y="nodes")
    text = "How many edges nodes have; homophily is the share of edges that join nodes of one class."
    return Section("Degrees and homophily", text, drawn + table(["", "before", "after"], rows))


def _python(record: PurificationRecord) -> str:
    """What gives the same purification in Python."""
    usual = {one.name: one.default for one in fields(GARNET)}
    given = record.summary["parameters"].items()
    changed = [f"{name}={value!r}" for name, value in given if str(value) != str(usual.get(name))]
    return f"GARNET({', '.join(changed)}).purify(graph)"


def _degrees(graph: Graph) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.diff(graph.adjacency.indptr).astype(np.int64)
    return counts


def _homophily(record: PurificationRecord, chosen: NDArray[np.bool_]) -> float | None:
    if record.labels is None:
        return None
    first, second = record.labels[record.edges[:, chosen]]
    known = (first >= 0) & (second >= 0)
    return float((first == second)[known].mean()) if known.any() else None


def leading_values(graph: Graph, rank: int, parameters: Mapping[str, Any]) -> NDArray[np.float64] | None:
    """The `rank` leading eigenvalues, of the same matrix as the purifier takes; None if the graph is too large for it.

    Args:
        graph: the graph.
        rank: how many; fewer if the graph has no more.
        parameters: of the purifier: `normalize`, `tau` and `end`.
    """
    tau = parameters.get("tau", 0.0)
    shift = float(graph.degrees.mean()) if tau == "mean" else tau
    known = isinstance(shift, int | float) and 0 <= shift < math.inf
    if graph.num_nodes > _MOST_NODES or not graph.num_edges or rank < 1 or not known:
        return None
    matrix = (
        normalized_adjacency(graph, shift) if parameters.get("normalize", True) else graph.adjacency.astype(np.float64)
    )
    component = connected_components(graph.adjacency, directed=False)[1]
    end: End = "magnitude" if parameters.get("end") == "magnitude" else "algebraic"
    # A drawing needs fewer digits than a purification, which has given its own warnings.
    with warnings_are("ignore", RankWarning, ConvergenceWarning):
        nodes = spread_components(torch.from_numpy(component.astype(np.int64)), rank).numpy()
        part = matrix[nodes][:, nodes]
        solver = choose_solver(len(nodes))
        spectrum = solver(part, min(rank, len(nodes) - 1), end=end, seed=0, device="cpu")
    values: NDArray[np.float64] = spectrum.values.numpy().astype(np.float64)
    return values
