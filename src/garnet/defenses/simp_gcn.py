"""Convolutions that preserve the similarity of nodes, Jin, Derr, Wang, Ma, Liu and Tang (WSDM 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from garnet.backbones.base import Features, Noise, Parameters, dropout, fan_in, glorot, linear, propagate
from garnet.backbones.matrices import gcn_matrix, symmetric_matrix
from garnet.defenses.base import Model
from garnet.defenses.feature_knn import unit_features
from garnet.graph.edges import canonical
from garnet.graph.graph import Edges, Graph
from garnet.linalg.edge_products import inner_products
from garnet.linalg.linear_map import LinearMap
from garnet.linalg.sparse import normalized_matrix
from garnet.neighbors.search import choose_neighbors
from garnet.parameters import Count, NonNegative, ShareBelowOne, ShareWithin, Width
from garnet.training.loop import Training

# The least similar nodes are sought among this many times as many, drawn at random.
_DRAWN = 10
# Most pairs to compare in one step, as in the authors' code.
_COMPARED = 10_000


@dataclass(frozen=True, eq=False)
class SimPGCNInputs:
    """Inputs of the model.

    Attributes:
        features: X.
        matrix: the graph's convolution, D^(-1/2) (A + I) D^(-1/2).
        nearest: the convolution of the graph of nearest features, D^(-1/2) A D^(-1/2).
        pairs: (2, p) pairs of nodes, the most and the least similar.
        similarities: (p,) cosines of their features.
    """

    features: Features
    matrix: LinearMap
    nearest: LinearMap
    pairs: Tensor
    similarities: Tensor

    def with_edges(self, edges: Tensor, weights: Tensor) -> SimPGCNInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights.

        The graph of nearest features does not change.
        """
        return replace(self, matrix=normalized_matrix(edges, weights, self.features.matrix.shape[0]))


@dataclass(frozen=True, kw_only=True)
class SimPGCN(Model):
    r"""Two layers that mix the graph with a graph of nearest features, each node in its own proportion.

    "Node Similarity Preserving Graph Convolutional Networks". :math:`\hat A` is the graph's convolution and
    :math:`\hat A_f` that of the graph that joins each node to the k of the most similar features, weighted by the
    cosine :math:`S_{ij}`. Each layer learns from its input H how far a node trusts either graph, and how much of
    itself it adds:

    .. math::
        s = \mathrm{sigmoid}(H w_s + b_s), \quad c = H w_n + b_n, \quad
        P = s \odot \hat A + (1 - s) \odot \hat A_f + \gamma\, \mathrm{diag}(c),

    and :math:`H' = P H W + (1 + \gamma c) \odot b`, with a relu between the layers.

    A linear map f of the hidden layer after dropout should predict how similar two nodes' features are. The loss is the
    cross-entropy plus `similarity_weight` times the mean of :math:`(f(|h_i - h_j|) - S_{ij})^2` over pairs (i, j) of
    the most and the least similar nodes.

    Where it differs from the authors' code:

    * No n x n similarities. The most similar nodes come from the neighbour search; the least similar are chosen once
      among ten times as many random nodes, not among all. With bags of words, both kinds mostly share no word. Each
      step samples 10,000 of all these pairs, with replacement.
    * The graph of nearest features is undirected, and nodes without features are not in it. Theirs keeps the k largest
      entries of each row.
    * Similarities compare the features, theirs only where these are nonzero; for bags of words that is the same.
    * One relu after the mix, as in the paper; theirs has one in each of its three terms, DeepRobust has none.
    * The weights of s and c start within one over the root of the number of inputs. Theirs start between -1 and 1,
      which leaves it to chance which of the two graphs a node trusts. Theirs start with half of each graph, or mostly
      the given one if no attack is expected; here `trust` is a quarter with or without an attack.

    Attributes:
        hidden: width between the layers.
        dropout: share of the hidden units dropped in each training step.
        k: neighbours of each node in the graph of features.
        gamma: weight of a node's own contribution.
        trust: share of the given graph in the mix before training, above 0 and below 1.
        similarity_weight: weight of the prediction of similarities; 0 leaves it out.
        similar: number of most similar nodes, and of least similar ones, to compare with each node.
    """

    whole_graph: ClassVar[bool] = True

    hidden: Width = 64
    dropout: ShareBelowOne = 0.5
    k: Count = 20
    gamma: NonNegative = 0.01
    trust: ShareWithin = 0.25
    similarity_weight: NonNegative = 0.1
    similar: Count = 5
    training: Training = field(default_factory=lambda: Training(epochs=200, lr=0.01, weight_decay=5e-4, patience=60))

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Glorot weights for the layers; small ones for mixing the graphs, so that `trust` holds everywhere."""
        trusted = math.log(self.trust / (1 - self.trust))
        parameters: Parameters = {}
        for layer, (rows, columns) in enumerate([(features, self.hidden), (self.hidden, classes)]):
            parameters[f"weight{layer}"] = glorot(rows, columns, generator)
            parameters[f"bias{layer}"] = torch.zeros(1, columns, device=generator.device)
            for name, bias in (("balance", trusted), ("loop", 0.0)):
                parameters[f"{name}{layer}"] = fan_in(rows, 1, generator)[0]
                parameters[f"{name}_bias{layer}"] = torch.full((1, 1), bias, device=generator.device)
        parameters["similarity"], parameters["similarity_bias"] = fan_in(self.hidden, 1, generator)
        return parameters

    def prepare(self, graph: Graph, device: str) -> SimPGCNInputs:
        """Features, the two convolutions, and pairs to compare."""
        points = unit_features(graph, "SimPGCN compares them", device=device)
        # By distance, a point at the origin is near all others; its cosine is undefined.
        known = (points.abs().amax(dim=1) > 0).nonzero()[:, 0]
        most = max(min(max(self.k, self.similar), len(known) - 1), 0)
        found = choose_neighbors(len(known), device)(points[known], most, seed=0) if most else known[:, None][:, :0]
        found = known[found]
        edges = _joined(known, found[:, : self.k])
        weights = inner_products(points, points, edges).cpu().numpy()
        alike = weights > 0
        nearest = graph.with_edges(edges[:, alike], np.minimum(weights[alike], 1)).adjacency
        pairs = _joined(known, torch.cat([found[:, : self.similar], self._unlike(points, known)], dim=1))
        return SimPGCNInputs(
            Features.of(graph, device),
            gcn_matrix(graph, device),
            symmetric_matrix(nearest.astype(np.float64), device),
            torch.from_numpy(pairs).to(device),
            inner_products(points, points, pairs),
        )

    def logits(self, parameters: Parameters, inputs: SimPGCNInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        return self._last(parameters, inputs, self._first(parameters, inputs, noise))

    def logits_and_penalties(
        self, parameters: Parameters, inputs: SimPGCNInputs, noise: Noise
    ) -> tuple[Tensor, Tensor]:
        """Logits, and the error of the hidden layer on the similarity of pairs."""
        hidden = self._first(parameters, inputs, noise)
        logits = self._last(parameters, inputs, hidden)
        if not self.similarity_weight or not inputs.pairs.shape[1]:
            return logits, logits.new_zeros(len(logits))
        chosen = _chosen(inputs.pairs.shape[1], noise).to(hidden.device)
        ends = (_rows(hidden, inputs.pairs[end][chosen]) for end in (0, 1))
        apart = torch.sub(*ends).abs()
        predicted = linear(apart, parameters["similarity"]) + parameters["similarity_bias"]
        errors = predicted[..., 0] - inputs.similarities[chosen]
        return logits, self.similarity_weight * errors.square().mean(dim=1)

    def _unlike(self, points: Tensor, nodes: Tensor) -> Tensor:
        """(m, similar) the nodes least similar to each of the nodes, among random ones."""
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(max(len(nodes), 1), (len(nodes), _DRAWN * self.similar), generator=generator)
        drawn = nodes[drawn.to(nodes.device)]
        asked = torch.stack([nodes[:, None].expand_as(drawn).flatten(), drawn.flatten()]).cpu().numpy()
        cosines = inner_products(points, points, asked).view(drawn.shape)
        return drawn.gather(1, cosines.topk(self.similar, dim=1, largest=False).indices)

    def _first(self, parameters: Parameters, inputs: SimPGCNInputs, noise: Noise | None) -> Tensor:
        """(S, n, hidden)."""
        mapped = inputs.features.linear(_weights(parameters, 0), 0.0, noise)
        return dropout(self._mixed(parameters, inputs, mapped, 0).relu(), self.dropout, noise)

    def _last(self, parameters: Parameters, inputs: SimPGCNInputs, hidden: Tensor) -> Tensor:
        return self._mixed(parameters, inputs, linear(hidden, _weights(parameters, 1)), 1)

    def _mixed(self, parameters: Parameters, inputs: SimPGCNInputs, mapped: Tensor, layer: int) -> Tensor:
        """A layer before its relu, where `mapped` holds H W, and H w_s and H w_n as its last two columns."""
        balance = (mapped[..., -2:-1] + parameters[f"balance_bias{layer}"]).sigmoid()
        loop = mapped[..., -1:] + parameters[f"loop_bias{layer}"]
        bias, mapped = parameters[f"bias{layer}"], mapped[..., :-2]
        given, nearest = propagate(inputs.matrix, mapped), propagate(inputs.nearest, mapped)
        return balance * given + (1 - balance) * nearest + bias + self.gamma * loop * (mapped + bias)


def _weights(parameters: Parameters, layer: int) -> Tensor:
    return torch.cat([parameters[f"{name}{layer}"] for name in ("weight", "balance", "loop")], dim=2)


def _joined(nodes: Tensor, others: Tensor) -> Edges:
    """Each pair of a node (m,) and one of its others (m, c), once; never a node with itself."""
    nodes = nodes[:, None].expand_as(others)
    apart = nodes != others
    nodes, others = nodes[apart].cpu(), others[apart].cpu()
    return canonical(nodes.numpy(), others.numpy(), int(max(nodes.max(), others.max())) + 1 if len(nodes) else 1)


def _chosen(pairs: int, noise: Noise) -> Tensor:
    """(S, c) the pairs that each model compares in this step."""
    if pairs <= _COMPARED:
        return torch.arange(pairs).expand(len(noise.generators), -1)
    draws = [torch.randint(pairs, (_COMPARED,), generator=one, device=one.device) for one in noise.generators]
    return torch.stack(draws)


def _rows(blocks: Tensor, rows: Tensor) -> Tensor:
    """(S, c, f) rows, (S, c), of each of the blocks (S, n, f)."""
    seeds, n, width = blocks.shape
    firsts = n * torch.arange(seeds, device=rows.device)[:, None]
    return blocks.reshape(-1, width).index_select(0, (rows + firsts).flatten()).view(seeds, -1, width)
