"""Clean the graph, then train any model on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from garnet.backbones import GPRGNN
from garnet.backbones.base import Backbone, require_valid
from garnet.defenses.base import Defense, Purifier
from garnet.errors import ParameterError
from garnet.graph import Graph, as_graph
from garnet.lesson import require_trainable
from garnet.parameters import require_device, require_seeds
from garnet.predictor import Predictor
from garnet.purification import Progress
from garnet.purify import GARNET
from garnet.training import Training, train


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
    device: str | None = None

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
        fit = self._fit()
        if self.purifier is None:
            return fit(graph, seeds, progress)
        cleaned = self.purifier.purify(graph, progress=progress)
        predictors = fit(cleaned.graph, seeds, progress)
        return tuple(replace(one, stages=(*cleaned.stages, *one.stages)) for one in predictors)

    def _fit(self) -> Callable[[Graph, Sequence[int], Progress | None], tuple[Predictor, ...]]:
        """What trains on the purified graph; what is wrong with it is said before the graph is purified."""
        model = self.backbone
        if not isinstance(model, Defense):
            require_valid(model)
            training, device = self.training or Training(), self.device or "cpu"
            training.require_valid()
            require_device(device, "Purified")
            return lambda graph, seeds, progress: train(
                model, graph, seeds=seeds, training=training, device=device, progress=progress
            )
        given = {name: value for name in ("training", "device") if (value := getattr(self, name)) is not None}
        for name in given:
            if not hasattr(model, name):
                raise ParameterError(f"{type(model).__name__} has no '{name}' of its own; leave that of Purified out.")
        defense: Defense = replace(model, **given) if given else model  # type: ignore[type-var]
        require_valid(defense)
        getattr(defense, "training", Training()).require_valid()
        require_device(getattr(defense, "device", "cpu"), type(defense).__name__)
        return lambda graph, seeds, progress: defense.fit_seeds(graph, seeds, progress=progress)
