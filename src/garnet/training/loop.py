"""The training loop: the whole graph or batches of it, early stopping on validation, several seeds side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, repeat
from typing import Any, Generic, NamedTuple

import torch
from torch import Tensor

from garnet.backbones.base import BUFFER, Backbone, Inputs, Noise, Parameters, Penalized, initial_parameters
from garnet.errors import ParameterError
from garnet.graph.graph import Graph, as_graph
from garnet.linalg.threads import sharing
from garnet.parameters import (
    LATER,
    Checked,
    Count,
    Natural,
    NonNegative,
    Positive,
    ShareAboveZero,
    require_arguments,
    require_device,
    require_seeds,
)  # fmt: skip
from garnet.progress import Clock, Progress, Step
from garnet.training.adam import Adam
from garnet.training.checkpoint import BestCheckpoint
from garnet.training.predictor import Predictor
from garnet.training.supervision import ClassWeights, Supervision, require_trainable

# Nodes, over all seeds, that a CPU trains side by side: beyond, cache misses cost more than shared products save.
_NODES_TOGETHER = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Training(Checked):
    """How a model is trained.

    Attributes:
        epochs: most passes over the training nodes; without `batch_size` each is one step on the whole graph.
        lr: learning rate of Adam. Of several, each seed keeps the model that did best on the validation nodes, or the
            first if there are none: citation graphs want a small rate, Chameleon and Squirrel a larger one.
        weight_decay: weight decay of all parameters.
        patience: epochs without a better validation accuracy (or the same with a lower validation loss) after which a
            seed stops; None never stops early. The best parameters are kept, not the last.
        warmup: epochs before anything counts as best.
        confidence: None trains once. A probability trains a second time, from scratch, and adds predictions of the
            first model with at least this confidence to the known labels.
        batch_size: training nodes per step, with neighbours sampled anew each time: for graphs whose gradients do not
        fit into memory. The seeds share the batches, which the first seed determines. Evaluation still uses the
        whole graph. None makes no batches.
        fanout: most neighbours to sample for each node, for each hop from the training nodes.
        class_weights: weight of a node of each class, in the loss and in the choice of the best state on the validation
        nodes. `balanced` gives every class the same total, however few training nodes it has; a tuple has a number for
        each class; None gives every node the same weight.
    """

    epochs: Count = 300
    lr: Positive | tuple[Positive, ...] = (0.01, 0.05)
    weight_decay: NonNegative = 5e-5
    patience: Count | None = 100
    warmup: Natural = 0
    confidence: ShareAboveZero | None = None
    batch_size: Count | None = None
    fanout: tuple[Count, ...] = (10, 10)
    class_weights: ClassWeights | None = field(default=None, metadata={LATER: True})

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates to try."""
        return tuple(self.lr) if isinstance(self.lr, tuple | list) else (self.lr,)

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        yield "warmup", self.warmup < self.epochs, "at least 0 and below 'epochs'"


def train(
    backbone: Backbone[Inputs],
    graph: Graph,
    *,
    seeds: Sequence[int] = (0,),
    training: Training | None = None,
    device: str = "cpu",
    inputs: Inputs | None = None,
    progress: Progress | None = None,
) -> tuple[Predictor, ...]:
    """Train one model for each seed on a graph with labels and a split.

    If the graph has no features, the models read one-hot node numbers, and can then be used with other edges of the
    same nodes, but not with other nodes.

    Seeds are trained together, with one product for all of them, or a few at a time for a large graph on a CPU. Each
    has its own generators, so its model is the same as if trained alone, up to rounding. (Not with `batch_size`:
    batches are shared.)

    Args:
        backbone: the model.
        graph: the graph to train on, or anything that `as_graph` reads; its split selects the nodes.
        seeds: one model each.
        training: settings of the training; None means `Training()`.
        device: `cpu`, `cuda`, or any other that torch knows.
        inputs: result of `backbone.prepare`, if not to be made from this graph; excludes batches.
        progress: called every ten epochs.

    Returns:
        A predictor for each seed, with the parameters that did best on the validation nodes.

    Raises:
        GraphError: the graph lacks labels or a split, or features where the model compares them.
        ParameterError: the training's parameters make no sense.
    """
    require_arguments("train", training=(training, Training | None))
    training = training or Training()
    require_seeds(seeds)
    require_device(device, "train")
    require_arguments("train", backbone=(backbone, Backbone))
    require_batches(backbone, training)
    graph = as_graph(graph)
    if inputs is not None and training.batch_size is not None:
        raise ParameterError("What was prepared of the whole graph cannot be cut into batches; leave 'batch_size' out.")
    require_trainable(graph)
    together = len(seeds)
    if training.batch_size is None and torch.device(device).type == "cpu":
        together = max(1, _NODES_TOGETHER // graph.num_nodes)
    clock, course = Clock(None), Course(backbone, graph, training, device, progress)
    with sharing(graph), clock("train"):
        whole = backbone.prepare(graph, device) if inputs is None else inputs
        predictors = course.predictors(seeds, course.plain_epochs(whole), whole, together=together)
    return tuple(replace(one, stages=tuple(clock.stages)) for one in predictors)


def require_batches(backbone: Any, training: Training) -> None:
    """Refuse batches for a model that cannot use them.

    Raises:
        ParameterError: the training has a `batch_size`, but the model needs the whole graph.
    """
    if training.batch_size is not None and getattr(backbone, "whole_graph", False):
        raise ParameterError(f"{type(backbone).__name__} looks at the whole graph at once; leave 'batch_size' out.")


class Round(NamedTuple, Generic[Inputs]):
    """Some training steps, and then a check of how good the models have become.

    Attributes:
        steps: for each, the models' inputs and what they should learn.
        checked_on: their inputs when they are checked; None if no state may count as the best.
    """

    steps: Iterable[tuple[Inputs, Supervision]]
    checked_on: Inputs | None


Epochs = Callable[[Parameters, Supervision, Sequence[int]], Iterator[Sequence[Round[Inputs]]]]
"""Given the parameters in training, the supervision and the seeds, the rounds of each epoch."""


@dataclass(frozen=True, eq=False)
class Course(Generic[Inputs]):
    """Everything that training consists of, except the seeds and what an epoch does."""

    backbone: Backbone[Inputs]
    graph: Graph
    training: Training
    device: str
    progress: Progress | None

    def predictors(
        self,
        seeds: Sequence[int],
        epochs: Epochs[Inputs],
        inputs: Inputs | None,
        *,
        teacher: Epochs[Inputs] | None = None,
        together: int = 1,
    ) -> list[Predictor]:
        """Train a model for each seed, and keep its best state over all epochs and learning rates.

        Args:
            seeds: one model each.
            epochs: what the models do.
            inputs: inputs to predict on; None if what was learnt is of no use beyond the last predictions.
            teacher: what the models that supply labels for `Training.confidence` do; None means the same.
            together: number of models to train side by side.
        """
        predictors = []
        for first in range(0, len(seeds), together):
            group = seeds[first : first + together]
            best = self._best(group, epochs, teacher or epochs)
            predictors += [self._predictor(best, index, seed, inputs) for index, seed in enumerate(group)]
        return predictors

    def _predictor(self, best: BestCheckpoint, index: int, seed: int, inputs: Inputs | None) -> Predictor:
        model = {name: value[index, None] for name, value in best.parameters.items()}
        scores, backbone = best.logits[index], None
        if inputs is not None:
            # Once more, alone: a model that is saved and loaded then predicts the same to the last bit.
            with torch.no_grad():
                scores, backbone = self.backbone.logits(model, inputs, None)[0], self.backbone
        weights = {name: value[0].cpu() for name, value in model.items()}
        epoch, accuracy = int(best.epoch[index]), float(best.accuracy[index])
        return Predictor(self.graph, scores.cpu(), seed, backbone, weights, epoch, accuracy)

    def plain_epochs(self, inputs: Inputs) -> Epochs[Inputs]:
        """Epochs of one step on the whole graph, or of one step for each batch of the training nodes."""

        def epochs(
            parameters: Parameters, supervision: Supervision, seeds: Sequence[int]
        ) -> Iterator[Sequence[Round[Inputs]]]:
            size = self.training.batch_size
            if size is None:
                return repeat([Round([(inputs, supervision)], inputs)])
            # One draw away from the model's own generator, whose numbers the batches should not repeat.
            first = torch.randint(2**62, (), generator=torch.Generator().manual_seed(seeds[0]))
            generator = torch.Generator().manual_seed(int(first))
            return ([Round(self._batches(supervision, size, generator), inputs)] for _ in count())

        return epochs

    def _batches(
        self, supervision: Supervision, size: int, generator: torch.Generator
    ) -> Iterator[tuple[Inputs, Supervision]]:
        from garnet.training.sampling import batches

        nodes, fanout = supervision.nodes.cpu(), tuple(self.training.fanout)
        for batch in batches(self.graph, nodes, size=size, fanout=fanout, generator=generator):
            seen = self.backbone.prepare(batch.graph, self.device)
            yield seen, supervision.among(batch.nodes.to(self.device), batch.asked)

    def _best(self, seeds: Sequence[int], epochs: Epochs[Inputs], teacher: Epochs[Inputs]) -> BestCheckpoint:
        supervision = Supervision.of(self.graph, len(seeds), self.device, self.training.class_weights)
        if self.training.confidence is not None:
            first = self._best_rate(seeds, teacher, supervision)
            supervision = supervision.taught_by(first.logits, self.training.confidence)
        return self._best_rate(seeds, epochs, supervision)

    def _best_rate(self, seeds: Sequence[int], epochs: Epochs[Inputs], supervision: Supervision) -> BestCheckpoint:
        """The best over all learning rates, for each seed."""
        best, *others = [self._fit(seeds, epochs, supervision, rate) for rate in self.training.rates]
        for other in others:
            best.merge(other)
        return best

    def _fit(
        self, seeds: Sequence[int], epochs: Epochs[Inputs], supervision: Supervision, rate: float
    ) -> BestCheckpoint:
        backbone, training = self.backbone, self.training
        generators = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]
        models = [initial_parameters(backbone, self.graph, supervision.classes, one) for one in generators]
        parameters = {name: torch.stack([model[name] for model in models]) for name in models[0]}
        learnt = [value.requires_grad_() for name, value in parameters.items() if not name.startswith(BUFFER)]
        optimizer = Adam(learnt, rate, training.weight_decay)
        noise, best = Noise(generators), BestCheckpoint(len(seeds), training.patience, self.device)
        for epoch, rounds in zip(range(training.epochs), epochs(parameters, supervision, seeds), strict=False):
            for steps, checked_on in rounds:
                for inputs, taught in steps:
                    optimizer.forget()
                    torch.autograd.backward(_losses(backbone, parameters, inputs, noise, taught).sum())
                    optimizer.step()
                if checked_on is not None and epoch >= training.warmup:
                    with torch.no_grad():
                        best.update(epoch, parameters, backbone.logits(parameters, checked_on, None), supervision)
            if self.progress is not None and epoch % 10 == 0:
                # It is negative until there is a best, and NaN without validation nodes.
                accuracy = best.accuracy.mean().item()
                detail = f"validation {accuracy:.1%}" if accuracy >= 0 else ""
                self.progress(Step("train", detail, epoch, training.epochs))
            if best.all_done:
                break
        return best


def _losses(
    backbone: Backbone[Inputs], parameters: Parameters, inputs: Inputs, noise: Noise, supervision: Supervision
) -> Tensor:
    """(S,) the loss of each model."""
    if isinstance(backbone, Penalized):
        logits, penalties = backbone.logits_and_penalties(parameters, inputs, noise)
        return supervision.losses(logits) + penalties
    return supervision.losses(backbone.logits(parameters, inputs, noise))
