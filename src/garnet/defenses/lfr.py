"""GCN-LFR, Chang et al., "Not All Low-Pass Filters are Robust in Graph Convolutional Networks" (NeurIPS 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.backbones import GCN
from garnet.backbones.base import Features, Noise, Parameters, glorot, model_features, propagate
from garnet.defenses.base import Model
from garnet.graph.graph import Graph
from garnet.linalg.linear_map import LinearMap
from garnet.linalg.sparse import SparseMatrix, WeightedMatrix
from garnet.parameters import Count, Share, ShareBelowOne, Width
from garnet.spectral import choose_solver
from garnet.spectral.spectrum import normalized_adjacency
from garnet.training.loop import Training


@dataclass(frozen=True, eq=False)
class LFRInputs:
    """Inputs of both networks.

    Attributes:
        features: X, each row divided by the sum of its absolute values.
        matrix: A + I.
        graph: the graph of the low frequencies.
        rank: most low frequencies.
        device: where they are needed.
    """

    features: Features
    matrix: LinearMap
    graph: Graph
    rank: int
    device: str

    def with_edges(self, edges: Tensor, weights: Tensor) -> LFRInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights.

        The low frequencies, which only training needs, stay those of the graph.
        """
        return replace(self, matrix=WeightedMatrix.looped(edges, weights, self.graph.num_nodes))

    @cached_property
    def vectors(self) -> Tensor:
        """(n, r) eigenvectors U, computed when training first asks for them: a trained model needs none."""
        n = self.graph.num_nodes
        solve = choose_solver(n)
        matrix = normalized_adjacency(self.graph)
        spectrum = solve(matrix, min(self.rank, n), end="algebraic", seed=0, device=self.device)
        return spectrum.vectors.float()


@dataclass(frozen=True, kw_only=True)
class LFR(Model):
    r"""Two networks with the same weights: a GCN on all of the graph, and one on its low frequencies.

    By perturbation theory, adding or removing an edge moves the eigenvalues and eigenvectors of the normalised
    Laplacian :math:`I - D^{-1/2} A D^{-1/2}` little within an interval at the low end of its spectrum. What is learnt
    there should carry over to the GCN: layers of the GCN and of the other network,

    .. math:: H' = \mathrm{relu}(\tilde A H W + b), \qquad H' = \mathrm{relu}(U \mathrm{diag}(f) U^T H W + b),

    share W and b; U holds the eigenvectors of the r smallest eigenvalues and f, also learnt, is the response of each.
    Both learn the labels, but only the GCN predicts: once trained, it needs no eigenvectors.

    Where this differs from the original code:

    * The original trains one of the networks at each step, the second with probability alpha. Here the second judges
      each node of each step with that probability, so the expected loss, :math:`(1 - \alpha) L_{GCN} + \alpha L_{LFR}`,
      is the same and less noisy.
    * It takes the lower half of all eigenpairs of a dense decomposition; here it is `rank` of them, from a sparse
      solver.
    * The GCN's :math:`\tilde A` is A there and A + I here, so that no node is without neighbours. In both it is not
      normalised, while rows of X are. This matters more than the low frequencies: on Cora under Metattack the GCN
      alone, alpha = 0, withstands as much, and with a normalised :math:`\tilde A` neither does.
    * Weight decay applies to all parameters, there to all except those of the first layer.

    Attributes:
        rank: number of eigenpairs r, at most the number of nodes.
        alpha: probability that the second network judges a node in training.
        hidden: width between the layers.
        dropout: share of the hidden units dropped in each training step.
    """

    whole_graph: ClassVar[bool] = True

    rank: Count = 100
    alpha: Share = 0.5
    hidden: Width = 128
    dropout: ShareBelowOne = 0.5
    training: Training = field(default_factory=lambda: Training(epochs=200, lr=0.01, weight_decay=5e-4))

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Glorot weights, zero biases, and responses of about one."""
        parameters: Parameters = {}
        for layer, (rows, columns) in enumerate([(features, self.hidden), (self.hidden, classes)]):
            parameters[f"weight{layer}"] = glorot(rows, columns, generator)
            parameters[f"bias{layer}"] = torch.zeros(1, columns, device=generator.device)
            draws = torch.rand(self.rank, 1, generator=generator, device=generator.device)
            parameters[f"filter{layer}"] = 0.9 + 0.2 * draws
        return parameters

    def prepare(self, graph: Graph, device: str) -> LFRInputs:
        """Features and the convolution; the low frequencies are computed when asked for."""
        looped = sp.csr_array(graph.adjacency + sp.eye_array(graph.num_nodes, format="csr"))
        features = Features.of(replace(graph, features=_rows_of_sum_one(graph)), device)
        return LFRInputs(features, SparseMatrix(looped, device, symmetric=True), graph, self.rank, device)

    def logits(self, parameters: Parameters, inputs: LFRInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits of the GCN; in training, at some nodes, those of the low frequencies."""

        def low(mapped: Tensor, layer: int, _: Tensor | None) -> Tensor:
            response = parameters[f"filter{layer}"][:, : inputs.vectors.shape[1]]
            return inputs.vectors @ (response * (inputs.vectors.T @ mapped))

        gcn = GCN(hidden=self.hidden, dropout=self.dropout)
        logits = gcn.forward(parameters, inputs.features, lambda mapped, *_: propagate(inputs.matrix, mapped), noise)
        if noise is None:
            return logits
        by_low = noise.mask((logits.shape[1], 1), 1 - self.alpha) > 0
        return torch.where(by_low, gcn.forward(parameters, inputs.features, low, noise), logits)


def _rows_of_sum_one(graph: Graph) -> sp.csr_array | NDArray[np.float32]:
    features = model_features(graph).astype(np.float64)
    sums = np.asarray(abs(features).sum(axis=1)).ravel()
    scaled = sp.diags_array(1 / np.where(sums > 0, sums, 1)) @ features
    return (sp.csr_array(scaled) if sp.issparse(scaled) else np.asarray(scaled)).astype(np.float32)
