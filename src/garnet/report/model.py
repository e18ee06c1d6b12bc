"""The sections of a report on a trained model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from garnet.backbones.base import ONE_HOT
from garnet.defenses.committee import Committee
from garnet.errors import GraphError
from garnet.graph.provenance import Provenance
from garnet.report.charts import GREEN, RED, Bar, Part, bars, histogram
from garnet.report.committee import committee_sections
from garnet.report.sections import Section, cost_section, facts, made_section, percent, plural, table
from garnet.report.statistics import mean_share_interval, share_interval
from garnet.training.metrics import balanced_accuracy
from garnet.training.predictor import Predictor
from garnet.training.verdict import Verdict, never_found

_BINS, _MOST_CLASSES = 20, 100


def model_sections(
    model: Predictor, command: str = "", nodes: Sequence[int] | None = None, names: Sequence[str] | None = None
) -> list[Section]:
    """Verdict, accuracy, classes, confidence, who decided, what the model is, what it cost and how it was made.

    Args:
        model: any; only one of several members shows who of them decided.
        command: that made it, if it was one.
        nodes: see `committee_sections`.
        names: see `committee_sections`.
    """
    test = _test_nodes(model)
    labels = model.graph.labels
    if labels is None or not len(test):
        raise GraphError("A report on a model needs labels and test nodes, and its graph does not have both.")
    right, verdict = model.predictions()[test] == labels[test], model.verdict(warn=False)
    committee: list[Section] = []
    if model.votes is not None:
        alone = (model.votes.predictions[:, test] == labels[test]).mean(axis=1)
        committee = committee_sections(model, model.votes, alone, nodes, names)
    return [
        Section("", _verdict(model, verdict)),
        _shares(model, labels, verdict),
        _figures(verdict),
        _confidence(model, test, right),
        *committee,
        _classes(model),
        _about(model),
        *cost_section(model.stages),
        made_section(
            model.made or Provenance.here(command, graph=model.graph),
            "Where the model came from, as far as it is known.",
        ),
    ]


def _verdict(model: Predictor, verdict: Verdict) -> str:
    """The figure that fits the labels first, and what is wrong with the model, if anything."""
    confusion = model.confusion()
    nodes = plural(verdict.nodes, "test node")
    if verdict.imbalanced:
        low, high = _balanced_interval(confusion)
        text = (
            f"The model finds {percent(verdict.balanced_accuracy)} of a class, on average over the classes of {nodes} "
            f"(balanced accuracy; 95 % interval {percent(low)} to {percent(high)}). Class {verdict.largest} has "
            f"{percent(verdict.largest_share)} of the labels: the model is right on {percent(verdict.accuracy)} of the "
            f"test nodes, and to say {verdict.largest} of all of them is right on {percent(verdict.always_largest)}."
        )
    else:
        low, high = share_interval(int(confusion.trace()), verdict.nodes)
        text = (
            f"The model is right on {percent(verdict.accuracy)} of {nodes} "
            f"(95 % interval {percent(low)} to {percent(high)})."
        )
    return " ".join([text, *never_found([verdict])])


def _shares(model: Predictor, labels: NDArray[np.int64], verdict: Verdict) -> Section:
    """The same figure of training, validation and test nodes."""
    split = model.graph.split
    entries = []
    for name, part in (("training", "train"), ("validation", "val"), ("test", "test")):
        nodes = getattr(split, part)
        nodes = nodes[labels[nodes] >= 0]
        if len(nodes):
            confusion = model.confusion(nodes)
            if verdict.imbalanced:
                share, (low, high) = balanced_accuracy(confusion), _balanced_interval(confusion)
            else:
                hits = int(confusion.trace())
                share, (low, high) = hits / len(nodes), share_interval(hits, len(nodes))
            entries.append(
                Bar(
                    name=f"{name}, {len(nodes):,} nodes",
                    value=100 * share,
                    low=100 * low,
                    high=100 * high,
                    note=f"{100 * share:.1f}",
                )
            )
    title = verdict.headline.capitalize()
    what = (
        "Share of the nodes of a class that are found, averaged over classes"
        if verdict.imbalanced
        else ("Share of nodes whose class is predicted")
    )
    text = f"{what}, with intervals at 95 % for the number of nodes."
    return Section(title, text, bars(entries, title=title, x="percent"))


def _balanced_interval(confusion: NDArray[np.int64]) -> tuple[float, float]:
    there = confusion.sum(axis=1) > 0
    return mean_share_interval(confusion.diagonal()[there].tolist(), confusion.sum(axis=1)[there].tolist())


def _figures(verdict: Verdict) -> Section:
    """Every figure of the test nodes, beside what one would get by chance."""
    positive, classes = verdict.positive, sum(count > 0 for count in verdict.counts)
    of = ", mean over classes" if positive is None else f" of class {positive}"
    chance = "" if positive is None else _number(verdict.counts[positive] / verdict.nodes)
    rows = [
        ["accuracy", percent(verdict.accuracy), f"{percent(verdict.always_largest)}, always class {verdict.largest}"],
        ["balanced accuracy", percent(verdict.balanced_accuracy), percent(1 / classes)],
        [f"F1{of}", _number(verdict.f1), ""],
        *([] if positive is None else [["F1, mean over classes", _number(verdict.macro_f1), ""]]),
        [
            "area under the ROC curve" if positive is not None else f"area under the ROC curve{of}",
            _number(verdict.auc),
            _number(0.5),
        ],
        [f"average precision{of}", _number(verdict.average_precision), chance],
    ]
    text = (
        "Accuracy counts every node the same, balanced accuracy every class. The area under the ROC curve is how often "
        "a node of a class is given a higher probability of it than another node, and average precision how many of "
        "those with the highest probabilities are of it."
    )
    return Section("Test nodes by other metrics", text, table(["figure", "model", "without a model"], rows))


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"


def _confidence(model: Predictor, test: NDArray[np.int64], right: NDArray[np.bool_]) -> Section:
    sure = model.logits()[test].softmax(dim=1).amax(dim=1).numpy()
    parts = [
        Part(name=name, counts=np.histogram(sure[chosen], bins=_BINS, range=(0, 1))[0], colour=colour)
        for name, chosen, colour in (("right", right, GREEN), ("wrong", ~right, RED))
    ]
    bounds = np.linspace(0, 1, _BINS + 1)
    drawn = histogram(parts, bounds, title="Confidence", x="probability of the predicted class", y="test nodes")
    text = f"The model gives its answers a probability of {percent(float(sure.mean()))} on average."
    return Section("Confidence", text, drawn)


def _classes(model: Predictor) -> Section:
    confusion = model.confusion()
    rows = []
    for one in range(min(len(confusion), _MOST_CLASSES)):
        of_it, said, hits = int(confusion[one].sum()), int(confusion[:, one].sum()), int(confusion[one, one])
        wrong = confusion[one].copy()
        wrong[one] = 0
        mistaken = f"{int(wrong.argmax())} ({int(wrong.max())})" if wrong.any() else "–"
        found, true = (percent(hits / count, 0) if count else "–" for count in (of_it, said))
        rows.append([str(one), f"{of_it:,}", found, true, mistaken])
    left = len(confusion) - len(rows)
    text = "Of the test nodes of each class, how many are found, how many predictions of it are true, and what it is "
    text += f"most often taken for{f'; {left} more classes are left out' if left else ''}."
    return Section("Classes", text, table(["class", "test nodes", "found", "true", "taken for"], rows))


def _about(model: Predictor) -> Section:
    if isinstance(model.backbone, Committee):
        # Its members are many words, and have a section of their own.
        own = model.backbone
        about = {
            "model": f"Committee(doubt={own.doubt:g}, shrinkage={own.shrinkage:g})",
            "each member": repr(own.backbone),
        }
    else:
        about = {"model": repr(model.backbone) if model.backbone is not None else "not one of the library's own"}
    said = {
        **about,
        "seed": model.seed,
        "best epoch": model.epoch,
        "weights": f"{sum(value.numel() for value in model.parameters.values()):,}",
        "graph": repr(model.graph),
    }
    if not model.graph.num_features:
        said["features"] = f"{ONE_HOT}, since the graph has none"
    if model.graph.split is not None:
        said["split"] = model.graph.split.fingerprint
    return Section("The model", "What it is and what it was trained on.", facts(said))


def _test_nodes(model: Predictor) -> NDArray[np.int64]:
    graph = model.graph
    if graph.split is None or graph.labels is None:
        return np.zeros(0, dtype=np.int64)
    return graph.split.test[graph.labels[graph.split.test] >= 0]
