"""The graph convolution without its nonlinearity, Wu et al. (ICML 2019): what attackers like to assume."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.backbones.base import Noise, Parameters, glorot, propagate
from garnet.backbones.gcn import GCN, GCNInputs
from garnet.graph.graph import Graph
from garnet.parameters import Checked, Hops


@dataclass(frozen=True, kw_only=True)
class LinearGCN(Checked):
    r"""Logits :math:`\hat A^K X W`: neighbours are averaged, then a linear map decides.

    Attributes:
        hops: K, how often neighbours are averaged.
    """

    hops: Hops = 2

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Glorot weights."""
        return {"weight": glorot(features, classes, generator)}

    def prepare(self, graph: Graph, device: str) -> GCNInputs:
        """Features and the convolution."""
        return GCN().prepare(graph, device)

    def logits(self, parameters: Parameters, inputs: GCNInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        hidden = inputs.features.linear(parameters["weight"], 0.0, noise)
        for _ in range(self.hops):
            hidden = propagate(inputs.matrix, hidden)
        return hidden
