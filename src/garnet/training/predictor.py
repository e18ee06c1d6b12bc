"""A trained model and the graph it was trained on."""

from __future__ import annotations

import json
import math
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.backbones.base import ONE_HOT, Backbone, Parameters
from garnet.errors import GraphError, ParameterError
from garnet.graph.files import load_graph, require_archive
from garnet.graph.graph import Graph, as_graph
from garnet.graph.html import html_table
from garnet.graph.provenance import Provenance
from garnet.io.archive import described
from garnet.io.atomic import atomic_path
from garnet.io.npz import write_npz
from garnet.linalg.threads import sharing
from garnet.parameters import require_device
from garnet.progress import Stage, seconds_of
from garnet.training import metrics
from garnet.training.calibration import expected_calibration_error
from garnet.training.description import built_model, described_model, read_description
from garnet.training.verdict import NeverFoundWarning, Verdict, confusion_of, is_imbalanced, never_found
from garnet.training.votes import Votes, Voting


@dataclass(frozen=True, eq=False, repr=False)
class Predictor:
    """What `fit` returns: a graph, and a model's predictions for its nodes.

    Attributes:
        graph: the graph it was trained on, purified if asked for.
        scores: (n, classes) logits.
        seed: seed of everything random in its training.
        backbone: the model, if it can be saved or used on another graph.
        parameters: the model's learnt parameters.
        epoch: epoch in which it did best on the validation nodes.
        val_accuracy: its accuracy there; class weights, if any, apply to the validation nodes.
        stages: cost of training it, shared by the seeds trained together.
        made: command, versions and machine, if it was read from a file; empty where an older file lacks them.
        votes: which members decided, if the model is a committee.
    """

    graph: Graph
    scores: Tensor
    seed: int = 0
    backbone: Backbone[Any] | None = None
    parameters: Parameters = field(default_factory=dict)
    epoch: int = 0
    val_accuracy: float = float("nan")
    stages: tuple[Stage, ...] = ()
    made: Provenance | None = None
    votes: Votes | None = None

    def logits(self) -> Tensor:
        """(n, classes) logits of all nodes."""
        return self.scores

    def predictions(self) -> NDArray[np.int64]:
        """(n,) the likeliest class of each node."""
        return self.scores.argmax(dim=1).numpy()

    def probabilities(self) -> NDArray[np.float64]:
        """(n, classes) the model's probability of each class for each node."""
        return self.scores.double().softmax(dim=1).numpy()

    def calibration_error(self, nodes: NDArray[np.int64] | None = None) -> float:
        """Expected calibration error at nodes, by default the test nodes.

        See `garnet.training.calibration.expected_calibration_error`.
        """
        nodes, truth = self._known(nodes)
        return expected_calibration_error(self.probabilities()[nodes], truth)

    def accuracy(self, nodes: NDArray[np.int64] | None = None) -> float:
        """Share of nodes, by default the test nodes, whose label is predicted."""
        truth, predicted = self._compared(nodes)
        return float((truth == predicted).mean())

    def balanced_accuracy(self, nodes: NDArray[np.int64] | None = None) -> float:
        """Mean over the classes of the share of their nodes, by default the test nodes, that is found."""
        return metrics.balanced_accuracy(self.confusion(nodes))

    def recall(self, nodes: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """(classes,) share of the nodes of each class that is found; NaN for a class that none has."""
        return metrics.recalls(self.confusion(nodes))

    def precision(self, nodes: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """(classes,) share of the predictions of each class that are right; NaN for one that is never predicted."""
        return metrics.precisions(self.confusion(nodes))

    def f1(self, nodes: NDArray[np.int64] | None = None) -> float:
        """F1 of the positive class if there are two, else the mean over classes; see `Verdict`."""
        return self.verdict(nodes, warn=False).f1

    def auc(self, nodes: NDArray[np.int64] | None = None) -> float:
        """Area under the ROC curve, averaged over classes if more than two; NaN if all nodes are of one class."""
        return self.verdict(nodes, warn=False).auc

    def average_precision(self, nodes: NDArray[np.int64] | None = None) -> float:
        """Average precision of the positive class if there are two, else the mean over classes; see `Verdict`."""
        return self.verdict(nodes, warn=False).average_precision

    def verdict(self, nodes: NDArray[np.int64] | None = None, *, warn: bool = True) -> Verdict:
        """All metrics at once for nodes, by default the test nodes, and which of them suits the labels.

        Args:
            nodes: numbers of nodes, or a mask.
            warn: issue a `NeverFoundWarning` if no node of some class is found.
        """
        nodes, truth = self._known(nodes)
        labels = self.graph.labels
        verdict = Verdict.of(
            self.probabilities()[nodes],
            truth,
            predicted=self.predictions()[nodes],
            known=None if labels is None else labels[labels >= 0],
        )
        if warn:
            for sentence in never_found([verdict], "Training(class_weights='balanced')"):
                warnings.warn(sentence, NeverFoundWarning, stacklevel=2)
        return verdict

    def table(self) -> dict[str, NDArray[Any]]:
        """All nodes as columns: name, predicted class, its probability, that of each class, true class and part.

        Classes are numbers, or the graph's names for them. An unknown label is masked, and a node in no part of the
        split has an empty part. `garnet.io.table_file` writes the columns to a file.
        """
        n, likely, graph = len(self.scores), self.probabilities(), self.graph
        chosen, called = self.predictions(), self.class_names
        columns: dict[str, NDArray[Any]] = {
            "node": _names(graph),
            "predicted": called[chosen],
            "probability": likely[np.arange(n), chosen],
            **{
                f"probability_{one}": column
                for one, column in zip(called[: likely.shape[1]].tolist(), likely.T, strict=True)
            },
        }
        labels = np.full(n, -1) if graph.labels is None else graph.labels
        columns["label"] = np.ma.masked_array(called[labels] if n else called[:0], labels < 0)
        columns["part"] = np.full(n, "", dtype="<U10")
        if graph.split is not None:
            for name, part in (("train", "train"), ("validation", "val"), ("test", "test")):
                columns["part"][getattr(graph.split, part)] = name
        return columns

    @property
    def class_names(self) -> NDArray[Any]:
        """(classes,) names of the classes in the graph, or else their numbers."""
        classes, known = self.scores.shape[1], self.graph.labels
        numbers = np.arange(max(classes, 0 if known is None else int(known.max(initial=-1)) + 1))
        if (names := self.graph.label_names) is None:
            return numbers
        return np.array([*names.tolist(), *map(str, numbers[len(names) :].tolist())])

    def confusion(self, nodes: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """(classes, classes) counts of nodes, by default the test nodes: true classes in rows, predicted in columns."""
        truth, predicted = self._compared(nodes)
        return confusion_of(predicted, truth, classes=self.scores.shape[1])

    def on(self, graph: Graph, *, device: str = "cpu") -> Predictor:
        """The same model on another graph, with the same features or, without any, the same nodes.

        Named classes keep the numbers that the model learnt for them.
        """
        backbone, graph = self._require_model(), _numbered_as(self.graph, as_graph(graph))
        # One-hot numbers would fit weights of as many features, and mean nothing to them.
        if graph.num_features != self.graph.num_features:
            raise GraphError(
                f"The graph has {graph.num_features or 'no'} features, and the model was trained on "
                f"{self.graph.num_features or 'none'}; give it the same ones."
            )
        if not graph.num_features and not np.array_equal(_names(graph), _names(self.graph)):
            raise GraphError(
                "The model was trained without features, so that it knows nodes by their numbers, and the nodes of the "
                "graph are others, or in another order; give it the same ones, such as in an .npz file."
            )
        require_device(device, "Predictor.on")
        stacked = {name: value[None].to(device) for name, value in self.parameters.items()}
        votes = None
        try:
            with sharing(graph), torch.no_grad():
                inputs = backbone.prepare(graph, device)
                if isinstance(backbone, Voting):
                    scores, votes = backbone.decide(stacked, inputs)
                else:
                    scores = backbone.logits(stacked, inputs, None)[0]
        except GraphError:
            raise
        # Weights with wrong shapes or names fail in many ways.
        except (RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise GraphError(f"The model's weights do not fit the model or the graph ({error}).") from error
        return Predictor(graph, scores.cpu(), self.seed, backbone, self.parameters, self.epoch, votes=votes)

    def save(self, path: str | Path, *, command: str = "") -> None:
        """Write model and graph to one .npz file, whole or not at all; `load_graph` can read the graph from it.

        Args:
            path: the file; its folder must exist.
            command: the command that made the model, if any.
        """
        backbone = self._require_model()
        require_archive(path, "A model")
        description = {
            **described_model(backbone),
            "seed": int(self.seed),
            "epoch": self.epoch,
            "val_accuracy": self.val_accuracy,
            "stages": [asdict(stage) for stage in self.stages],
            "made": asdict(self.made or Provenance.here(command, graph=self.graph)),
        }
        text = np.frombuffer(json.dumps(description).encode(), dtype=np.uint8)
        weights = {f"weight_{name}": value.numpy() for name, value in self.parameters.items()}
        with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
            write_npz(self.graph.to_arrays(), stream, {"model": text, **weights})

    @classmethod
    def load(cls, path: str | Path, *, backbone: Backbone[Any] | None = None) -> Predictor:
        """Read what `save` wrote; nothing in the file is unpickled.

        Args:
            path: the file.
            backbone: the model, if it is not one of the library's own.

        Raises:
            GraphError: there is no such file, or it does not hold a model.
        """
        graph = load_graph(path)
        try:
            with described(Path(path), "model", "it holds a graph but no model.") as (archive, text):
                description = read_description(text, graph)
                names = [name for name in archive if name.startswith("weight_")]
                parameters = {name[7:]: torch.from_numpy(archive.read(name)) for name in names}
                if backbone is None and description["backbone"] is None:
                    raise GraphError("it is not one of the library's own; give it as 'backbone'.")
            if backbone is None:
                backbone = built_model(description)
            numbers = {name: description[name] for name in ("seed", "epoch")}
            loaded = cls(graph, torch.zeros(0), backbone=backbone, parameters=parameters, **numbers).on(graph)
        except (GraphError, ParameterError) as error:
            raise GraphError(f"Cannot read a model from {path}: {error}") from error
        return replace(loaded, **{name: description[name] for name in ("val_accuracy", "stages", "made")})

    def __repr__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in self._facts().items() if name != "stages")
        return f"Predictor({said})"

    def _repr_html_(self) -> str:
        """A small table for a notebook."""
        return html_table("Predictor", self._facts())

    def _facts(self) -> dict[str, str]:
        """A short description, without numbers for single nodes."""
        nodes, classes = self.scores.shape
        facts = {"model": type(self.backbone).__name__ if self.backbone is not None else "none that can be saved"}
        facts |= {"seed": str(self.seed), "nodes": f"{nodes:,}", "classes": f"{classes:,}"}
        if not self.graph.num_features:
            facts["features"] = ONE_HOT
        if math.isfinite(self.val_accuracy):
            facts["validation accuracy"] = f"{self.val_accuracy:.1%}"
        with suppress(GraphError):  # without labels or test nodes there is none
            if self.graph.labels is not None and is_imbalanced(self.graph.labels):
                facts["test balanced accuracy"] = f"{self.balanced_accuracy():.1%}"
            facts["test accuracy"] = f"{self.accuracy():.1%}"
        if self.stages:
            facts["stages"] = ", ".join(f"{name} {value:.2f} s" for name, value in seconds_of(self.stages).items())
        return facts

    def _require_model(self) -> Backbone[Any]:
        if self.backbone is None:
            raise GraphError("These predictions come from no model that could be saved or used on another graph.")
        return self.backbone

    def _compared(self, nodes: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """True and predicted classes of nodes whose label is known."""
        nodes, truth = self._known(nodes)
        return truth, self.predictions()[nodes]

    def _known(self, nodes: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The nodes, by default among the test nodes, whose label is known, and their labels."""
        labels = self.graph.labels
        if nodes is None and self.graph.split is not None:
            nodes = self.graph.split.test
        if labels is None or nodes is None:
            raise GraphError("Accuracy needs labels and test nodes, and the graph does not have both.")
        nodes = np.asarray(nodes)
        nodes = np.flatnonzero(nodes) if nodes.dtype == bool else nodes
        nodes = nodes[labels[nodes] >= 0]
        if not len(nodes):
            raise GraphError("Accuracy needs at least one test node with a label, and there is none.")
        return nodes, labels[nodes]


def _names(graph: Graph) -> NDArray[Any]:
    return np.arange(graph.num_nodes) if graph.names is None else graph.names


def _numbered_as(learnt: Graph, graph: Graph) -> Graph:
    """The graph with its classes numbered as in another graph with the same names.

    Raises:
        GraphError: a node has a class that the other graph lacks.
    """
    known, names, labels = learnt.label_names, graph.label_names, graph.labels
    if known is None:
        return graph
    if names is None or labels is None:
        unnamed = labels is not None and labels.max(initial=-1) >= len(known)
        return graph if unnamed else replace(graph, label_names=known)
    number = {name: one for one, name in enumerate(known.tolist())}
    there = names[np.unique(labels[labels >= 0])]
    strange = next((name for name in there.tolist() if name not in number), None)
    if strange is not None:
        raise GraphError(
            f"The graph has nodes of class {strange!r}, and the model has learnt {', '.join(known.tolist())}; leave "
            "their labels out."
        )
    new = np.array([number.get(name, -1) for name in names.tolist()] + [-1])
    return replace(graph, labels=new[labels], label_names=known)
