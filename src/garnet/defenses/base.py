"""The interface of a defence: a graph in, predictions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from garnet.attacks.models import EdgeFunction, EdgeModel
from garnet.backbones.base import Noise, Parameters
from garnet.errors import GraphError
from garnet.graph.graph import Graph, as_graph
from garnet.linalg.threads import sharing
from garnet.parameters import Device, require_device, require_parameters, require_seeds
from garnet.progress import Progress
from garnet.purify.relaxed import View, Way, as_it_is
from garnet.training.loop import Training, require_batches, train
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable


@dataclass(frozen=True)
class Defense(ABC):
    """Trains on an untrusted graph; a subclass is a frozen dataclass that stores its parameters and defines `_fit`."""

    whole_graph: ClassVar[bool] = False
    """Whether it needs the whole graph at once, which rules out batches."""

    gives_model: ClassVar[bool] = True
    """Whether what it learns can be saved and used on another graph."""

    def __post_init__(self) -> None:
        """Refuse what the parameters' annotations and `_rules` do not allow; `@dataclass` calls it."""
        require_parameters(self)
        training: Training | None = getattr(self, "training", None)
        if training is not None:
            require_batches(self, training)

    learns_one_graph: ClassVar[bool] = False
    """Whether what it learns only applies to the training graph, so that `predict` refuses any other."""

    @abstractmethod
    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        """A trained model for each seed, on a graph that can be trained on."""

    @final
    def fit(self, graph: Any, *, seed: int = 0) -> Predictor:
        """One trained model; see `fit_seeds`."""
        return self.fit_seeds(graph, [seed])[0]

    @final
    def fit_seeds(self, graph: Any, seeds: Sequence[int], *, progress: Progress | None = None) -> tuple[Predictor, ...]:
        """A trained model for each seed, trained together where that is faster.

        Args:
            graph: a graph with labels and a split, or anything that `as_graph` reads. If it has no features, models
                read one-hot node numbers, and defences that compare features refuse it.
            seeds: one model each.
            progress: called now and then with the progress so far.

        Raises:
            GraphError: it is not a graph, or cannot be trained on.
            ParameterError: there is no such device, or the seeds are not valid.
        """
        graph = as_graph(graph)
        require_trainable(graph)
        require_seeds(seeds)
        require_device(getattr(self, "device", None) or "cpu", type(self).__name__)
        with sharing(graph):
            return self._fit(graph, seeds, progress)

    @final
    def predict(self, predictor: Predictor, graph: Any) -> Predictor:
        """Predict, with a model that this defence has trained, on another graph of the same nodes.

        The graph is defended like the training graph, and nothing is learnt from it: this is what an attack after
        training, an evasion, faces.

        Args:
            predictor: what `fit` returned.
            graph: the other graph, or anything that `as_graph` reads.

        Raises:
            GraphError: it is not a graph, or does not fit the model; or what was learnt only applies to the training
                graph.
        """
        graph = as_graph(graph)
        with sharing(graph):
            return self._predict(predictor, graph)

    def _predict(self, predictor: Predictor, graph: Graph) -> Predictor:
        """See `predict`; a defence that changes a graph before its model reads it does so here."""
        if self.learns_one_graph or predictor.backbone is None:
            raise GraphError(
                f"{type(self).__name__} learns one graph only and cannot answer for another; fit it again."
            )
        return predictor.on(graph, device=getattr(self, "device", None) or "cpu")

    def answers(self, predictor: Predictor) -> Callable[[Graph], Tensor]:
        """The (n, classes) logits of `predict` as a function of the graph, for hundreds of calls.

        A defence may cache between calls what the edges do not change.

        Args:
            predictor: what `fit` returned.
        """
        return lambda graph: self.predict(predictor, graph).logits()

    def relaxed(self, predictor: Predictor, graph: Graph, *, way: Way = "still") -> EdgeFunction:
        """A model that this defence has trained, as a function of the weights of edges near a graph.

        An attacker who knows the defence follows its gradient. At the edges of the graph it equals `predict`; farther
        away it may be wrong, and is made anew.

        Args:
            predictor: what `fit` returned.
            graph: the graph, which need not be the training graph.
            way: how gradients pass through what precedes the model; see `garnet.purify.relaxed.Way`.

        Raises:
            ParameterError: no gradient reaches the edges.
        """
        return EdgeModel.of(predictor, graph, getattr(self, "device", None) or "cpu")

    def views(self, graph: Graph) -> tuple[View, ...]:
        """What the models that this defence would train on a graph read of it, with the weight of each model.

        An attacker who poisons the graph and knows the defence aims at this. Unless a defence overrides it, its model
        reads the graph as it is.
        """
        return (View(as_it_is),)


@dataclass(frozen=True, kw_only=True)
class Model(Defense):
    """A defence that is itself a model: a backbone that brings its own training.

    A subclass defines the three methods of a backbone, so that any purifier may precede it.

    Attributes:
        training: how it is trained.
        device: where it is trained.
    """

    training: Training = field(default_factory=Training)
    device: Device = "cpu"

    @abstractmethod
    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The parameters of one model before training."""

    @abstractmethod
    def prepare(self, graph: Graph, device: str) -> Any:
        """What the model needs of the graph, computed once."""

    @abstractmethod
    def logits(self, parameters: Parameters, inputs: Any, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits of S models; `noise` is None in evaluation."""

    @final
    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        return train(self, graph, seeds=seeds, training=self.training, device=self.device, progress=progress)


def require_dense(defense: Defense, nodes: int, most_bytes: int) -> None:
    """Refuse a graph whose dense matrix would take too much memory.

    Raises:
        GraphError: it would.
    """
    if 4 * nodes**2 > most_bytes:
        raise GraphError(
            f"{type(defense).__name__} forms a dense matrix of {nodes} x {nodes} numbers, {4 * nodes**2 / 1e9:.1f} GB, "
            f"more than its 'most_bytes' of {most_bytes / 1e9:.1f} GB; GARNET does not."
        )
