"""A perceptron on the features alone: what is possible without edges."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.backbones.base import Features, Noise, Parameters, dropout, fan_in, linear
from garnet.graph.graph import Graph
from garnet.parameters import Checked, ShareBelowOne, Width


@dataclass(frozen=True, kw_only=True)
class MLP(Checked):
    """Two linear maps with a relu between them; edges are ignored.

    Attributes:
        hidden: width between the maps.
        dropout: share of the inputs of each map dropped in each training step.
    """

    hidden: Width = 64
    dropout: ShareBelowOne = 0.5

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Weights and biases as torch's `Linear` draws them."""
        first = fan_in(features, self.hidden, generator)
        second = fan_in(self.hidden, classes, generator)
        return {"weight0": first[0], "bias0": first[1], "weight1": second[0], "bias1": second[1]}

    def prepare(self, graph: Graph, device: str) -> Features:
        """The features."""
        return Features.of(graph, device)

    def logits(self, parameters: Parameters, inputs: Features, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        return perceptron(parameters, inputs, noise, (self.dropout, self.dropout))


def perceptron(
    parameters: Parameters, features: Features, noise: Noise | None, rates: tuple[float, float], prefix: str = ""
) -> Tensor:
    """(S, n, f) outputs of two linear maps with a relu between them and dropout before each; names have a prefix."""
    hidden = features.linear(parameters[f"{prefix}weight0"], rates[0], noise) + parameters[f"{prefix}bias0"]
    hidden = dropout(hidden.relu(), rates[1], noise)
    return linear(hidden, parameters[f"{prefix}weight1"]) + parameters[f"{prefix}bias1"]
