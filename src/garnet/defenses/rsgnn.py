"""RS-GNN, Dai et al., "Towards Robust Graph Neural Networks for Noisy Graphs with Sparse Labels" (WSDM 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from garnet.backbones import GCN
from garnet.backbones.base import Features, Noise, Parameters
from garnet.backbones.mlp import MLP, perceptron
from garnet.defenses.base import Model
from garnet.defenses.feature_knn import unit_features
from garnet.graph.edges import canonical, numbers, presence
from garnet.graph.graph import Graph
from garnet.linalg.edge_weighted import Pattern
from garnet.linalg.sparse import pair_products
from garnet.neighbors.search import choose_neighbors, union
from garnet.parameters import Natural, NonNegative, ShareBelowOne, Width, number
from garnet.training.loop import Training


@dataclass(frozen=True, eq=False)
class RSGNNInputs:
    r"""Features, candidates, and how similar their ends are.

    Attributes:
        features: X with rows of unit length.
        pattern: where weights may be nonzero: the edges, and each node's most similar others.
        edges: (e,) indices of the graph's own edges in the pattern, one direction each.
        near: (e,) :math:`\exp(-d^2 / \sigma^2)` of those.
        far: (m,) by how much the factor of each entry exceeds `typical`: :math:`\exp(d^2 / \sigma^2)` minus `typical`
            where there is no edge, and minus `typical` where there is one, as it is not a negative.
        typical: :math:`\exp(d^2 / \sigma^2)` for the mean of all squared distances.
        graph: the graph it is made from.
        similar: (2, s) the pairs of most similar nodes.
        there: (m,) how far each entry may have a weight; None means one everywhere, as training needs.
    """

    features: Features
    pattern: Pattern
    edges: Tensor
    near: Tensor
    far: Tensor
    typical: Tensor
    graph: Graph
    similar: Tensor
    there: Tensor | None = None

    def with_edges(self, edges: Tensor, weights: Tensor) -> RSGNNInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights.

        In the model an edge is a candidate or not, whatever its weight. Here the predictor's weight is multiplied by
        how far the edge exists: its weight over the one it has in the graph, or over one if it is not an edge there,
        and at most one. Pairs of similar nodes are candidates without an edge, so this makes no difference to them. The
        result cannot be trained on.
        """
        n, places = self.graph.num_nodes, numbers(edges.amin(dim=0), edges.amax(dim=0), self.graph.num_nodes)
        similar = numbers(self.similar[0], self.similar[1], n)
        share = torch.where(torch.isin(places, similar), 1.0, presence(self.graph, edges, weights))
        others = self.similar[:, ~torch.isin(similar, places)]
        pattern, number = Pattern.joining(torch.cat([edges, others], dim=1), n)
        there = torch.cat([share, share.new_ones(others.shape[1])]).index_select(0, number)
        return replace(self, pattern=pattern, there=there)


@dataclass(frozen=True, kw_only=True)
class RSGNN(Model):
    r"""A link predictor weights the edges and adds some, while a GCN learns on the graph it makes.

    A perceptron of the features gives each node a code z. The weight of a candidate, which is an edge of the graph or a
    pair of similar nodes, is

    .. math:: S_{ij} = \mathrm{relu}(z_i^T z_j), \quad \text{or 0 if that is below a threshold,}

    and the GCN convolves with :math:`\tilde D^{-1/2} (S + I) \tilde D^{-1/2}`. With d the distance between two nodes'
    features, the predictor should reconstruct edges, above all between similar nodes, and predict none between other
    nodes, above all dissimilar ones:

    .. math:: L_E = \sum_{(i,j) \in E} e^{-d_{ij}^2 / \sigma^2} (z_i^T z_j - 1)^2
        + \sum_{(i,j) \notin E} e^{d_{ij}^2 / \sigma^2} (z_i^T z_j)^2.

    Pairs that it is sure of should have the same class, labelled or not, with :math:`\hat y` the GCN's probabilities:

    .. math:: L_S = \frac{1}{n} \sum_{S_{ij} \geq T} S_{ij} \|\hat y_i - \hat y_j\|_2^2.

    All parameters minimise the cross-entropy + `reconstruction` :math:`L_E` + `smoothness` :math:`L_S`.

    Where this differs from the original code:

    * The original samples negative pairs at each step. The sum over all of them has a closed form,
      :math:`\sum_{i,j} (z_i^T z_j)^2 = \|Z^T Z\|_F^2`, which is faster and free of noise; `negatives` says how many per
      node they count as. Their factors are exact for candidates; the rest, all about equally far apart, get that of the
      mean distance.
    * It alternates between two optimisers, one step for the predictor and two for the GCN; here one does both.
    * Features have rows of unit length, so that neither weights nor :math:`\sigma` depend on their scale. In the
      original :math:`\sigma` is so large that all factors are about one; here they differ.
    * :math:`L_E` is the mean over pairs, which the original multiplies by the number of nodes; its `alpha` of 0.01 is a
      `reconstruction` of 25 on Cora. A loop has weight one, there :math:`z_i^T z_i`. :math:`L_S` is over all pairs
      above T; the original also includes those below that end in a labelled node.
    * The original tunes the weights of the losses for each graph and attack; here there is one setting for all.

    Weights of the input's edges are ignored; only their presence matters.

    Attributes:
        k: number of most similar nodes per node that become candidates; with 0 no edge is added.
        negatives: pairs without an edge per node, besides the edges, in the mean of the reconstruction.
        sigma: the scale of feature distances, which lie between 0 and 2, over which the factors change.
        reconstruction: weight of :math:`L_E`.
        smoothness: weight of :math:`L_S`.
        least: weights below this are 0.
        sure: T.
        width: width of the predictor's hidden layer and of the codes.
        hidden: width between the layers of the GCN.
        dropout: share of its hidden units dropped in each training step.
    """

    whole_graph: ClassVar[bool] = True

    k: Natural = 20
    negatives: Natural = 5
    # Below 0.2 the factor of the farthest pairs overflows float32.
    sigma: Annotated[float, number("a number >= 0.2", lambda x: x >= 0.2, infinite=True)] = 2.0
    reconstruction: NonNegative = 25.0
    smoothness: NonNegative = 0.3
    least: NonNegative = 0.1
    sure: NonNegative = 0.8
    width: Width = 64
    hidden: Width = 64
    dropout: ShareBelowOne = 0.5
    training: Training = field(default_factory=lambda: Training(epochs=200, lr=0.003, weight_decay=5e-4))

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The predictor's weights as torch's `Linear` draws them, Glorot weights and zero biases for the GCN."""
        codes = MLP(hidden=self.width).initial(features, self.width, generator)
        named = {f"code_{name}": value for name, value in codes.items()}
        return named | self._gcn.initial(features, classes, generator)

    def prepare(self, graph: Graph, device: str) -> RSGNNInputs:
        """Unit features, the candidates, and the factors of the reconstruction."""
        n, own, points = graph.num_nodes, graph.edges, unit_features(graph, "RSGNN compares them", device=device)
        k, similar = min(self.k, n - 1), np.zeros((2, 0), dtype=np.int64)
        if k:
            similar = union(choose_neighbors(n, device)(points, k, seed=0)).cpu().numpy()
        both = np.concatenate([own, similar], axis=1)
        pairs = canonical(both[0], both[1], n)
        pattern = Pattern(graph.with_edges(pairs).adjacency, device)
        numbers = (pattern.rows * n + pattern.columns).cpu().numpy()
        edges = torch.from_numpy(np.searchsorted(numbers, own[0] * n + own[1])).to(device)

        norms, mean = points.square().sum(dim=1), points.mean(dim=0)
        products = pair_products(pattern.rows, pattern.columns, points, points)
        distances = (norms[pattern.rows] + norms[pattern.columns] - 2 * products).clamp_min(0)
        typical = torch.exp(2 * (norms.mean() - mean.square().sum()) * n / max(n - 1, 1) / self.sigma**2)
        far = torch.exp(distances / self.sigma**2) - typical
        far[edges] = far[pattern.reverse[edges]] = -typical
        features = Features.of(replace(graph, features=points.cpu().numpy()), device)
        near = torch.exp(-distances[edges] / self.sigma**2)
        return RSGNNInputs(features, pattern, edges, near, far, typical, graph, torch.from_numpy(similar).to(device))

    def logits(self, parameters: Parameters, inputs: RSGNNInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        codes = self._codes(parameters, inputs)
        weights = self._weights(inputs.pattern.inner(codes, codes))
        if inputs.there is not None:
            weights = weights * inputs.there
        return self._classified(parameters, inputs, weights, noise)

    def logits_and_penalties(self, parameters: Parameters, inputs: RSGNNInputs, noise: Noise) -> tuple[Tensor, Tensor]:
        """(S, n, classes) logits, and (S,) the sum of the two further losses."""
        if inputs.there is not None:
            raise TypeError("RSGNN learns to reconstruct the edges of a graph, and here they were replaced")
        codes = self._codes(parameters, inputs)
        products = inputs.pattern.inner(codes, codes)
        weights = self._weights(products)
        logits = self._classified(parameters, inputs, weights, noise)
        reconstruction = self._reconstruction(inputs, codes, products)
        smoothness = self._smoothness(inputs, weights, logits)
        return logits, self.reconstruction * reconstruction + self.smoothness * smoothness

    @property
    def _gcn(self) -> GCN:
        return GCN(hidden=self.hidden, dropout=self.dropout)

    def _codes(self, parameters: Parameters, inputs: RSGNNInputs) -> Tensor:
        return perceptron(parameters, inputs.features, None, (0.0, 0.0), prefix="code_")

    def _weights(self, products: Tensor) -> Tensor:
        return torch.where(products >= self.least, products.relu(), 0.0)

    def _classified(self, parameters: Parameters, inputs: RSGNNInputs, weights: Tensor, noise: Noise | None) -> Tensor:
        pattern = inputs.pattern
        root = (1 + pattern.row_sums(weights)).rsqrt()
        values = root.index_select(1, pattern.rows) * weights * root.index_select(1, pattern.columns)
        loops = root.square()[:, :, None]
        return self._gcn.forward(
            parameters, inputs.features, lambda mapped, *_: pattern.product(values, mapped) + loops * mapped, noise
        )

    def _reconstruction(self, inputs: RSGNNInputs, codes: Tensor, products: Tensor) -> Tensor:
        n, count = inputs.pattern.size, len(inputs.edges)
        ordered = torch.bmm(codes.mT, codes).square().sum(dim=(1, 2)) - codes.square().sum(dim=2).square().sum(dim=1)
        others = (inputs.typical * ordered + (inputs.far * products.square()).sum(dim=1)) / 2
        joined = (inputs.near * (products.index_select(1, inputs.edges) - 1).square()).sum(dim=1)
        there_are = n * (n - 1) // 2 - count
        counted = min(self.negatives * n, there_are)
        return (joined + others * counted / max(there_are, 1)) / max(count + counted, 1)

    def _smoothness(self, inputs: RSGNNInputs, weights: Tensor, logits: Tensor) -> Tensor:
        pattern, probabilities = inputs.pattern, logits.softmax(dim=2)
        sure = torch.where(weights >= self.sure, weights, 0.0).detach()
        own = pattern.row_sums(sure)[:, :, None] * probabilities
        return (probabilities * (own - pattern.product(sure, probabilities))).sum(dim=(1, 2)) / pattern.size
