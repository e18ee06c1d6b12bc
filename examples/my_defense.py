"""A defence of one's own: one class with three methods. Training, seeds and purifiers come with the base class.

python examples/my_defense.py
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from garnet import GARNET
from garnet.backbones import GCN, MLP
from garnet.backbones.base import Noise, Parameters
from garnet.backbones.gcn import GCNInputs
from garnet.datasets import cora_metattack, load
from garnet.defenses import Model, Purified
from garnet.graph import Graph
from garnet.training import Training


@dataclass(frozen=True, kw_only=True)
class Hedge(Model):
    """Adds what a GCN says of a node and what its features alone say: where edges lie, the features may know better.

    Attributes:
        hidden: width of both.
    """

    hidden: int = 64

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The parameters of both."""
        alone = MLP(hidden=self.hidden).initial(features, classes, generator)
        joined = GCN(hidden=self.hidden).initial(features, classes, generator)
        return {**joined, **{f"alone_{name}": value for name, value in alone.items()}}

    def prepare(self, graph: Graph, device: str) -> GCNInputs:
        """Features and the convolution."""
        return GCN().prepare(graph, device)

    def logits(self, parameters: Parameters, inputs: GCNInputs, noise: Noise | None) -> Tensor:
        """(seeds, n, classes)."""
        alone = {name.removeprefix("alone_"): value for name, value in parameters.items() if name.startswith("alone_")}
        return GCN().logits(parameters, inputs, noise) + MLP().logits(alone, inputs.features, noise)


def main() -> None:
    """Compare it with a GCN on a poisoned graph, without and with purification."""
    clean = load("cora", split="random")
    poisoned = cora_metattack().apply(clean)
    training = Training(epochs=100, lr=0.01)
    for model in (GCN(), Hedge()):
        plain, purified = (Purified(purifier, model, training).fit(poisoned) for purifier in (None, GARNET()))
        name = type(model).__name__
        print(f"{name}: {plain.accuracy():.1%} as it is, {purified.accuracy():.1%} after purification")


if __name__ == "__main__":
    main()
