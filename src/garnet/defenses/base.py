"""What a defence is: a graph in, predictions out."""

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
    """Trains on a graph that is not to be trusted: a frozen dataclass that stores its parameters and writes `_fit`."""

    whole_graph: ClassVar[bool] = False
    """Whether it needs all of the graph at once, so that no batches can be made."""

    gives_model: ClassVar[bool] = True
    """Whether what it learns can be saved, and used on another graph."""

    def __post_init__(self) -> None:
        """Refuse what the annotations of its parameters, and its `_rules`, do not allow; `@dataclass` calls it."""
        require_parameters(self)
        training: Training | None = getattr(self, "training", None)
        if training is not None:
            require_batches(self, training)

    learns_one_graph: ClassVar[bool] = False
    """Whether what it learns is of use on the graph of its training alone, so that `predict` refuses any other."""

    @abstractmethod
    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        """A trained model for each seed, on a graph that can be trained on."""

    @final
    def fit(self, graph: Any, *, seed: int = 0) -> Predictor:
        """One trained model; see `fit_seeds`."""
        return self.fit_seeds(graph, [seed])[0]

    @final
    def fit_seeds(self, graph: Any, seeds: Sequence[int], *, progress: Progress | None = None) -> tuple[Predictor, ...]:
        """A trained model for each seed, together where that is faster.

        Args:
            graph: a graph with labels and a split, or anything that `as_graph` reads. Where it has no features, models
                read one-hot node numbers, and defences that compare features refuse it.
            seeds: one model each.
            progress: told now and then how far it is.

        Raises:
            GraphError: it is no graph, or cannot be trained on.
            ParameterError: there is no such device, or the seeds are none.
        """
        graph = as_graph(graph)
        require_trainable(graph)
        require_seeds(seeds)
        require_device(getattr(self, "device", None) or "cpu", type(self).__name__)
        with sharing(graph):
            return self._fit(graph, seeds, progress)

    @final
    def predict(self, predictor: Predictor, graph: Any) -> Predictor:
        """What a model that this defence has trained says of another graph of the same nodes.

        The graph is defended as the one in training was, and nothing is learnt of it: this is what an attack after
        training, an evasion, meets.

        Args:
            predictor: what `fit` gave back.
            graph: the other graph, or anything that `as_graph` reads.

        Raises:
            GraphError: it is no graph, or does not fit the model; or what was learnt serves one graph only.
        """
        graph = as_graph(graph)
        with sharing(graph):
            return self._predict(predictor, graph)

    def _predict(self, predictor: Predictor, graph: Graph) -> Predictor:
        """See `predict`; a defence that does anything to a graph before its model reads it does so here."""
        if self.learns_one_graph or predictor.backbone is None:
            raise GraphError(
                f"{type(self).__name__} learns one graph only and cannot answer for another; fit it again."
            )
        return predictor.on(graph, device=getattr(self, "device", None) or "cpu")

    def answers(self, predictor: Predictor) -> Callable[[Graph], Tensor]:
        """The (n, classes) logits of `predict` as a function of the graph, for one who asks hundreds of times.

        A defence may keep from one question to the next what the edges do not change.

        Args:
            predictor: what `fit` gave back.
        """
        return lambda graph: self.predict(predictor, graph).logits()

    def relaxed(self, predictor: Predictor, graph: Graph, *, way: Way = "still") -> EdgeFunction:
        """A model that this defence has trained, as a function of the weights of edges near a graph.

        This is what an attacker who knows the defence follows the gradient of. At the edges of the graph it says what
        `predict` says; farther away it may be wrong, and is made anew.

        Args:
            predictor: what `fit` gave back.
            graph: the graph, which need not be that of training.
            way: how gradients pass what comes before the model; see `garnet.purify.relaxed.Way`.

        Raises:
            ParameterError: no gradient reaches the edges.
        """
        return EdgeModel.of(predictor, graph, getattr(self, "device", None) or "cpu")

    def views(self, graph: Graph) -> tuple[View, ...]:
        """What the models that this defence would train on a graph read of it, and how much each of them counts.

        This is what an attacker who poisons the graph and knows the defence aims at. Unless a defence says more, its
        model reads the graph as it is.
        """
        return (View(as_it_is),)


@dataclass(frozen=True, kw_only=True)
class Model(Defense):
    """A defence that is a model of its own: a backbone that says how it is to be trained.

    A subclass writes the three methods of a backbone, so that any purifier may come before it.

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
        """What of the graph the model needs, computed once."""

    @abstractmethod
    def logits(self, parameters: Parameters, inputs: Any, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits of S models; `noise` is None in evaluation."""

    @final
    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        return train(self, graph, seeds=seeds, training=self.training, device=self.device, progress=progress)


def require_dense(defense: Defense, nodes: int, most_bytes: int) -> None:
    """Refuse, in one sentence, a graph whose dense matrix would take too much memory.

    Raises:
        GraphError: it would.
    """
    if 4 * nodes**2 > most_bytes:
        raise GraphError(
            f"{type(defense).__name__} forms a dense matrix of {nodes} x {nodes} numbers, {4 * nodes**2 / 1e9:.1f} GB, "
            f"more than its 'most_bytes' of {most_bytes / 1e9:.1f} GB; GARNET does not."
        )
