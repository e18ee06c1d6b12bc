"""Generalised PageRank with learnt weights, Chien, Peng, Li and Milenkovic (ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.backbones.base import Convolve, Features, Noise, Parameters, dropout, propagate
from garnet.backbones.gcn import GCN, GCNInputs
from garnet.backbones.mlp import MLP
from garnet.graph.graph import Graph
from garnet.parameters import Checked, Hops, Share, ShareBelowOne, Width


@dataclass(frozen=True, kw_only=True)
class GPRGNN(Checked):
    r"""A perceptron, then a polynomial filter of the graph: :math:`\sum_k c_k \hat A^k \mathrm{MLP}(X)`.

    The coefficients, which may become negative, are learnt; they begin as those of personalised PageRank,
    :math:`c_k = \alpha (1 - \alpha)^k` and :math:`c_K = (1 - \alpha)^K`.

    Attributes:
        hops: degree K of the filter.
        alpha: PageRank's return probability, for the initial coefficients.
        hidden: width of the perceptron.
        dropout: share of units dropped in each training step, in the perceptron and before the filter.
    """

    hops: Hops = 10
    alpha: Share = 0.5
    hidden: Width = 64
    dropout: ShareBelowOne = 0.5

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The perceptron's parameters, and PageRank's coefficients."""
        steps = torch.arange(self.hops + 1, device=generator.device)
        coefficients = self.alpha * (1 - self.alpha) ** steps
        coefficients[-1] = (1 - self.alpha) ** self.hops
        return {**self._perceptron.initial(features, classes, generator), "coefficients": coefficients}

    def prepare(self, graph: Graph, device: str) -> GCNInputs:
        """Features and the convolution."""
        return GCN().prepare(graph, device)

    def logits(self, parameters: Parameters, inputs: GCNInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        return self.forward(parameters, inputs.features, lambda hidden, *_: propagate(inputs.matrix, hidden), noise)

    def forward(self, parameters: Parameters, features: Features, convolve: Convolve, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits of the same filter with another convolution, whose layers are the hops."""
        before = self._perceptron.logits(parameters, features, noise)
        hidden = dropout(before, self.dropout, noise)
        # One column per class: the gradient is then a sum over nodes for each, and threads share the classes.
        coefficients = parameters["coefficients"][:, :, None, None].expand(-1, -1, 1, hidden.shape[2])
        filtered = coefficients[:, 0] * hidden
        for hop in range(1, self.hops + 1):
            hidden = convolve(hidden, hop - 1, before)
            filtered, before = filtered + coefficients[:, hop] * hidden, hidden
        return filtered

    @property
    def _perceptron(self) -> MLP:
        return MLP(hidden=self.hidden, dropout=self.dropout)
