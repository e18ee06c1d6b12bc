"""RUNG, Hou, Feng, Derr and Liu, "Robust Graph Neural Networks via Unbiased Aggregation" (NeurIPS 2024)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from garnet.backbones.base import Features, Noise, Parameters
from garnet.backbones.mlp import MLP, perceptron
from garnet.defenses.base import Model
from garnet.graph.graph import Graph
from garnet.linalg.edge_weighted import Pattern
from garnet.linalg.sparse import edge_degrees
from garnet.parameters import Hops, Positive, ShareBelowOne, ShareWithin, Width
from garnet.training.loop import Training

Norm = Literal["MCP", "L1", "L2"]

# Floor of distances, so that the weight of an edge between equal ends is finite.
_CLOSEST = 0.01

# Numbers gathered at a time for distances.
_GATHERED = 1 << 24


@dataclass(frozen=True, eq=False)
class RUNGInputs:
    r"""Features X, the edges in both directions, and the matrices normalised by degrees.

    Attributes:
        pattern: sparsity pattern of the matrices, without loops.
        edges: (2, e) ends of each undirected edge.
        edge: (m,) number of the undirected edge of each entry of the pattern.
        shares: (m,) entries :math:`A_{ij} / d_i`, whose weighted sums are q.
        matrix: (m,) entries of :math:`\tilde A`.
        root: (n, 1) roots of the degrees.
        attacked: whether gradients flow to the weights of edges, and through W.
    """

    features: Features
    pattern: Pattern
    edges: Tensor
    edge: Tensor
    shares: Tensor
    matrix: Tensor
    root: Tensor
    attacked: bool = False

    def with_edges(self, edges: Tensor, weights: Tensor) -> RUNGInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights.

        If they do, they also flow through W, from which training does not learn: they are exact wherever the penalty is
        differentiable.
        """
        n = self.features.matrix.shape[0]
        pattern, edge = Pattern.joining(edges, n)
        degree = 1 + edge_degrees(edges, weights, n)
        ends = (degree.index_select(0, side) for side in (pattern.rows, pattern.columns))
        values, (first, second) = weights.index_select(0, edge), ends
        return replace(
            self, pattern=pattern, edges=edges, edge=edge, shares=values / first,
            matrix=values * (first * second).rsqrt(), root=degree.sqrt()[:, None], attacked=weights.requires_grad,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RUNG(Model):
    r"""A perceptron, then layers that smooth its output along the edges they trust.

    The output minimises, over F, with :math:`F^{(0)}` the perceptron's output and degrees d that include a loop,

    .. math:: \sum_{(i,j) \in E} \rho_\gamma\big(\|f_i / \sqrt{d_i} - f_j / \sqrt{d_j}\|_2\big)
        + \lambda \sum_i \|f_i - f_i^{(0)}\|_2^2,

    where the minimax concave penalty, :math:`\rho_\gamma(y) = y - y^2 / 2\gamma` up to :math:`\gamma` and
    :math:`\gamma / 2` beyond, does not pull at an edge whose ends differ by more than :math:`\gamma`: an edge between
    very different nodes is ignored, whereas with the l1 norm it biases the estimate. Each layer is one step of the
    quasi-Newton method of iteratively reweighted least squares (QN-IRLS), which never increases the objective:

    .. math:: W_{ij} = \rho_\gamma'(y_{ij}) / 2 y_{ij} = \max(1 / 2 y_{ij} - 1 / 2 \gamma,\ 0), \qquad
        q_i = \sum_j W_{ij} A_{ij} / d_i,

    .. math:: F \leftarrow (\mathrm{diag}(q) + \lambda I)^{-1} \big((W \odot \tilde A) F + \lambda F^{(0)}\big),
        \qquad \tilde A = D^{-1/2} A D^{-1/2}.

    With the l1 norm :math:`W_{ij} = 1 / 2 y_{ij}`. With the l2 norm :math:`W_{ij} = 1`, and the layers converge to
    personalised PageRank with return probability :math:`1 - \hat\lambda`, like APPNP. As in the original, no gradient
    flows through W.

    The original is dense. Its code takes the root of the distance once more before it weights an edge, so its gamma of
    6 or 3 is a distance of 36 or 9; here gamma is the distance of the paper, floored at 0.01, below which the penalty
    is a parabola. Its learning rate of 0.05 does worse than 0.01 on the validation nodes of Cora, clean or poisoned. It
    trains for all of its 300 epochs; here, as everywhere, the epoch that did best on the validation nodes is kept. The
    term of a weighted edge is multiplied by its weight.

    Attributes:
        gamma: distance between the two ends of an edge beyond which it is ignored; only for the norm `MCP`.
        lambda_hat: :math:`\hat\lambda = 1 / (1 + \lambda)`, the share of smoothing; the rest is fidelity.
        norm: the penalty: `MCP` is RUNG, `L1` and `L2` are its special cases.
        hops: layers of smoothing.
        hidden: width of the perceptron.
        dropout: share of its hidden units dropped in each training step.
    """

    gamma: Positive = 5.0
    lambda_hat: ShareWithin = 0.9
    norm: Norm = "MCP"
    hops: Hops = 10
    hidden: Width = 64
    dropout: ShareBelowOne = 0.5
    training: Training = field(default_factory=lambda: Training(epochs=300, lr=0.01, weight_decay=5e-4))

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The perceptron's parameters; the layers have none."""
        return MLP(hidden=self.hidden).initial(features, classes, generator)

    def prepare(self, graph: Graph, device: str) -> RUNGInputs:
        """Features, edges and degrees."""
        adjacency, degrees = graph.adjacency.sorted_indices(), 1 + graph.degrees
        pattern = Pattern(adjacency, device)
        rows, columns = pattern.rows, pattern.columns
        values = torch.from_numpy(adjacency.data.astype(np.float64)).to(device)
        degree = torch.from_numpy(degrees).to(device)
        return RUNGInputs(
            Features.of(graph, device),
            pattern,
            *pattern.undirected(),
            (values / degree[rows]).float(),
            (values / (degree[rows] * degree[columns]).sqrt()).float(),
            degree.sqrt().float()[:, None],
        )

    def logits(self, parameters: Parameters, inputs: RUNGInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes)."""
        given = perceptron(parameters, inputs.features, noise, (0.0, self.dropout))
        fidelity = 1 / self.lambda_hat - 1
        smooth = given
        for _ in range(self.hops):
            judged = smooth if inputs.attacked else smooth.detach()
            weights = self._weights(judged / inputs.root, inputs).index_select(1, inputs.edge)
            inverse = 1 / (inputs.pattern.row_sums(weights * inputs.shares) + fidelity)
            pulled = inputs.pattern.product(weights * inputs.matrix, smooth)
            smooth = inverse[:, :, None] * (pulled + fidelity * given)
        return smooth

    def _weights(self, scaled: Tensor, inputs: RUNGInputs) -> Tensor:
        """(S, e) weight W of each undirected edge, from (S, n, classes) rows over the roots of the degrees."""
        if self.norm == "L2":
            return scaled.new_ones(len(scaled), inputs.edges.shape[1])
        weights = 1 / (2 * _distances(inputs, scaled).clamp_min(_CLOSEST))
        return weights if self.norm == "L1" else (weights - 1 / (2 * self.gamma)).clamp_min(0)


class _Distances(torch.autograd.Function):
    """(S, e) distances of the two ends of each edge, for (S, n, f) points.

    Their gradient is a product with a Laplacian, in a fraction of the time of adding up rows edge by edge.
    """

    @staticmethod
    def forward(ctx: Any, inputs: RUNGInputs, points: Tensor) -> Tensor:
        step = max(1, _GATHERED // (points.shape[0] * points.shape[2]))
        parts = torch.split(inputs.edges, step, dim=1)
        apart = (points.index_select(1, one) - points.index_select(1, other) for one, other in parts)
        distances = torch.cat([torch.linalg.vector_norm(one, dim=2) for one in apart], dim=1)
        ctx.inputs = inputs
        ctx.save_for_backward(points, distances)
        return distances

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        pattern, (points, distances) = ctx.inputs.pattern, ctx.saved_tensors
        pulls = torch.where(distances > 0, gradient / distances, 0.0).index_select(1, ctx.inputs.edge)
        return None, pattern.row_sums(pulls)[:, :, None] * points - pattern.product(pulls, points)


# Torch does not type `apply`.
_distances: Callable[[RUNGInputs, Tensor], Tensor] = _Distances.apply
