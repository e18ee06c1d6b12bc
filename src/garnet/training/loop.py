"""One training loop: the whole graph or batches of it, early stop on validation, several seeds side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from garnet.backbones.base import BUFFER, Backbone, Noise, Parameters, Penalized, require_backbone, require_features
from garnet.errors import ParameterError
from garnet.graph.graph import Graph, as_graph
from garnet.parameters import (
    Count,
    Natural,
    NonNegative,
    Positive,
    ShareAboveZero,
    require_arguments,
    require_device,
    require_parameters,
    require_seeds,
)
from garnet.progress import Clock, Progress, Step
from garnet.training.predictor import Predictor
from garnet.training.supervision import Best, Lesson, require_trainable

# A CPU trains so many nodes, over all seeds, side by side: beyond, its caches lose more than shared products win.
_NODES_TOGETHER = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained.

    Attributes:
        epochs: passes over the training nodes at most; without `batch_size` each is one step on the whole graph.
        lr: step size of Adam. Of several, each seed keeps the model that did best on the validation nodes, or the first
            without such nodes: citation graphs want a small one, Chameleon and Squirrel a larger one.
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

    epochs: Count = 300
    lr: Positive | tuple[Positive, ...] = (0.01, 0.05)
    weight_decay: NonNegative = 5e-5
    patience: Count | None = 100
    warmup: Natural = 0
    confidence: ShareAboveZero | None = None
    batch_size: Count | None = None
    fanout: tuple[Count, ...] = (10, 10)

    def __post_init__(self) -> None:
        self.require_valid()

    def require_valid(self) -> None:
        """Refuse, in one sentence, what no training allows; one that is there has been asked already."""
        require_parameters(self)

    @property
    def rates(self) -> tuple[float, ...]:
        """The step sizes to try."""
        return tuple(self.lr) if isinstance(self.lr, tuple | list) else (self.lr,)

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        yield "warmup", self.warmup < self.epochs, "at least 0 and below 'epochs'"


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
        graph: the graph to train on, or anything that `as_graph` reads; its split says on which nodes.
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
    require_arguments("train", training=(training, Training | None))
    training = training or Training()
    require_seeds(seeds)
    require_device(device, "train")
    require_backbone(backbone, "train")
    require_batches(backbone, training)
    graph = as_graph(graph)
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


def require_batches(backbone: Any, training: Training) -> None:
    """Refuse, in one sentence, batches for a model that makes none.

    Raises:
        ParameterError: the training has a `batch_size`, and the model looks at the whole graph.
    """
    if training.batch_size is not None and getattr(backbone, "whole_graph", False):
        raise ParameterError(f"{type(backbone).__name__} looks at the whole graph at once; leave 'batch_size' out.")


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
        lesson = Lesson.of(self.graph, len(seeds), self.device)
        best = self._best(lesson, seeds)
        if self.training.confidence is not None:
            best = self._best(lesson.taught_by(best.logits, self.training.confidence), seeds)
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

    def _best(self, lesson: Lesson, seeds: Sequence[int]) -> Best:
        """The best of all step sizes, for each seed."""
        best, *others = [self._fit(lesson, seeds, rate) for rate in self.training.rates]
        for other in others:
            best.merge(other)
        return best

    def _fit(self, lesson: Lesson, seeds: Sequence[int], rate: float) -> Best:
        backbone, training = self.backbone, self.training
        generators = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]
        width = int(require_features(self.graph).shape[1])
        models = [backbone.initial(width, lesson.classes, generator) for generator in generators]
        parameters = {name: torch.stack([model[name] for model in models]) for name in models[0]}
        learnt = [value.requires_grad_() for name, value in parameters.items() if not name.startswith(BUFFER)]
        optimizer = torch.optim.Adam(learnt, lr=rate, weight_decay=training.weight_decay)
        noise, best, steps = (
            Noise(generators),
            Best(len(seeds), training.patience, self.device),
            self._steps(lesson, seeds[0]),
        )
        for epoch in range(training.epochs):
            for inputs, taught in steps():
                optimizer.zero_grad(set_to_none=True)
                losses = _losses(backbone, parameters, inputs, noise, taught)
                losses.sum().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if epoch < training.warmup:
                continue
            with torch.no_grad():
                best.update(epoch, parameters, backbone.logits(parameters, self.inputs, None), lesson)
            if self.progress is not None and epoch % 10 == 0:
                checked = f"validation {best.accuracy.mean().item():.1%}" if len(lesson.checked) else ""
                self.progress(Step("train", checked, epoch, training.epochs))
            if best.all_done:
                break
        return best

    def _steps(self, lesson: Lesson, seed: int) -> Callable[[], Iterable[tuple[Any, Lesson]]]:
        """What an epoch is made of: one step with the whole graph, or one for each batch of the taught nodes."""
        size = self.training.batch_size
        if size is None:
            return lambda: [(self.inputs, lesson)]
        from garnet.training.sampling import batches

        nodes = lesson.nodes.cpu()
        # One draw away from the model's own generator, whose numbers the batches should not repeat.
        first = torch.randint(2**62, (), generator=torch.Generator().manual_seed(seed))
        generator = torch.Generator().manual_seed(int(first))

        def epoch() -> Iterator[tuple[Any, Lesson]]:
            fanout = tuple(self.training.fanout)
            for batch in batches(self.graph, nodes, size=size, fanout=fanout, generator=generator):
                inputs = self.backbone.prepare(batch.graph, self.device)
                yield inputs, lesson.among(batch.nodes.to(self.device), batch.asked)

        return epoch


def _losses(backbone: Backbone, parameters: Parameters, inputs: Any, noise: Noise, lesson: Lesson) -> Tensor:
    """(S,) what each model is to make small."""
    if isinstance(backbone, Penalized):
        logits, penalties = backbone.logits_and_penalties(parameters, inputs, noise)
        return lesson.losses(logits) + penalties
    return lesson.losses(backbone.logits(parameters, inputs, noise))
