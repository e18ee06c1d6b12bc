"""GNNGuard of Zhang and Zitnik (NeurIPS 2020): messages are weighted by the similarity of their ends."""

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
    """Attention of each node: to its neighbours (S, m), by entry of the pattern, and to itself (S, n)."""

    edges: Tensor
    loops: Tensor

    def mixed(self, newer: Attention, memory: Tensor | float) -> Attention:
        """A mixture of this one, with weight (S, 1), and a newer one."""
        edges = memory * self.edges + (1 - memory) * newer.edges
        return Attention(edges, memory * self.loops + (1 - memory) * newer.loops)


@dataclass(frozen=True, eq=False)
class GuardInputs:
    """What the model needs of a graph.

    Attributes:
        features: X.
        graph: the graph it is made from.
        compared: rows of unit length whose inner products are the initial similarities, features or roles.
        pattern: sparsity pattern of the m directed edges.
        weights: (m,) weights of the edges.
        counted: (m,) how far each counts as a neighbour; one for those of the graph.
        numbers: (m,) which of the e undirected edges each entry belongs to.
        ends: (2, e) their two ends.
        alike: (1, e) their initial similarity.
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

        If they do, they also flow through the similarities of hidden layers, from which training does not learn. Two
        things are discrete in the model. Edges are thresholded by similarity, as it is at these weights. And an edge
        counts as a neighbour in :math:`\hat N`, or does not; here it counts by its weight over the one it has in the
        graph, or over one if it is not an edge there, and at most once. For whole edges, that is the model.
        """
        pattern, numbers = Pattern.joining(edges, self.graph.num_nodes)
        alike = torch.from_numpy(row_products(self.compared, edges.cpu().numpy())).to(weights)[None]
        counted = presence(self.graph, edges, weights)
        return replace(
            self, pattern=pattern, weights=weights.index_select(0, numbers), counted=counted.index_select(0, numbers),
            ends=edges, numbers=numbers, alike=alike, attacked=weights.requires_grad,
        )  # fmt: skip

    def attention(self, alike: Tensor, threshold: float) -> Attention:
        """Similarities (S, e) below the threshold are dropped, and the attention of each node sums to one."""
        rows = self.pattern.rows
        alike = torch.where(alike >= threshold, alike, 0.0).index_select(1, self.numbers)
        neighbours = self.pattern.row_sums((alike > 0).to(alike) * self.counted)
        strength = alike * self.weights
        sums = self.pattern.row_sums(strength)
        share = neighbours / (neighbours + 1) / torch.where(sums > 0, sums, 1.0)
        return Attention(strength * share.index_select(1, rows), 1 / (neighbours + 1))

    def attention_to(self, hidden: Tensor, threshold: float) -> Attention:
        """Attention to neighbours by similarity in a hidden layer (S, n, f)."""
        with torch.set_grad_enabled(self.attacked and torch.is_grad_enabled()):
            # Contiguous, because rows are gathered from it: in column order that takes minutes.
            unit = scale(hidden.contiguous().flatten(0, 1), "unit").view(hidden.shape)
            alike = pair_products(self.ends[0], self.ends[1], unit, unit)
        return self.attention(alike, threshold)

    def hear(self, attention: Attention, hidden: Tensor) -> Tensor:
        """(S, n, f) the weighted sum of (S, n, f) at each node."""
        edges, hidden = attention.edges.expand(len(hidden), -1), hidden.contiguous()
        return self.pattern.product(edges, hidden) + attention.loops[..., None] * hidden


@dataclass(frozen=True, kw_only=True)
class GNNGuard(Model):
    r"""A backbone in which every layer weights each edge by the current similarity of its ends.

    With :math:`s_{uv}` the cosine of the layer's inputs at u and v, 0 where it is below the threshold, and
    :math:`\hat N_u` neighbours left, the attention of u (the paper's neighbour importance) is

    .. math:: \alpha_{uv} = \frac{s_{uv}}{\sum_v s_{uv}} \frac{\hat N_u}{\hat N_u + 1}, \qquad
        \alpha_{uu} = \frac{1}{\hat N_u + 1},

    and layers have a memory (the paper's layer-wise graph memory): :math:`\omega^k = \beta \omega^{k-1} + (1 - \beta)
    \alpha^k`, with :math:`\omega^1 = \alpha^1`. These replace the normalised adjacency. Weights of the graph multiply
    :math:`s_{uv}`; the paper has none.

    * With GCN, the first layer's inputs are the features, and a later layer's are the previous layer's outputs.
    * GPRGNN has one linear map and many hops: each hop is a layer, whose inputs are what it propagates, at first the
      perceptron's logits. The memory continues from hop to hop.
    * With `graphlets`, for graphs whose edges join unlike nodes, all layers use the similarity of structural roles: the
      cosine of the nodes' graphlet degree vectors, after taking logarithms and standardising columns. Raw counts have
      cosines near one whatever the nodes.

    No gradient flows through the similarities, as in the authors' code: the attention judges the layers' outputs, and
    the layers cannot learn to please it. It does flow to :math:`\beta`, and to what is propagated.

    The authors' code differs from their paper, and we follow the paper: the code takes exponentials of
    :math:`\alpha`, which makes all remaining edges nearly equal, normalises once more as GCN does, and has no memory in
    its GCN. The paper also prunes by a learnt function of :math:`(\alpha_{uv}, \alpha_{vu})`; a step function has no
    gradient, and in the code, where it is off, the function keeps its initial random values. The threshold here is the
    code's, on :math:`s_{uv}`.

    Attributes:
        backbone: GCN or GPRGNN.
        threshold: P0, the similarity below which an edge is ignored.
        similarity: `features`, the cosine of each layer's inputs, or `graphlets`.
        memory: beta, between 0 and 1; None learns it, starting from one half.
    """

    backbone: GCN | GPRGNN = field(default_factory=GCN)
    threshold: Share = 0.1
    similarity: Similarity = "features"
    memory: Share | None = None

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The backbone's parameters, and the memory's logit."""
        parameters = self.backbone.initial(features, classes, generator)
        if self.memory is None and self.similarity == "features":
            parameters["memory"] = torch.zeros(1, device=generator.device)
        return parameters

    def prepare(self, graph: Graph, device: str) -> GuardInputs:
        """The edges, and how similar their ends are."""
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
        """The attention of a layer with this input, None for the features, and its memory of the previous one."""
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
