"""A trained model and the graph it was trained on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
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
from garnet.parameters import require_device
from garnet.progress import Stage, seconds_of
from garnet.purify.result_file import described_as, read_made, read_stages
from garnet.registry import BACKBONES, PURIFIERS
from garnet.training.calibration import expected_calibration_error
from garnet.training.supervision import MOST_CLASSES
from garnet.training.votes import Votes, Voting

_NESTED = {"backbone": BACKBONES, "purifier": PURIFIERS}


@dataclass(frozen=True, eq=False, repr=False)
class Predictor:
    """What `fit` gives back: a graph, and what a model says of its nodes.

    Attributes:
        graph: the graph it was trained on, purified if that was asked for.
        scores: (n, classes) logits.
        seed: of everything random in its training.
        backbone: the model, if it is one of a kind that can be saved or used on another graph.
        parameters: what the model has learnt.
        epoch: when it did best on the validation nodes.
        val_accuracy: how well.
        stages: what its making cost, shared by the seeds made together.
        made: command, versions and machine, where it was read from a file; what an older file does not say is empty.
        votes: who decided, if the model is a committee.
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
        """(n, classes) how likely the model takes each class of each node to be."""
        return self.scores.double().softmax(dim=1).numpy()

    def calibration_error(self, nodes: NDArray[np.int64] | None = None) -> float:
        """By how much sure and right differ on the mean, at nodes, by default the test nodes.

        See `garnet.training.calibration.expected_calibration_error`.
        """
        nodes, truth = self._known(nodes)
        return expected_calibration_error(self.probabilities()[nodes], truth)

    def accuracy(self, nodes: NDArray[np.int64] | None = None) -> float:
        """Share of nodes, by default the test nodes, whose label is predicted."""
        truth, predicted = self._compared(nodes)
        return float((truth == predicted).mean())

    def confusion(self, nodes: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """(classes, classes) counts of nodes, by default the test nodes: true classes in rows, predicted in columns."""
        truth, predicted = self._compared(nodes)
        classes = max(self.scores.shape[1], int(truth.max()) + 1)
        if classes > MOST_CLASSES:
            raise GraphError(f"A confusion matrix is made for up to {MOST_CLASSES} classes. Got {classes} instead.")
        return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)

    def on(self, graph: Graph, *, device: str = "cpu") -> Predictor:
        """The same model on another graph, whose nodes must have the same features or, without any, be the same."""
        backbone, graph = self._require_model(), as_graph(graph)
        # As many features as another graph has nodes would fit the weights, and mean nothing to them.
        if graph.num_features != self.graph.num_features:
            raise GraphError(
                f"The graph has {graph.num_features or 'no'} features, and the model was trained on "
                f"{self.graph.num_features or 'none'}; give it the same ones."
            )
        require_device(device, "Predictor.on")
        stacked = {name: value[None].to(device) for name, value in self.parameters.items()}
        votes = None
        try:
            with torch.no_grad():
                inputs = backbone.prepare(graph, device)
                if isinstance(backbone, Voting):
                    scores, votes = backbone.decide(stacked, inputs)
                else:
                    scores = backbone.logits(stacked, inputs, None)[0]
        except GraphError:
            raise
        # Weights of other shapes, or under other names, show themselves in many ways.
        except (RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise GraphError(f"The model's weights do not fit the model or the graph ({error}).") from error
        return Predictor(graph, scores.cpu(), self.seed, backbone, self.parameters, self.epoch, votes=votes)

    def save(self, path: str | Path, *, command: str = "") -> None:
        """Write model and graph to one .npz file, whole or not at all; `load_graph` reads the graph from it too.

        Args:
            path: the file; its folder must exist.
            command: that made the model, if it was one.
        """
        backbone = self._require_model()
        require_archive(path, "A model")
        description = {
            **_model(backbone),
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
            GraphError: there is no such file, or it holds no model.
        """
        graph = load_graph(path)
        try:
            with described(Path(path), "model", "it holds a graph but no model.") as (archive, text):
                description = _description(text, graph)
                names = [name for name in archive if name.startswith("weight_")]
                parameters = {name[7:]: torch.from_numpy(archive.read(name)) for name in names}
                if backbone is None and description["backbone"] is None:
                    raise GraphError("it is not one of the library's own; give it as 'backbone'.")
            if backbone is None:
                backbone = _built(description)
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
        """What it is in a few words, without any of its numbers for single nodes."""
        nodes, classes = self.scores.shape
        facts = {"model": type(self.backbone).__name__ if self.backbone is not None else "none that can be saved"}
        facts |= {"seed": str(self.seed), "nodes": f"{nodes:,}", "classes": f"{classes:,}"}
        if not self.graph.num_features:
            facts["features"] = ONE_HOT
        if math.isfinite(self.val_accuracy):
            facts["validation accuracy"] = f"{self.val_accuracy:.1%}"
        with suppress(GraphError):  # without labels or test nodes there is none
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
        """Those of some nodes, by default the test nodes, whose label is known, and their labels."""
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


def _model(backbone: Any) -> dict[str, Any]:
    """A model by its name and parameters; without either if it is not, or has in it what is not, the library's own."""
    described = {"backbone": BACKBONES.name_of(type(backbone)), "parameters": _plain(backbone)}
    try:
        json.dumps(described)
    except TypeError:
        return {"backbone": None, "parameters": {}}
    return described


def _plain(backbone: Any) -> dict[str, Any]:
    """The parameters of a backbone, if it is a value that can be written down; how it was trained is not part of it."""
    if not any(registry.name_of(type(backbone)) for registry in _NESTED.values()):
        return {}
    values = {one.name: getattr(backbone, one.name) for one in fields(backbone)}
    return {name: _described(value) for name, value in values.items() if name not in ("training", "device")}


def _described(value: Any) -> Any:
    """A parameter as JSON has it; a backbone or purifier inside of another by its name."""
    if isinstance(value, tuple):
        return [_described(one) for one in value]
    for kind, registry in _NESTED.items():
        if (name := registry.name_of(type(value))) is not None:
            return {kind: name, "parameters": _plain(value)}
    return value


def _built(described: Mapping[str, Any]) -> Any:
    """The backbone that was described."""
    try:
        kind = next(kind for kind in _NESTED if kind in described)
        parameters = {key: _value(one) for key, one in described["parameters"].items()}
        return _NESTED[kind].build(described[kind], parameters)
    except (KeyError, AttributeError, TypeError, StopIteration, RecursionError):
        raise GraphError("its description of the model is damaged.") from None


def _value(described: Any) -> Any:
    """A parameter that was described."""
    if isinstance(described, list):
        return tuple(_value(one) for one in described)
    return _built(described) if isinstance(described, dict) else described


def _description(text: bytes, graph: Graph) -> Mapping[str, Any]:
    """What a file says of its model; older files do not say what it cost and where it came from."""
    expected = {"parameters": dict, "seed": int, "epoch": int, "val_accuracy": float, "backbone": str | None}
    with described_as("the model"):
        description = json.loads(text)
        if not all(isinstance(description[name], kind) for name, kind in expected.items()):
            raise TypeError
        unknown = {"command": "", "fingerprints": {"graph": graph.fingerprint}, "versions": {}, "machine": {}}
        made = read_made(description.get("made", unknown))
        return {**description, "stages": read_stages(description.get("stages", [])), "made": made}
