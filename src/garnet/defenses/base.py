"""What a defence is: a graph in, predictions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from garnet.backbones.base import Noise, Parameters
from garnet.graph.graph import Graph
from garnet.parameters import Device, require_parameters
from garnet.progress import Progress, Stage
from garnet.training.loop import Training, require_batches, train
from garnet.training.predictor import Predictor


class Cleaned(Protocol):
    """A purified graph and what it cost; GARNET's `Purification` is one."""

    @property
    def graph(self) -> Graph:
        """The same nodes, joined by other edges."""
        ...

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Cost of each stage."""
        ...


@runtime_checkable
class Purifier(Protocol):
    """A graph in, a graph with other edges out."""

    def purify(self, graph: Graph, *, progress: Progress | None = None) -> Cleaned:
        """Purify a graph; `progress` is called with the name of each stage as it begins."""
        ...


@runtime_checkable
class Defense(Protocol):
    """Trains on a graph that is not to be trusted."""

    def fit(self, graph: Graph, *, seed: int = 0) -> Predictor:
        """One trained model."""
        ...

    def fit_seeds(
        self, graph: Graph, seeds: Sequence[int], *, progress: Progress | None = None
    ) -> tuple[Predictor, ...]:
        """A trained model for each seed, together where that is faster."""
        ...


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """A defence that is a model of its own: a backbone that says how it is to be trained.

    A subclass writes the three methods of a backbone, so that any purifier may come before it.

    Attributes:
        training: how it is trained.
        device: where it is trained.
    """

    whole_graph: ClassVar[bool] = False
    """Whether it needs all of the graph at once, so that no batches can be made."""

    training: Training = field(default_factory=Training)
    device: Device = "cpu"

    @final
    def __post_init__(self) -> None:
        """Refuse what the annotations of its parameters, and its `_rules`, do not allow; `@dataclass` calls it."""
        require_parameters(self)
        require_batches(self, self.training)

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
    def fit(self, graph: Graph, *, seed: int = 0) -> Predictor:
        """One trained model."""
        return self.fit_seeds(graph, [seed])[0]

    @final
    def fit_seeds(
        self, graph: Graph, seeds: Sequence[int], *, progress: Progress | None = None
    ) -> tuple[Predictor, ...]:
        """A trained model for each seed, side by side."""
        return train(self, graph, seeds=seeds, training=self.training, device=self.device, progress=progress)
