"""Clean the graph, then train any model on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from garnet.backbones import GPRGNN
from garnet.backbones.base import Backbone
from garnet.defenses.base import Defense, Purifier
from garnet.errors import ParameterError
from garnet.graph.graph import Graph, as_graph
from garnet.parameters import Device, require_device, require_parameters, require_seeds
from garnet.progress import Progress, Stage
from garnet.purify.garnet import GARNET
from garnet.training.loop import Training, require_batches, train
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable


@dataclass(frozen=True)
class Purified:
    """A purifier, then a model or another defence: `Purified(GARNET(), GPRGNN())`, `Purified(GARNET(), RUNG())`.

    Attributes:
        purifier: what cleans the graph; None trains on the graph as it is.
        backbone: the model, or a defence that trains one.
        training: how it is trained; None is a defence's own, and `Training()` for a backbone.
        device: where it is trained; None is a defence's own, and `cpu` for a backbone.

    Example:
        >>> from garnet.backbones import GCN
        >>> from garnet.datasets import load
        >>> quick = Purified(GARNET(rank=20), GCN(hidden=8), Training(epochs=5))
        >>> quick.fit(load("cora", split="random"), seed=1).logits().shape
        torch.Size([2485, 7])
    """

    purifier: Purifier | None = field(default_factory=GARNET)
    backbone: Backbone | Defense = field(default_factory=GPRGNN)
    training: Training | None = None
    device: Device | None = None

    def __post_init__(self) -> None:
        require_parameters(self)
        self._defense()

    def fit(self, graph: Graph, *, seed: int = 0) -> Predictor:
        """One trained model."""
        return self.fit_seeds(graph, [seed])[0]

    def fit_seeds(
        self, graph: Graph, seeds: Sequence[int], *, progress: Progress | None = None
    ) -> tuple[Predictor, ...]:
        """A trained model for each seed; the graph is purified once."""
        graph = as_graph(graph)
        require_trainable(graph)
        require_seeds(seeds)
        defense = self._defense()
        device: str = self.device or getattr(defense, "device", None) or "cpu"
        require_device(device, type(defense or self).__name__)
        stages: tuple[Stage, ...] = ()
        if self.purifier is not None:
            cleaned = self.purifier.purify(graph, progress=progress)
            graph, stages = cleaned.graph, cleaned.stages
        if defense is not None:
            predictors = defense.fit_seeds(graph, seeds, progress=progress)
        else:
            model: Any = self.backbone
            predictors = train(model, graph, seeds=seeds, training=self.training, device=device, progress=progress)
        return tuple(replace(one, stages=(*stages, *one.stages)) for one in predictors)

    def _defense(self) -> Defense | None:
        """The defence with what it is to have of this one; None for a backbone, which is trained here."""
        model = self.backbone
        if not isinstance(model, Defense):
            require_batches(model, self.training or Training())
            return None
        given = {name: value for name in ("training", "device") if (value := getattr(self, name)) is not None}
        for name in given:
            if not hasattr(model, name):
                raise ParameterError(f"{type(model).__name__} has no '{name}' of its own; leave that of Purified out.")
        return replace(model, **given) if given else model  # type: ignore[type-var]
