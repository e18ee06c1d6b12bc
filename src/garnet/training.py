"""One training loop: full batch, early stop on validation, several seeds side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from garnet.backbones.base import Backbone, Noise, Parameters
from garnet.errors import GraphError, ParameterError
from garnet.graph import Graph, Split
from garnet.predictor import Predictor
from garnet.purification import Clock, Progress


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained.

    Attributes:
        epochs: steps at most.
        lr: step size of Adam.
        weight_decay: of all parameters.
        patience: steps without a better validation accuracy (or, at the same one, a lower validation loss) after which
            a seed stops; None never stops early. The best parameters count, not the last.
        warmup: steps before which nothing counts as best.
        confidence: None trains once. A probability trains a second time, from the beginning, with what the first model
            predicts at least this surely as labels beside the known ones.
    """

    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4
    patience: int | None = 100
    warmup: int = 0
    confidence: float | None = None

    def require_valid(self) -> None:
        """Refuse, in one sentence, what no training allows."""
        sure = self.confidence
        for name, fine, wanted in (
            ("epochs", self.epochs >= 1, "an integer >= 1"),
            ("lr", self.lr > 0, "positive"),
            ("weight_decay", self.weight_decay >= 0, ">= 0"),
            ("patience", self.patience is None or self.patience >= 1, "an integer >= 1 or None"),
            ("warmup", 0 <= self.warmup < self.epochs, "at least 0 and below 'epochs'"),
            ("confidence", sure is None or 0 < sure <= 1, "above 0 and at most 1, or None"),
        ):
            if not fine:
                got = getattr(self, name)
                raise ParameterError(f"The '{name}' parameter of Training must be {wanted}. Got {got!r} instead.")


def train(
    backbone: Backbone,
    graph: Graph,
    *,
    seeds: Sequence[int] = (0,),
    training: Training | None = None,
    device: str = "cpu",
    inputs: Any = None,
    progress: Progress | None = None,
) -> tuple[Predictor, ...]:
    """Train one model for each seed on a graph with features, labels and a split.

    All seeds go through the graph together, in one product as wide as all of them; each has generators of its own, so
    that its model is the one it would be alone, up to rounding.

    Args:
        backbone: the model.
        graph: the graph to train on; its split says on which nodes.
        seeds: one model each.
        training: how; None is `Training()`.
        device: `cpu`, `cuda`, or any that torch knows.
        inputs: what `backbone.prepare` makes of a graph, if it is not to be made of this one.
        progress: called with a line of text now and then.

    Returns:
        A predictor for each seed, with the parameters that did best on the validation nodes.

    Raises:
        GraphError: the graph lacks features, labels or a split.
        ParameterError: the training's parameters make no sense.
    """
    training = training or Training()
    training.require_valid()
    split, labels, classes = require_trainable(graph)
    clock = Clock(None)
    with clock("train"):
        if inputs is None:
            inputs = backbone.prepare(graph, device)
        known = torch.from_numpy(labels).to(device).expand(len(seeds), -1)
        taught = torch.zeros_like(known, dtype=torch.bool)
        taught[:, split.train] = True
        lesson = _Lesson(known, taught, known, torch.from_numpy(split.val).to(device), classes)
        width = 0 if graph.features is None else int(graph.features.shape[1])
        best = _fit(backbone, inputs, width, lesson, seeds, training, device, progress)
        if training.confidence is not None:
            lesson = lesson.taught_by(best.logits, training.confidence)
            best = _fit(backbone, inputs, width, lesson, seeds, training, device, progress)
    return tuple(
        Predictor(
            graph,
            best.logits[index].cpu(),
            seed=seed,
            backbone=backbone,
            parameters={name: value[index].cpu() for name, value in best.parameters.items()},
            epoch=int(best.epoch[index]),
            val_accuracy=float(best.accuracy[index]),
            stages=tuple(clock.stages),
        )
        for index, seed in enumerate(seeds)
    )


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What S models are to learn.

    Attributes:
        target: (S, n) labels to learn.
        taught: (S, n) which of them are learnt.
        known: (S, n) true labels.
        checked: validation nodes.
        classes: number of classes.
    """

    target: Tensor
    taught: Tensor
    known: Tensor
    checked: Tensor
    classes: int

    def taught_by(self, logits: Tensor, confidence: float) -> _Lesson:
        """The same with what those logits predict surely, outside of the validation nodes, as labels too."""
        probability, prediction = logits.softmax(dim=2).max(dim=2)
        sure = probability >= confidence
        sure[:, self.checked] = False
        target = torch.where(self.taught, self.target, prediction)
        return _Lesson(target, self.taught | sure, self.known, self.checked, self.classes)

    def losses(self, logits: Tensor) -> Tensor:
        """(S,) mean cross-entropy of each seed on what it is taught."""
        target = torch.where(self.taught, self.target, -1).flatten()
        losses = cross_entropy(logits.flatten(0, 1), target, ignore_index=-1, reduction="none").view_as(self.taught)
        return losses.sum(dim=1) / self.taught.sum(dim=1)


def _fit(
    backbone: Backbone,
    inputs: Any,
    width: int,
    lesson: _Lesson,
    seeds: Sequence[int],
    training: Training,
    device: str,
    progress: Progress | None,
) -> _Best:
    generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
    models = [backbone.initial(width, lesson.classes, generator) for generator in generators]
    parameters = {name: torch.stack([model[name] for model in models]).requires_grad_() for name in models[0]}
    noise = Noise(generators)
    optimizer = torch.optim.Adam(parameters.values(), lr=training.lr, weight_decay=training.weight_decay)
    best = _Best(len(seeds), training.patience)
    for epoch in range(training.epochs):
        optimizer.zero_grad(set_to_none=True)
        lesson.losses(backbone.logits(parameters, inputs, noise)).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if epoch < training.warmup:
            continue
        with torch.no_grad():
            best.update(epoch, parameters, backbone.logits(parameters, inputs, None), lesson)
        if progress is not None and epoch % 10 == 0:
            progress(f"epoch {epoch} of {training.epochs}, validation {best.accuracy.mean().item():.1%}")
        if best.all_done:
            break
    return best


class _Best:
    """The best parameters of each seed so far; a seed whose patience is spent keeps them whatever comes."""

    parameters: Parameters
    logits: Tensor
    accuracy: Tensor
    loss: Tensor

    def __init__(self, seeds: int, patience: int | None) -> None:
        self.epoch = torch.zeros(seeds, dtype=torch.long)
        self.all_done = False
        self._patience = patience
        self._begun = False

    def update(self, epoch: int, parameters: Parameters, logits: Tensor, lesson: _Lesson) -> None:
        """Take over the parameters of the seeds that did better than ever on the validation nodes."""
        nodes = lesson.checked
        truth = lesson.known[:, nodes]
        accuracy = (logits[:, nodes].argmax(dim=2) == truth).float().mean(dim=1)
        loss = cross_entropy(logits[:, nodes].transpose(1, 2), truth, reduction="none").mean(dim=1)
        if not self._begun:
            self._begun = True
            self.accuracy, self.loss, self.logits = accuracy, loss, logits.clone()
            self.parameters = {name: value.detach().clone() for name, value in parameters.items()}
            self.epoch[:] = epoch
            return
        better = (accuracy > self.accuracy) | ((accuracy == self.accuracy) & (loss < self.loss))
        if not len(nodes):  # nothing to choose by: the last is the best
            better[:] = True
        elif self._patience is not None:
            waited = epoch - self.epoch
            better &= (waited <= self._patience).to(better.device)
            self.all_done = bool((waited >= self._patience).all())
        if not better.any():
            return
        self.all_done = False
        self.epoch[better.cpu()] = epoch
        self.accuracy = torch.where(better, accuracy, self.accuracy)
        self.loss = torch.where(better, loss, self.loss)
        self.logits[better] = logits[better]
        for name, value in parameters.items():
            self.parameters[name][better] = value.detach()[better]


def require_trainable(graph: Graph) -> tuple[Split, NDArray[np.int64], int]:
    """The split, labels and number of classes of a graph that can be trained on.

    Raises:
        GraphError: the graph lacks labels or a split, or a node of the split lacks a label.
    """
    if graph.labels is None:
        raise GraphError("The graph has no labels, and a model is trained to predict them; give it some.")
    if graph.split is None or not len(graph.split.train):
        raise GraphError(
            "The graph has no training nodes; give it a split, such as garnet.datasets.random_split(graph.labels)."
        )
    parts = np.concatenate([graph.split.train, graph.split.val])
    unknown = parts[graph.labels[parts] < 0]
    if len(unknown):
        raise GraphError(
            f"Node {unknown[0]} is for training or validation but has no label; {len(unknown)} such in all."
        )
    return graph.split, graph.labels, int(graph.labels.max()) + 1
