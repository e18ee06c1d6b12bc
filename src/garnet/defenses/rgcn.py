"""Gaussian hidden layers of Zhu, Zhang, Cui and Zhu (KDD 2019): what an attack makes uncertain has less weight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.backbones.base import Features, Noise, Parameters, dropout, glorot, linear, propagate
from garnet.backbones.matrices import gcn_matrix
from garnet.defenses.base import Model
from garnet.graph.graph import Graph
from garnet.linalg.linear_map import LinearMap, ScaledMap
from garnet.linalg.sparse import SparseMatrix, edge_degrees, normalized_matrix
from garnet.parameters import NonNegative, ShareBelowOne, Width
from garnet.training.loop import Training

# Added to a variance, so that its logarithm and the slope of its root stay finite where a relu makes it zero.
_LEAST_VARIANCE = 1e-8


@dataclass(frozen=True, eq=False)
class RGCNInputs:
    """Features X, and the convolutions of means, D^(-1/2) (A + I) D^(-1/2), and of variances, D^(-1) (A + I) D^(-1)."""

    features: Features
    means: LinearMap
    variances: LinearMap

    def with_edges(self, edges: Tensor, weights: Tensor) -> RGCNInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights."""
        n = self.features.matrix.shape[0]
        means = normalized_matrix(edges, weights, n)
        root = (1 + edge_degrees(edges, weights, n)).rsqrt()
        return replace(self, means=means, variances=ScaledMap(means, root))


@dataclass(frozen=True, kw_only=True)
class RGCN(Model):
    r"""Two layers whose units are Gaussians, with attention to those of small variance.

    "Robust Graph Convolutional Networks Against Adversarial Attacks". The features become means and variances,

    .. math:: M_1 = \mathrm{elu}(X W_\mu), \quad \Sigma_1 = \mathrm{relu}(X W_\sigma).

    A node's neighbours are weighted, unit by unit, by :math:`\alpha = \exp(-\gamma \Sigma)`. With
    :math:`\tilde A = A + I` and its degrees :math:`\tilde D`, sums of independent Gaussians are Gaussians with

    .. math::
        M' = \tilde D^{-1/2} \tilde A \tilde D^{-1/2} (M \odot \alpha), \quad
        \Sigma' = \tilde D^{-1} \tilde A \tilde D^{-1} (\Sigma \odot \alpha \odot \alpha).

    The second layer computes :math:`M_2 = \mathrm{elu}(M_1' W_\mu')` and :math:`\Sigma_2 = \mathrm{relu}(\Sigma_1'
    W_\sigma')` from these, and aggregates once more. In training the logits are sampled, :math:`M_2' + \epsilon \odot
    \sqrt{\Sigma_2'}` with standard normal :math:`\epsilon`. The loss is the cross-entropy, `kl` times the divergence of
    the first layer from standard Gaussians, half of :math:`\mu^2 + \sigma - \log \sigma` (minus one) averaged over
    nodes and units, and `decay` times the squares of the first layer's weights.

    The order of weights, attention and aggregation is that of DeepRobust. Two things differ. Its predictions are also
    sampled, and so change from call to call; here evaluation takes the means. It sums the divergence over the nodes,
    times 5e-4, while the cross-entropy is a mean, so on a large graph little else counts; here both are means, and `kl`
    is about what that factor amounts to for the 2,485 nodes of Cora.

    Attributes:
        hidden: Gaussian units between the layers.
        dropout: share of the inputs of each layer dropped in each training step.
        gamma: how strongly uncertain neighbours are discounted; 0 turns attention off.
        kl: weight of the divergence of the first layer.
        decay: weight of the squares of the first layer's weights.
        training: how it is trained; its `weight_decay`, of all weights, is 0 because `decay` replaces it.
        device: where it is trained.
    """

    hidden: Width = 32
    dropout: ShareBelowOne = 0.6
    gamma: NonNegative = 1.0
    kl: NonNegative = 1.25
    decay: NonNegative = 5e-4
    training: Training = field(default_factory=lambda: Training(epochs=200, lr=0.01, weight_decay=0.0, patience=None))

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Glorot weights; there are no biases."""
        widths = (features, self.hidden, classes)
        return {
            f"{kind}{layer}": glorot(widths[layer], widths[layer + 1], generator)
            for layer in range(2)
            for kind in ("mean", "variance")
        }

    def prepare(self, graph: Graph, device: str) -> RGCNInputs:
        """Features and the two convolutions."""
        looped = graph.adjacency.astype(np.float64) + sp.eye_array(graph.num_nodes, format="csr")
        inverse = sp.diags_array(1 / np.asarray(looped.sum(axis=1)).ravel())
        variances = SparseMatrix(sp.csr_array(inverse @ looped @ inverse), device, symmetric=True)
        return RGCNInputs(Features.of(graph, device), gcn_matrix(graph, device), variances)

    def logits(self, parameters: Parameters, inputs: RGCNInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits: sampled in training, their means in evaluation."""
        return self._last(parameters, inputs, noise, *self._first(parameters, inputs, noise))

    def logits_and_penalties(self, parameters: Parameters, inputs: RGCNInputs, noise: Noise) -> tuple[Tensor, Tensor]:
        """Logits, and the penalties that keep the first layer near standard Gaussians and its weights small."""
        mean, variance = self._first(parameters, inputs, noise)
        divergence = (mean.square() + variance - (variance + _LEAST_VARIANCE).log()).mean(dim=(1, 2)) / 2
        squares = sum(parameters[name].square().sum(dim=(1, 2)) for name in ("mean0", "variance0"))
        return self._last(parameters, inputs, noise, mean, variance), self.kl * divergence + self.decay * squares

    def _first(self, parameters: Parameters, inputs: RGCNInputs, noise: Noise | None) -> tuple[Tensor, Tensor]:
        """Means and variances, (S, n, hidden) each, of the features, with the same dropout for both."""
        weight = torch.cat([parameters["mean0"], parameters["variance0"]], dim=2)
        both = inputs.features.linear(weight, self.dropout, noise)
        return torch.nn.functional.elu(both[..., : self.hidden]), both[..., self.hidden :].relu()

    def _last(
        self, parameters: Parameters, inputs: RGCNInputs, noise: Noise | None, mean: Tensor, variance: Tensor
    ) -> Tensor:
        mean, variance = self._aggregated(inputs, mean, variance)
        mean = torch.nn.functional.elu(linear(dropout(mean, self.dropout, noise), parameters["mean1"]))
        variance = linear(dropout(variance, self.dropout, noise), parameters["variance1"]).relu()
        mean, variance = self._aggregated(inputs, mean, variance)
        if noise is None:
            return mean
        return mean + noise.normal(tuple(mean.shape[1:])) * (variance + _LEAST_VARIANCE).sqrt()

    def _aggregated(self, inputs: RGCNInputs, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the weighted sums over neighbours."""
        attention = (-self.gamma * variance).exp()
        return (
            propagate(inputs.means, mean * attention),
            propagate(inputs.variances, variance * attention.square()),
        )
