"""The graph convolutional network of Kipf and Welling (ICLR 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from garnet.backbones.base import (
    Convolve,
    Features,
    Noise,
    Parameters,
    dropout,
    glorot,
    linear,
    propagate,
    standardized,
)
from garnet.backbones.matrices import dense_matrix, gcn_matrix
from garnet.graph.graph import Graph
from garnet.linalg.linear_map import LinearMap
from garnet.linalg.sparse import normalized_matrix
from garnet.parameters import Checked, Depth, ShareBelowOne, Width


@dataclass(frozen=True, eq=False)
class GCNInputs:
    """Features X and the convolution, D^(-1/2) (A + I) D^(-1/2)."""

    features: Features
    matrix: LinearMap

    def with_edges(self, edges: Tensor, weights: Tensor) -> GCNInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights."""
        return replace(self, matrix=normalized_matrix(edges, weights, self.features.matrix.shape[0]))

    def with_matrix(self, adjacency: Tensor) -> GCNInputs:
        """The same nodes, joined by a dense adjacency, which is modified."""
        return replace(self, matrix=dense_matrix(adjacency, loops=1.0))


@dataclass(frozen=True, kw_only=True)
class GCN(Checked):
    r"""Layers of :math:`H' = \mathrm{relu}(\hat A H W + b)`.

    Attributes:
        layers: number of layers, each one hop.
        hidden: width between the layers.
        dropout: share of the hidden units dropped in each training step.
        batch_norm: normalise each hidden unit over the nodes. Evaluation also uses the nodes' own mean and variance, as
            it sees all nodes at once.
        residual: add a hidden layer's input to its output.
    """

    layers: Depth = 2
    hidden: Width = 64
    dropout: ShareBelowOne = 0.5
    batch_norm: bool = False
    residual: bool = False

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Glorot weights and zero biases."""
        widths = [features, *[self.hidden] * (self.layers - 1), classes]
        parameters: Parameters = {}
        for layer in range(self.layers):
            parameters[f"weight{layer}"] = glorot(widths[layer], widths[layer + 1], generator)
            parameters[f"bias{layer}"] = torch.zeros(1, widths[layer + 1], device=generator.device)
            if self.batch_norm and layer < self.layers - 1:
                parameters[f"scale{layer}"] = torch.ones(1, widths[layer + 1], device=generator.device)
        return parameters

    def prepare(self, graph: Graph, device: str) -> GCNInputs:
        """Features and the convolution."""
        return GCNInputs(Features.of(graph, device), gcn_matrix(graph, device))

    def logits(self, parameters: Parameters, inputs: GCNInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""

        def convolve(mapped: Tensor, layer: int, _: Tensor | None) -> Tensor:
            hidden = propagate(inputs.matrix, mapped)
            if not self.batch_norm or layer == self.layers - 1:
                return hidden
            # Batch norm cancels a bias; it is kept so that trained models round as they always did.
            return hidden + parameters[f"bias{layer}"] - parameters[f"bias{layer}"]

        return self.forward(parameters, inputs.features, convolve, noise)

    def forward(self, parameters: Parameters, features: Features, convolve: Convolve, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits of the same layers with another convolution."""
        mapped = features.linear(parameters["weight0"], 0.0, noise)
        before: Tensor | None = None
        for layer in range(self.layers - 1):
            hidden = convolve(mapped, layer, before)
            if self.batch_norm:
                hidden = parameters[f"scale{layer}"] * standardized(hidden)
            hidden = (hidden + parameters[f"bias{layer}"]).relu()
            if self.residual and before is not None:
                hidden = hidden + before
            before = hidden
            mapped = linear(dropout(hidden, self.dropout, noise), parameters[f"weight{layer + 1}"])
        return convolve(mapped, self.layers - 1, before) + parameters[f"bias{self.layers - 1}"]
