"""LINKX, Lim et al., "Large Scale Learning on Non-Homophilous Graphs" (NeurIPS 2021): adjacency as features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from garnet.backbones.base import Features, Noise, Parameters, dropout, fan_in, linear, propagate
from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.linalg.linear_map import LinearMap
from garnet.linalg.sparse import SparseMatrix, WeightedMatrix
from garnet.parameters import Checked, Depth, ShareBelowOne, Width


@dataclass(frozen=True, eq=False)
class LINKXInputs:
    """Features X and the adjacency A, with its weights and without loops."""

    features: Features
    adjacency: LinearMap

    def with_edges(self, edges: Tensor, weights: Tensor) -> LINKXInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights."""
        return replace(self, adjacency=WeightedMatrix.adjacency(edges, weights, self.adjacency.shape[0]))


@dataclass(frozen=True, kw_only=True)
class LINKX(Checked):
    r"""Perceptrons of the features and of the rows of the adjacency, joined by a third.

    .. math:: h_A = A W_A + b_A, \qquad h_X = X W_X + b_X, \qquad
              Y = \mathrm{MLP}_f\big(\mathrm{relu}(W [h_A \| h_X] + b + h_A + h_X)\big).

    Neighbours are not averaged. A node is described by the identity of its neighbours, so it matters little whether
    they are similar: :math:`W_A`, of shape (n, hidden), has a row for each node, and the rows of a node's neighbours
    are summed. The product is sparse; A is never dense.

    Because of these rows the model is transductive. It predicts on graphs of the nodes it was trained on, in the same
    order (`Predictor.on` refuses a graph with another number of them), and it is trained on the whole graph: a sampled
    part, with `Training.batch_size`, would leave out most of each row of A.

    The perceptrons of A and of X have one layer each, and there is no batch norm. The defaults were chosen
    on the validation nodes of Chameleon and Squirrel, the first split of Geom-GCN, over two or three seeds.

    Attributes:
        layers: number of layers of :math:`\mathrm{MLP}_f`, with a relu between them.
        hidden: width of all embeddings.
        dropout: share of the inputs of each layer of :math:`\mathrm{MLP}_f` dropped in each training step.
        feature_dropout: share of the features dropped in each training step. The paper does not have it; on Chameleon
            it matters most.
    """

    whole_graph: ClassVar[bool] = True

    layers: Depth = 1
    hidden: Width = 64
    dropout: ShareBelowOne = 0.0
    feature_dropout: ShareBelowOne = 0.5

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Weights and biases as torch's `Linear` draws them, except those of A."""
        sizes = {"features": (features, self.hidden), "joint": (2 * self.hidden, self.hidden)}
        widths = [*[self.hidden] * self.layers, classes]
        sizes |= {f"final{layer}": (widths[layer], widths[layer + 1]) for layer in range(self.layers)}
        parameters: Parameters = {}
        for name, (rows, columns) in sizes.items():
            parameters[f"{name}_weight"], parameters[f"{name}_bias"] = fan_in(rows, columns, generator)
        return parameters

    def node_weights(self, nodes: int, generator: torch.Generator) -> Parameters:
        """The weights and bias of A, drawn likewise."""
        weight, bias = fan_in(nodes, self.hidden, generator)
        return {"nodes_weight": weight, "nodes_bias": bias}

    def prepare(self, graph: Graph, device: str) -> LINKXInputs:
        """Features and the adjacency."""
        return LINKXInputs(Features.of(graph, device), SparseMatrix(graph.adjacency, device, symmetric=True))

    def logits(self, parameters: Parameters, inputs: LINKXInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes).

        Raises:
            GraphError: the graph has more or fewer nodes than the one that the model was trained on.
        """
        nodes, trained = inputs.adjacency.shape[0], parameters["nodes_weight"].shape[1]
        if nodes != trained:
            raise GraphError(
                f"LINKX has weights for each node of the graph it was trained on, {trained} in all, and this graph has "
                f"{nodes}; train it on this graph, or choose a model that carries over, such as GPRGNN."
            )
        by_nodes = propagate(inputs.adjacency, parameters["nodes_weight"]) + parameters["nodes_bias"]
        by_features = inputs.features.linear(parameters["features_weight"], self.feature_dropout, noise)
        by_features = by_features + parameters["features_bias"]
        joint = _mapped(torch.cat([by_nodes, by_features], dim=2), parameters, "joint")
        hidden = joint + by_nodes + by_features
        for layer in range(self.layers):
            hidden = _mapped(dropout(hidden.relu(), self.dropout, noise), parameters, f"final{layer}")
        return hidden


def _mapped(hidden: Tensor, parameters: Parameters, name: str) -> Tensor:
    return linear(hidden, parameters[f"{name}_weight"]) + parameters[f"{name}_bias"]
