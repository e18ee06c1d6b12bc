"""Soft Median GDC, Geisler, Schmidt, Sirin, Zuegner, Bojchevski and Guennemann (NeurIPS 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.backbones.base import Features, Noise, Parameters
from garnet.backbones.gcn import GCN
from garnet.defenses.base import Model
from garnet.graph.graph import Graph
from garnet.linalg.diffusion import weighted_pagerank
from garnet.linalg.pagerank import top_pagerank
from garnet.linalg.soft_median import Neighborhoods
from garnet.parameters import Count, Depth, Positive, ShareBelowOne, Width, number
from garnet.training.loop import Training


@dataclass(frozen=True, eq=False)
class SoftMedianInputs:
    """Inputs of the layers.

    Attributes:
        features: X.
        near: each node's neighbours after the diffusion.
        alpha: return probability of the diffusion.
        k: number of neighbours that it keeps.
    """

    features: Features
    near: Neighborhoods
    alpha: float
    k: int

    def with_edges(self, edges: Tensor, weights: Tensor) -> SoftMedianInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights.

        The choice of the largest entries of the diffusion and of the medians is fixed at these weights; all other
        derivatives are exact, except that edges with a weight below 0.01 count as zero: see `weighted_pagerank`.
        """
        n = self.features.matrix.shape[0]
        columns, values = weighted_pagerank(edges, weights, n, alpha=self.alpha, k=self.k)
        sums = values.sum(dim=1, keepdim=True)
        shares = values / torch.where(sums > 0, sums, 1.0)
        totals = shares.new_zeros(n).index_add(0, columns.flatten(), shares.flatten())
        root = torch.where(totals > 0, totals, 1.0).rsqrt()
        scaled = root[:, None] * shares * root.index_select(0, columns.flatten()).view(columns.shape)
        return replace(self, near=Neighborhoods.weighing(columns, scaled))


@dataclass(frozen=True, kw_only=True)
class SoftMedianGDC(Model):
    r"""A GCN whose neighbours come from a diffusion and whose sums are robust means.

    From "Robustness of Graph Neural Networks at Scale". The graph becomes personalised PageRank (Gasteiger,
    Weissenberger and Guennemann, NeurIPS 2019),
    :math:`\Pi = \alpha (I - (1 - \alpha) \tilde D^{-1/2} (A + I) \tilde D^{-1/2})^{-1}`. The k largest entries of each
    row are kept and divided by their sum, which gives P; with :math:`c_j = \sum_i P_{ij}`,
    :math:`a_{ij} = P_{ij} / \sqrt{c_i c_j}`. It is not made symmetric.

    A layer is :math:`H' = \mathrm{relu}(\mathrm{softmedian}(H W) + b)`. The soft median (section 4) of the rows
    :math:`x_j` weighted by :math:`a_{ij}` is, with :math:`\bar x_i` their weighted median in each of d dimensions,

    .. math:: \Big(\sum_j a_{ij}\Big) \frac{\sum_j s_{ij} a_{ij} x_j}{\sum_j s_{ij} a_{ij}}, \qquad
        s_{ij} = \exp\Big(-\frac{\|\bar x_i - x_j\|}{T \sqrt d}\Big).

    Gradients also flow through the medians. A few neighbours far from the rest, such as an attacker adds, hardly move
    the median and so have little weight.

    Where we differ from the authors' code: theirs has a dense inverse for Cora and Citeseer, and on larger graphs
    approximate rows of the random walk, whose largest entries are taken before they are made symmetric, so that hubs
    are kept more often; here the largest entries are always those of :math:`\Pi`. The diffusion uses edge weights. They
    add a loop of weight one to a row that has lost its own entry, which happens only with :math:`k < 1 / \alpha`; we do
    not. Training chooses the best epoch by validation accuracy, not by loss.

    Attributes:
        layers: number of layers.
        hidden: width between the layers.
        dropout: share of the hidden units dropped in each training step.
        temperature: T; low is robust, high is a GCN on the diffused graph.
        alpha: return probability of PageRank; 0.15 for citation graphs, 0.1 for ogbn-arxiv.
        k: number of neighbours that each node keeps from the diffusion.
        batch_norm: normalise each hidden unit over the nodes, as for ogbn-arxiv.
    """

    whole_graph: ClassVar[bool] = True

    layers: Depth = 2
    hidden: Width = 64
    dropout: ShareBelowOne = 0.5
    temperature: Positive = 0.2
    # The number of diffusion steps grows as one over the root of alpha.
    alpha: Annotated[float, number("at least 1e-6 and at most 1", lambda x: 1e-6 <= x <= 1)] = 0.15
    k: Count = 64
    batch_norm: bool = False
    training: Training = field(default_factory=lambda: Training(lr=0.01, weight_decay=1e-3))

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The parameters of a GCN."""
        return self._gcn.initial(features, classes, generator)

    def prepare(self, graph: Graph, device: str) -> SoftMedianInputs:
        """Features and the diffusion."""
        features = Features.of(graph, device)
        diffused = top_pagerank(graph.adjacency, alpha=self.alpha, k=self.k, device=device)
        return SoftMedianInputs(features, Neighborhoods(normalized(diffused), device), self.alpha, self.k)

    def logits(self, parameters: Parameters, inputs: SoftMedianInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""

        def aggregate(mapped: Tensor, *_: object) -> Tensor:
            return inputs.near.soft_median(mapped, self.temperature)

        return self._gcn.forward(parameters, inputs.features, aggregate, noise)

    @property
    def _gcn(self) -> GCN:
        return GCN(layers=self.layers, hidden=self.hidden, dropout=self.dropout, batch_norm=self.batch_norm)


def normalized(diffused: sp.csr_array) -> sp.csr_array:
    """Each row divided by its sum, then each node's row and column by the root of its column's sum."""
    rows = np.asarray(diffused.sum(axis=1), dtype=np.float64).ravel()
    scaled = sp.diags_array(1 / np.where(rows > 0, rows, 1)) @ diffused
    columns = np.asarray(scaled.sum(axis=0)).ravel()
    root = sp.diags_array(np.where(columns > 0, columns, 1) ** -0.5)
    return sp.csr_array(root @ scaled @ root)
