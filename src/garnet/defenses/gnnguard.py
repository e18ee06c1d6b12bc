"""GNNGuard of Zhang and Zitnik (NeurIPS 2020): messages count by how alike their ends are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.backbones import GCN, GPRGNN
from garnet.backbones.base import Features, Noise, Parameters, require_features
from garnet.defenses.base import Model
from garnet.defenses.jaccard import row_products, unit_rows
from garnet.graph.edges import presence
from garnet.graph.graph import Graph
from garnet.graph.graphlets import graphlet_degrees
from garnet.linalg.edge_weighted import Pattern
from garnet.linalg.sparse import pair_products
from garnet.parameters import Share
from garnet.purify.features import scale

Similarity = Literal["features", "graphlets"]


@dataclass(frozen=True, eq=False)
class Attention:
    """What each node hears: from its neighbours (S, m), by place of the pattern, and from itself (S, n)."""

    edges: Tensor
    loops: Tensor

    def mixed(self, newer: Attention, memory: Tensor | float) -> Attention:
        """So much of this one, (S, 1), and the rest of a newer one."""
        edges = memory * self.edges + (1 - memory) * newer.edges
        return Attention(edges, memory * self.loops + (1 - memory) * newer.loops)


@dataclass(frozen=True, eq=False)
class GuardInputs:
    """What of a graph the model needs.

    Attributes:
        features: X.
        graph: the graph it is made of.
        compared: rows of unit length whose inner products are the similarities to begin with, features or roles.
        pattern: places of the m directed edges.
        weights: (m,) weights of the edges.
        counted: (m,) how far each is a neighbour that counts; one for those of the graph.
        numbers: (m,) which of the e undirected edges stands at each place.
        ends: (2, e) their two ends.
        alike: (1, e) how alike these are to begin with.
        attacked: whether gradients flow to the weights, and through similarities.
    """

    features: Features
    graph: Graph
    compared: sp.csr_array | NDArray[np.float32]
    pattern: Pattern
    weights: Tensor
    counted: Tensor
    ends: Tensor
    numbers: Tensor
    alike: Tensor
    attacked: bool = False

    def with_edges(self, edges: Tensor, weights: Tensor) -> GuardInputs:
        r"""The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights.

        Where they do, they flow through the similarities of hidden layers too, which training does not learn from. Two
        things are discrete in the model. Edges are thresholded by similarity, as they are at these weights. And an edge
        is a neighbour that counts in :math:`\hat N`, or is none; here it counts by its weight over the one it has in
        the graph, or over one if it is no edge there, and at most once. Where edges come and go whole, that is the
        model.
        """
        pattern, numbers = Pattern.joining(edges, self.graph.num_nodes)
        alike = torch.from_numpy(row_products(self.compared, edges.cpu().numpy())).to(weights)[None]
        counted = presence(self.graph, edges, weights)
        return replace(
            self, pattern=pattern, weights=weights.index_select(0, numbers), counted=counted.index_select(0, numbers),
            ends=edges, numbers=numbers, alike=alike, attacked=weights.requires_grad,
        )  # fmt: skip

    def attention(self, alike: Tensor, threshold: float) -> Attention:
        """Similarities (S, e) below the threshold go, and what each node hears sums to one."""
        rows = self.pattern.rows
        alike = torch.where(alike >= threshold, alike, 0.0).index_select(1, self.numbers)
        neighbours = self.pattern.row_sums((alike > 0).to(alike) * self.counted)
        strength = alike * self.weights
        sums = self.pattern.row_sums(strength)
        share = neighbours / (neighbours + 1) / torch.where(sums > 0, sums, 1.0)
        return Attention(strength * share.index_select(1, rows), 1 / (neighbours + 1))

    def attention_to(self, hidden: Tensor, threshold: float) -> Attention:
        """What each node hears of neighbours alike in a hidden layer (S, n, f)."""
        with torch.set_grad_enabled(self.attacked and torch.is_grad_enabled()):
            # Contiguous, because rows are gathered from it: of one that lies column by column it takes minutes.
            unit = scale(hidden.contiguous().flatten(0, 1), "unit").view(hidden.shape)
            alike = pair_products(self.ends[0], self.ends[1], unit, unit)
        return self.attention(alike, threshold)

    def hear(self, attention: Attention, hidden: Tensor) -> Tensor:
        """(S, n, f) what each node hears of (S, n, f)."""
        edges, hidden = attention.edges.expand(len(hidden), -1), hidden.contiguous()
        return self.pattern.product(edges, hidden) + attention.loops[..., None] * hidden


@dataclass(frozen=True, kw_only=True)
class GNNGuard(Model):
    r"""A backbone whose every layer weighs each edge by how alike its ends are by then.

    With :math:`s_{uv}` the cosine of the layer's inputs at u and v, 0 where it is below the threshold, and
    :math:`\hat N_u` neighbours left, what u hears is (the paper's neighbour importance)

    .. math:: \alpha_{uv} = \frac{s_{uv}}{\sum_v s_{uv}} \frac{\hat N_u}{\hat N_u + 1}, \qquad
        \alpha_{uu} = \frac{1}{\hat N_u + 1},

    and layers remember (its layer-wise graph memory): :math:`\omega^k = \beta \omega^{k-1} + (1 - \beta) \alpha^k`,
    with :math:`\omega^1 = \alpha^1`. These take the place of the normalised adjacency. Weights of the graph multiply
    :math:`s_{uv}`; the paper has none.

    * With GCN, the first layer's inputs are the features, and a later layer's what came out of the one before.
    * GPRGNN has one linear map and many hops: each hop is a layer, whose inputs are what it propagates, the first
      time what the perceptron says of the classes. The memory goes on from hop to hop.
    * With `graphlets`, for graphs whose edges join unlike nodes, similarity is one of structural roles, for all layers:
      the cosine of the nodes' graphlet degree vectors, of which logarithms are taken and columns
      standardised. Counts as they are have cosines near one whatever the nodes.

    No gradient flows through the similarities, as in the authors' code: the attention judges what the layers say, and
    they cannot learn to please it. It does flow to :math:`\beta`, and to what is propagated.

    The authors' code differs from their paper, and we follow the paper: the code takes exponentials of
    :math:`\alpha`, which makes all edges that are left nearly alike, normalises once more as GCN does, and has no
    memory in its GCN. The paper also prunes by a learnt function of
    :math:`(\alpha_{uv}, \alpha_{vu})`; a step has no gradient, and in the code, where it is off, the function keeps its
    first random values. The threshold here is the code's, on :math:`s_{uv}`.

    Attributes:
        backbone: GCN or GPRGNN.
        threshold: similarity below which an edge is not heard, P0.
        similarity: `features`, of what goes into each layer, or `graphlets`.
        memory: beta, between 0 and 1; None learns it, from one half.
    """

    backbone: GCN | GPRGNN = field(default_factory=GCN)
    threshold: Share = 0.1
    similarity: Similarity = "features"
    memory: Share | None = None

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Those of the backbone, and the memory's logit."""
        parameters = self.backbone.initial(features, classes, generator)
        if self.memory is None and self.similarity == "features":
            parameters["memory"] = torch.zeros(1, device=generator.device)
        return parameters

    def prepare(self, graph: Graph, device: str) -> GuardInputs:
        """The edges, and how alike their ends are."""
        if self.similarity == "features":
            require_features(graph, "GNNGuard compares them")
        compared = unit_rows(graph if self.similarity == "features" else _with_roles(graph))
        pattern = Pattern(graph.adjacency, device)
        weights = torch.from_numpy(graph.adjacency.data).to(device)
        alike = row_products(compared, graph.edges).astype(np.float32)
        return GuardInputs(
            Features.of(graph, device),
            graph,
            compared,
            pattern,
            weights,
            torch.ones_like(weights),
            *pattern.undirected(),
            torch.from_numpy(alike)[None].to(device),
        )

    def logits(self, parameters: Parameters, inputs: GuardInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        attention: Attention | None = None

        def hear(mapped: Tensor, layer: int, before: Tensor | None) -> Tensor:
            nonlocal attention
            attention = self._next(attention, parameters, inputs, before)
            return inputs.hear(attention, mapped)

        return self.backbone.forward(parameters, inputs.features, hear, noise)

    def _next(
        self, before: Attention | None, parameters: Parameters, inputs: GuardInputs, hidden: Tensor | None
    ) -> Attention:
        """The attention of a layer with this input, None for the features, and what it remembers of the one before."""
        if self.similarity == "graphlets" or hidden is None:
            return before or inputs.attention(inputs.alike, self.threshold)
        attention = inputs.attention_to(hidden, self.threshold)
        if before is None:
            return attention
        memory = parameters["memory"].sigmoid() if self.memory is None else self.memory
        return before.mixed(attention, memory)


def _with_roles(graph: Graph) -> Graph:
    """The graph with its nodes' structural roles as features."""
    roles = scale(torch.from_numpy(np.log1p(graphlet_degrees(graph))), "standardize")
    return replace(graph, features=roles.numpy().astype(np.float32))
