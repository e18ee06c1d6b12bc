"""Clean the graph, then train any model on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from garnet.attacks.models import EdgeFunction
from garnet.backbones import GPRGNN
from garnet.backbones.base import Backbone
from garnet.defenses.base import Defense
from garnet.defenses.relaxed import ThroughPurifier
from garnet.errors import ParameterError
from garnet.graph.graph import Graph
from garnet.parameters import Device, require_device
from garnet.progress import Progress, Stage
from garnet.purify.base import Purifier
from garnet.purify.garnet import GARNET
from garnet.purify.relaxed import View, Way
from garnet.training.loop import Training, require_batches, train
from garnet.training.predictor import Predictor


@dataclass(frozen=True)
class Purified(Defense):
    """A purifier, then a model or another defence: `Purified(GARNET(), GPRGNN())`, `Purified(GARNET(), RUNG())`.

    The graph is purified once for all seeds.

    Attributes:
        purifier: what cleans the graph; None trains on the graph as it is.
        backbone: the model, or a defence that trains one.
        training: how it is trained; None means a defence's own, or `Training()` for a backbone.
        device: where it is purified and trained; None means a defence's own, or `cpu` for a backbone.

    Example:
        >>> from garnet.backbones import GCN
        >>> from garnet.datasets import load
        >>> quick = Purified(GARNET(rank=20), GCN(hidden=8), Training(epochs=5))
        >>> quick.fit(load("cora", split="random"), seed=1).logits().shape
        torch.Size([2485, 7])
    """

    purifier: Purifier | None = field(default_factory=GARNET)
    backbone: Backbone[Any] | Defense = field(default_factory=GPRGNN)
    training: Training | None = None
    device: Device | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.backbone, Defense):
            self._configured(self.backbone)
        else:
            require_batches(self.backbone, self.training or Training())

    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        model = self._model
        if isinstance(model, Defense):
            # Checked before anything is purified in vain.
            require_device(getattr(model, "device", None) or "cpu", type(model).__name__)
        stages: tuple[Stage, ...] = ()
        if self.purifier is not None:
            cleaned = self.purifier.purify(graph, device=self._device, progress=progress)
            graph, stages = cleaned.graph, cleaned.stages
        if isinstance(model, Defense):
            predictors = model.fit_seeds(graph, seeds, progress=progress)
        else:
            device = self.device or "cpu"
            predictors = train(model, graph, seeds=seeds, training=self.training, device=device, progress=progress)
        return tuple(replace(one, stages=(*stages, *one.stages)) for one in predictors)

    def _predict(self, predictor: Predictor, graph: Graph) -> Predictor:
        if self.purifier is not None:
            graph = self.purifier.purify(graph, device=self._device).graph
        model = self._model
        return model.predict(predictor, graph) if isinstance(model, Defense) else super()._predict(predictor, graph)

    def relaxed(self, predictor: Predictor, graph: Graph, *, way: Way = "still") -> EdgeFunction:
        """See `Defense.relaxed`."""
        model = self._model
        inner = model.relaxed if isinstance(model, Defense) else super().relaxed
        if self.purifier is None:
            return inner(predictor, graph, way=way)
        view = self.purifier.relaxed(graph, device=self._device, way=way)
        return ThroughPurifier(view, inner(predictor, graph, way=way))

    def views(self, graph: Graph) -> tuple[View, ...]:
        """See `Defense.views`; a defence behind a purifier is assumed to read the purified graph in full."""
        if self.purifier is not None:
            return (View(self.purifier.relaxed(graph, device=self._device)),)
        model = self._model
        return model.views(graph) if isinstance(model, Defense) else super().views(graph)

    @property
    def _model(self) -> Backbone[Any] | Defense:
        """What is trained, with the training and device given here."""
        return self._configured(self.backbone) if isinstance(self.backbone, Defense) else self.backbone

    @property
    def _device(self) -> str:
        return self.device or getattr(self.backbone, "device", None) or "cpu"

    def _configured(self, defense: Defense) -> Defense:
        """A defence with the training and device given here."""
        given = {name: value for name in ("training", "device") if (value := getattr(self, name)) is not None}
        for name in given:
            if not hasattr(defense, name):
                raise ParameterError(
                    f"{type(defense).__name__} has no '{name}' of its own; leave that of Purified out."
                )
        return replace(defense, **given)
