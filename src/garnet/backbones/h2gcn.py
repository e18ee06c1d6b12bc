"""H2GCN, Zhu et al. (NeurIPS 2020): a model for graphs in which neighbours differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.backbones.base import Features, Noise, Parameters, dropout, glorot, linear, propagate, standardized
from garnet.backbones.matrices import dense_matrix, symmetric_matrix
from garnet.errors import ParameterError
from garnet.graph.edges import presence
from garnet.graph.graph import Graph
from garnet.linalg.linear_map import LinearMap, ScaledMap
from garnet.linalg.sparse import WeightedMatrix, edge_degrees
from garnet.parameters import Checked, ShareBelowOne, Width, whole

# The share of its weight from which an edge connects its ends' other neighbours at two hops.
_THERE = 0.5


@dataclass(frozen=True, eq=False)
class H2GCNInputs:
    """Features, and the normalised matrices of neighbours at one and at exactly two hops, without loops.

    Attributes:
        features: X.
        near: one hop.
        far: two hops.
        graph: the graph of these matrices.
    """

    features: Features
    near: LinearMap
    far: LinearMap
    graph: Graph

    def with_edges(self, edges: Tensor, weights: Tensor) -> H2GCNInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights.

        They flow through the neighbours at one hop, exactly. Whether two nodes are two hops apart is a yes or no
        without a gradient: it counts edges with at least half of their weight in the graph, or of one if they are not
        among its edges.
        """
        n = self.graph.num_nodes
        degrees = edge_degrees(edges, weights, n)
        root = torch.where(degrees > 0, degrees, 1.0).rsqrt()
        there = presence(self.graph, edges, weights.detach()) >= _THERE
        joined = self.graph.with_edges(edges[:, there].cpu().numpy())
        return replace(
            self,
            near=ScaledMap(WeightedMatrix.adjacency(edges, weights, n), root),
            far=symmetric_matrix(two_hops(joined), str(weights.device), weights.dtype),
        )

    def with_matrix(self, adjacency: Tensor) -> H2GCNInputs:
        """The same nodes, joined by a dense adjacency, which is modified; there are then no pairs at two hops."""
        near = dense_matrix(adjacency, loops=0.0)
        return replace(self, near=near, far=torch.zeros_like(near))


@dataclass(frozen=True, kw_only=True)
class H2GCN(Checked):
    r"""Ego and neighbours kept apart, separate one-hop and two-hop neighbours, every round in the final embedding.

    :math:`R_0 = \mathrm{relu}(X W)` and :math:`R_{t+1} = [A_1 R_t \,\|\, A_2 R_t]`, with :math:`A_2` the pairs at
    distance two; logits come from :math:`[R_0 \| R_1 \| \dots]`.

    Attributes:
        rounds: number of rounds of aggregation.
        hidden: width of R_0.
        dropout: share of the features, and of the final embedding, dropped in each training step. Without the former,
            which the paper does not have, accuracy on Chameleon fell by seven points.
        batch_norm: normalise each unit of each round over the nodes, also in evaluation, with a learnt scale and shift.
            The paper does not have it; the implementation of Lim et al. (NeurIPS 2021) does. Where two hops reach a
            large part of the graph, averages over them are almost the same at every node, and what differs is too small
            to learn from.
    """

    rounds: Annotated[int, whole(1, 16)] = 2
    hidden: Width = 64
    dropout: ShareBelowOne = 0.5
    batch_norm: bool = False

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Glorot weights."""
        parameters = {
            "embed": glorot(features, self.hidden, generator),
            "weight": glorot(self._width(self.hidden), classes, generator),
            "bias": torch.zeros(1, classes, device=generator.device),
        }
        if self.batch_norm:
            for number in range(self.rounds):
                width = self.hidden * 2 ** (number + 1)
                parameters[f"scale{number}"] = torch.ones(1, width, device=generator.device)
                parameters[f"shift{number}"] = torch.zeros(1, width, device=generator.device)
        return parameters

    def prepare(self, graph: Graph, device: str) -> H2GCNInputs:
        """Features and the two neighbourhoods."""
        return H2GCNInputs(
            Features.of(graph, device),
            symmetric_matrix(graph.adjacency, device),
            symmetric_matrix(two_hops(graph), device),
            graph,
        )

    def logits(self, parameters: Parameters, inputs: H2GCNInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        width, rows = self._width(parameters["embed"].shape[2]), parameters["weight"].shape[1]
        # Every round doubles the memory, and a saved model may ask for any number of rounds.
        if rows != width:
            raise ParameterError(f"H2GCN of {self.rounds} rounds needs {width} rows of weights. Got {rows} instead.")
        latest = inputs.features.linear(parameters["embed"], self.dropout, noise).relu()
        rounds = [latest]
        for number in range(self.rounds):
            latest = torch.cat([propagate(inputs.near, latest), propagate(inputs.far, latest)], dim=2)
            if self.batch_norm:
                latest = parameters[f"scale{number}"] * standardized(latest) + parameters[f"shift{number}"]
            rounds.append(latest)
        hidden = dropout(torch.cat(rounds, dim=2), self.dropout, noise)
        return linear(hidden, parameters["weight"]) + parameters["bias"]

    def _width(self, hidden: int) -> int:
        """Width of the final embedding."""
        return hidden * int(2 ** (self.rounds + 1) - 1)


def two_hops(graph: Graph) -> sp.csr_array:
    """Ones at the pairs of nodes whose distance is exactly two."""
    pattern = graph.adjacency.astype(bool).astype(np.int32)
    reached = pattern @ pattern
    reached.data[:] = 1
    n = graph.num_nodes
    nearer = pattern + sp.eye_array(n, dtype=np.int32, format="csr")
    exact = sp.csr_array(reached - reached.multiply(nearer))
    exact.eliminate_zeros()
    return exact.astype(np.float32)
