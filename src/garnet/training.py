"""One training loop: the whole graph or batches of it, early stop on validation, several seeds side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from garnet.backbones.base import BUFFER, Backbone, Noise, Parameters, require_features
from garnet.errors import GraphError, ParameterError
from garnet.graph import Graph, Split
from garnet.predictor import Predictor
from garnet.purification import Clock, Progress

# A CPU trains so many nodes, over all seeds, side by side: beyond, its caches lose more than shared products win.
_NODES_TOGETHER = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained.

    Attributes:
        epochs: passes over the training nodes at most; without `batch_size` each is one step on the whole graph.
        lr: step size of Adam.
        weight_decay: of all parameters.
        patience: epochs without a better validation accuracy (or, at the same one, a lower validation loss) after which
            a seed stops; None never stops early. The best parameters count, not the last.
        warmup: epochs before which nothing counts as best.
        confidence: None trains once. A probability trains a second time, from the beginning, with what the first model
            predicts at least this surely as labels beside the known ones.
        batch_size: training nodes in a step, with neighbours drawn anew each time: for graphs whose gradients do not
            fit into memory. The seeds share the batches, which follow from the first of them. Evaluation is on the
            whole graph all the same. None makes no batches.
        fanout: how many neighbours of each node are drawn at most, for each hop from the training nodes.
    """

    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 5e-4
    patience: int | None = 100
    warmup: int = 0
    confidence: float | None = None
    batch_size: int | None = None
    fanout: tuple[int, ...] = (10, 10)

    def require_valid(self) -> None:
        """Refuse, in one sentence, what no training allows."""
        for name, fine, wanted in self._rules():
            if not fine:
                got = getattr(self, name)
                raise ParameterError(f"The '{name}' parameter of Training must be {wanted}. Got {got!r} instead.")

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """Name, whether it is fine, and what it must be; one at a time, so that a rule may count on those before it."""
        sure, fanout = self.confidence, self.fanout
        yield "epochs", _whole(self.epochs) and self.epochs >= 1, "an integer >= 1"
        yield "lr", _number(self.lr) and 0 < self.lr < math.inf, "a positive number"
        yield "weight_decay", _number(self.weight_decay) and 0 <= self.weight_decay < math.inf, "a number >= 0"
        for name in ("patience", "batch_size"):
            value = getattr(self, name)
            yield name, value is None or (_whole(value) and value >= 1), "an integer >= 1 or None"
        yield "warmup", _whole(self.warmup) and 0 <= self.warmup < self.epochs, "at least 0 and below 'epochs'"
        yield "confidence", sure is None or (_number(sure) and 0 < sure <= 1), "above 0 and at most 1, or None"
        drawn = isinstance(fanout, tuple | list) and len(fanout) > 0 and all(_whole(f) and f >= 1 for f in fanout)
        yield "fanout", drawn, "a tuple of integers >= 1, one for each hop"


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


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

    Seeds go through the graph together, in one product as wide as all of them, or on a CPU and a large graph a few at a
    time. Each has generators of its own, so that its model is the one it would be alone, up to rounding. (Not with
    `batch_size`: batches are shared.)

    Args:
        backbone: the model.
        graph: the graph to train on; its split says on which nodes.
        seeds: one model each.
        training: how; None is `Training()`.
        device: `cpu`, `cuda`, or any that torch knows.
        inputs: what `backbone.prepare` makes of a graph, if it is not to be made of this one; allows no batches.
        progress: called with a line of text now and then.

    Returns:
        A predictor for each seed, with the parameters that did best on the validation nodes.

    Raises:
        GraphError: the graph lacks features, labels or a split.
        ParameterError: the training's parameters make no sense.
    """
    training = training or Training()
    training.require_valid()
    if not len(seeds):
        raise ParameterError("Training needs at least one seed; give some, such as seeds=(0,).")
    if inputs is not None and training.batch_size is not None:
        raise ParameterError("What was prepared of the whole graph cannot be cut into batches; leave 'batch_size' out.")
    require_trainable(graph)
    together = len(seeds)
    if training.batch_size is None and torch.device(device).type == "cpu":
        together = max(1, _NODES_TOGETHER // graph.num_nodes)
    clock = Clock(None)
    with clock("train"):
        course = _Course(
            backbone, graph, backbone.prepare(graph, device) if inputs is None else inputs, training, device, progress
        )
        groups = [seeds[first : first + together] for first in range(0, len(seeds), together)]
        predictors = [one for group in groups for one in course.predictors(group)]
    return tuple(replace(one, stages=tuple(clock.stages)) for one in predictors)


@dataclass(frozen=True, eq=False)
class _Course:
    """All that training is made of but the seeds."""

    backbone: Backbone
    graph: Graph
    inputs: Any
    training: Training
    device: str
    progress: Progress | None

    def predictors(self, seeds: Sequence[int]) -> list[Predictor]:
        """Models trained side by side."""
        lesson = _Lesson.of(self.graph, len(seeds), self.device)
        best = self._fit(lesson, seeds)
        if self.training.confidence is not None:
            best = self._fit(lesson.taught_by(best.logits, self.training.confidence), seeds)
        predictors = []
        for index, seed in enumerate(seeds):
            model = {name: value[index, None] for name, value in best.parameters.items()}
            # Once more, alone: a model that is saved and loaded then says the same to the last bit.
            with torch.no_grad():
                scores = self.backbone.logits(model, self.inputs, None)[0].cpu()
            weights = {name: value[0].cpu() for name, value in model.items()}
            epoch, accuracy = int(best.epoch[index]), float(best.accuracy[index])
            predictors.append(Predictor(self.graph, scores, seed, self.backbone, weights, epoch, accuracy))
        return predictors

    def _fit(self, lesson: _Lesson, seeds: Sequence[int]) -> _Best:
        backbone, training = self.backbone, self.training
        generators = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]
        width = int(require_features(self.graph).shape[1])
        models = [backbone.initial(width, lesson.classes, generator) for generator in generators]
        parameters = {name: torch.stack([model[name] for model in models]) for name in models[0]}
        learnt = [value.requires_grad_() for name, value in parameters.items() if not name.startswith(BUFFER)]
        optimizer = torch.optim.Adam(learnt, lr=training.lr, weight_decay=training.weight_decay)
        noise, best, steps = Noise(generators), _Best(len(seeds), training.patience), self._steps(lesson, seeds[0])
        for epoch in range(training.epochs):
            for inputs, taught in steps():
                optimizer.zero_grad(set_to_none=True)
                losses = taught.losses(backbone.logits(parameters, inputs, noise))
                losses.sum().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if epoch < training.warmup:
                continue
            with torch.no_grad():
                best.update(epoch, parameters, backbone.logits(parameters, self.inputs, None), lesson)
            if self.progress is not None and epoch % 10 == 0:
                self.progress(f"epoch {epoch} of {training.epochs}, validation {best.accuracy.mean().item():.1%}")
            if best.all_done:
                break
        return best

    def _steps(self, lesson: _Lesson, seed: int) -> Callable[[], Iterable[tuple[Any, _Lesson]]]:
        """What an epoch is made of: one step with the whole graph, or one for each batch of the taught nodes."""
        size = self.training.batch_size
        if size is None:
            return lambda: [(self.inputs, lesson)]
        from garnet.sampling import batches

        nodes = lesson.nodes.cpu()
        # One draw away from the model's own generator, whose numbers the batches should not repeat.
        first = torch.randint(2**62, (), generator=torch.Generator().manual_seed(seed))
        generator = torch.Generator().manual_seed(int(first))

        def epoch() -> Iterator[tuple[Any, _Lesson]]:
            fanout = tuple(self.training.fanout)
            for batch in batches(self.graph, nodes, size=size, fanout=fanout, generator=generator):
                inputs = self.backbone.prepare(batch.graph, self.device)
                yield inputs, lesson.among(batch.nodes.to(self.device), batch.asked)

        return epoch


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

    @classmethod
    def of(cls, graph: Graph, seeds: int, device: str) -> _Lesson:
        """The labels of the training nodes, for every seed."""
        split, labels, classes = require_trainable(graph)
        known = torch.from_numpy(labels).to(device).expand(seeds, -1)
        taught = torch.zeros_like(known, dtype=torch.bool)
        taught[:, split.train] = True
        return cls(known, taught, known, torch.from_numpy(split.val).to(device), classes)

    def taught_by(self, logits: Tensor, confidence: float) -> _Lesson:
        """The same with what those logits predict surely, outside of the validation nodes, as labels too."""
        probability, prediction = logits.softmax(dim=2).max(dim=2)
        sure = probability >= confidence
        sure[:, self.checked] = False
        target = torch.where(self.taught, self.target, prediction)
        return _Lesson(target, self.taught | sure, self.known, self.checked, self.classes)

    def among(self, nodes: Tensor, asked: int) -> _Lesson:
        """What is taught at the first `asked` of some nodes; the others are only there to be looked at."""
        taught = self.taught[:, nodes]
        taught[:, asked:] = False
        return _Lesson(self.target[:, nodes], taught, self.known[:, nodes], self.checked[:0], self.classes)

    def losses(self, logits: Tensor) -> Tensor:
        """(S,) mean cross-entropy of each seed on what it is taught."""
        taught, target = self.taught[:, self.nodes], self.target[:, self.nodes]
        target = torch.where(taught, target, -1)
        losses = cross_entropy(logits[:, self.nodes].transpose(1, 2), target, ignore_index=-1, reduction="none")
        # A batch may have nothing for one of the seeds.
        return losses.sum(dim=1) / taught.sum(dim=1).clamp_min(1)

    @cached_property
    def nodes(self) -> Tensor:
        """The nodes at which some seed is taught."""
        return self.taught.any(dim=0).nonzero()[:, 0]


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
        GraphError: the graph lacks features, labels or a split, or a node of the split lacks a label.
    """
    require_features(graph)
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
