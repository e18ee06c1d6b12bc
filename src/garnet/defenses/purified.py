"""Clean the graph, then train any model on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from garnet.backbones import GPRGNN
from garnet.backbones.base import Backbone
from garnet.defenses.base import Purifier
from garnet.graph import Graph, as_graph
from garnet.lesson import require_trainable
from garnet.parameters import require_device, require_seeds
from garnet.predictor import Predictor
from garnet.purification import Progress
from garnet.purify import GARNET
from garnet.training import Training, train


@dataclass(frozen=True)
class Purified:
    """A purifier, then a model: `Purified(GARNET(), GPRGNN())`.

    Attributes:
        purifier: what cleans the graph; None trains on the graph as it is.
        backbone: the model.
        training: how it is trained.
        device: where it is trained.

    Example:
        >>> from garnet.backbones import GCN
        >>> from garnet.datasets import load
        >>> quick = Purified(GARNET(rank=20), GCN(hidden=8), Training(epochs=5))
        >>> quick.fit(load("cora", split="random"), seed=1).logits().shape
        torch.Size([2485, 7])
    """

    purifier: Purifier | None = field(default_factory=GARNET)
    backbone: Backbone = field(default_factory=GPRGNN)
    training: Training = field(default_factory=Training)
    device: str = "cpu"

    def fit(self, graph: Graph, *, seed: int = 0) -> Predictor:
        """One trained model."""
        return self.fit_seeds(graph, [seed])[0]

    def fit_seeds(
        self, graph: Graph, seeds: Sequence[int], *, progress: Progress | None = None
    ) -> tuple[Predictor, ...]:
        """A trained model for each seed; the graph is purified once."""
        graph = as_graph(graph)
        require_trainable(graph)
        self.training.require_valid()
        require_seeds(seeds)
        require_device(self.device, "Purified")
        if self.purifier is None:
            return self._train(graph, seeds, progress)
        cleaned = self.purifier.purify(graph, progress=progress)
        predictors = self._train(cleaned.graph, seeds, progress)
        return tuple(replace(one, stages=(*cleaned.stages, *one.stages)) for one in predictors)

    def _train(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        return train(self.backbone, graph, seeds=seeds, training=self.training, device=self.device, progress=progress)
