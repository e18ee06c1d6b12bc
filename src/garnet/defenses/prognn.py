"""Pro-GNN of Jin et al. (KDD 2020): learn the graph and the model together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.backbones import GCN, GPRGNN
from garnet.backbones.base import Parameters, require_features
from garnet.backbones.gcn import GCNInputs
from garnet.defenses.base import Defense, require_dense
from garnet.graph.graph import Graph
from garnet.linalg.nuclear_norm import shrink_
from garnet.parameters import Bytes, Count, Device, NonNegative, Positive, ShareBelowOne
from garnet.progress import Clock, Progress
from garnet.training.loop import Course, Round, Training
from garnet.training.predictor import Predictor
from garnet.training.supervision import Supervision

# Added to degrees under a root, in the smoothness of the features.
_LEAST_DEGREE = 1e-3


@dataclass(frozen=True, kw_only=True)
class ProGNN(Defense):
    r"""Learns a graph S of low rank, sparse, smooth in the features and close to A, together with a model on it.

    The problem of the paper, over S and the model's weights :math:`\theta`:

    .. math::
        \min_{S = S^T, \; 0 \le S \le 1, \; \theta} \; \|A - S\|_F + \alpha \|S\|_1 + \beta \|S\|_*
        + \gamma \, L_{GNN}(\theta, S) + \lambda \, \mathrm{tr}(X^T \hat L X), \qquad
        \hat L = D^{-1/2} (D - S) D^{-1/2}

    Algorithm 1 alternates. For S: a step of length :math:`\eta / (1 - \mu)` along the gradient of the smooth terms,
    then the proximal steps of the nuclear norm, which moves each singular value towards zero by :math:`\eta \beta`, and
    of the l1 norm, which subtracts :math:`\eta \alpha` from each entry, with the bounds. For the model: a few steps of
    Adam on the training nodes. The state that did best on the validation nodes is kept. If A has weights above one, the
    largest of them is the upper bound.

    With `smoothness=0` it is the Pro-GNN-fs of the paper.

    The default :math:`\alpha, \beta, \gamma, \lambda` are those of the authors' code for Cora, from which this differs:

    * Theirs takes up to 1000 small steps of S, :math:`\eta = 0.01`, with two of the model at a rate of 0.0005 between;
      this takes a few of :math:`\eta = 1` with ten at 0.01, the same path in steps a hundred times as long. Their
      momentum :math:`\mu` of 0.9 makes steps ten times as long in the end. Here they have that length from the start,
      which needs no second matrix.
    * S stays symmetric, as in the paper but not in their code. Its singular values are then the magnitudes of its
      eigenvalues, and only those that survive the proximal step are computed (`garnet.linalg.nuclear_norm`).
    * S is also clipped to its bounds before the nuclear norm is shrunk: with long steps, nodes that have lost their
      edges would otherwise attract others by the thousand.
    * As in their code, but not in the paper, the distance to A is not squared; a proximal step of its own, towards A
      but never beyond, replaces its gradient.
    * The gradient through the normalised graph is coded by hand, not recorded: S and, with smoothness, :math:`X X^T`
      are the only n x n matrices, besides eigenvectors while most of them are needed.

    Attributes:
        alpha: weight of the l1 norm.
        beta: weight of the nuclear norm.
        gamma: weight of the model's loss in the steps of S.
        smoothness: weight :math:`\lambda` of the smoothness of the features.
        lr_graph: step length :math:`\eta` of S.
        momentum: :math:`\mu`, which makes the steps along the gradient longer than the proximal ones.
        outer_steps: steps of S in an epoch.
        inner_steps: steps of the model in an epoch.
        rank: most eigenvalues of S to keep; None keeps all that survive the proximal step.
        backbone: GCN or GPRGNN.
        training: how both are trained; an epoch is the outer and then the inner steps.
        most_bytes: a graph whose dense matrix would take more is refused.
        device: where they are trained.
    """

    whole_graph: ClassVar[bool] = True
    gives_model: ClassVar[bool] = False
    learns_one_graph: ClassVar[bool] = True

    alpha: NonNegative = 5e-4
    beta: NonNegative = 1.5
    gamma: NonNegative = 1.0
    smoothness: NonNegative = 1e-3
    lr_graph: Positive = 1.0
    momentum: ShareBelowOne = 0.9
    outer_steps: Count = 1
    inner_steps: Count = 10
    rank: Count | None = None
    backbone: GCN | GPRGNN = field(default_factory=lambda: GCN(hidden=16))
    training: Training = field(default_factory=lambda: Training(epochs=12, lr=0.01, weight_decay=5e-4, patience=3))
    most_bytes: Bytes = 4 << 30
    device: Device = "cpu"

    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        require_dense(self, graph.num_nodes, self.most_bytes)
        clock = Clock(progress)
        with clock("learn graph and model"):
            course = Course(self.backbone, graph, self.training, self.device, progress)
            # One after the other, because each learns its own graph. Without that graph the model is worthless, so none
            # # is returned.
            predictors = course.predictors(seeds, _GraphLearner(self, graph).epochs, None)
        return tuple(replace(one, stages=tuple(clock.stages)) for one in predictors)

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        convolves = isinstance(self.backbone, GCN) or self.backbone.hops != 0
        yield "backbone", convolves, "GCN, or GPRGNN with at least one hop"


class _GraphLearner:
    """The graph's part of the training."""

    def __init__(self, method: ProGNN, graph: Graph) -> None:
        self.method, self.nodes = method, graph.num_nodes
        self.inputs = method.backbone.prepare(graph, method.device)
        self.gram = _gram(graph, method.device) if method.smoothness else None
        edges = graph.adjacency.tocoo()
        rows, columns = (torch.from_numpy(one.astype(np.int64)).to(method.device) for one in edges.coords)
        self.places, self.weights = (rows, columns), torch.from_numpy(edges.data).to(method.device)
        self.top = max(1.0, float(edges.data.max(initial=0)))

    def epochs(
        self, parameters: Parameters, supervision: Supervision, seeds: Sequence[int]
    ) -> Iterator[Sequence[Round[GCNInputs]]]:
        """Steps of the graph, then one round for each step of the model on it."""
        method, device = self.method, self.method.device
        drawn = torch.Generator(device).manual_seed(seeds[0])
        structure = torch.zeros(self.nodes, self.nodes, device=device)
        structure[self.places] = self.weights
        vectors: Tensor | None = None
        while True:
            for _ in range(method.outer_steps):
                convolution = _Convolution(structure, recording=True)
                logits = method.backbone.logits(parameters, replace(self.inputs, matrix=convolution), None)
                torch.autograd.grad(supervision.losses(logits).sum(), list(parameters.values()))
                self._descend(structure, convolution)
                if method.beta:
                    threshold = method.beta * method.lr_graph
                    vectors = shrink_(structure, threshold, vectors, rank=method.rank, generator=drawn)
                structure.sub_(method.alpha * method.lr_graph).clamp_(0, self.top)
            inputs = replace(self.inputs, matrix=_Convolution(structure))
            yield [Round([(inputs, supervision)], inputs)] * method.inner_steps

    def _descend(self, structure: Tensor, convolution: _Convolution) -> None:
        """One step along the gradient of the smooth terms, then a projection to the bounds."""
        method = self.method
        step = method.lr_graph / (1 - method.momentum)
        left, right, pulls = convolution.gradient()
        left, pulls = method.gamma * left, method.gamma * pulls
        root: Tensor | None = None
        if self.gram is not None:
            root, more = _smoothness(structure, self.gram)
            pulls = pulls + method.smoothness * more
        ones = torch.ones_like(pulls)
        structure.index_put_(self.places, -self.weights, accumulate=True)
        distance = torch.linalg.vector_norm(structure)
        structure.mul_((1 - step / distance.clamp_min(1e-12)).clamp_min(0))
        # Half of the gradient and half of its transpose, at once.
        one, other = torch.cat([left, right, pulls, ones], dim=1), torch.cat([right, left, ones, pulls], dim=1)
        structure.addmm_(one, other.T, alpha=-step / 2)
        if self.gram is not None and root is not None:
            for rows in _blocks(structure):
                structure[rows] += self.gram[rows] * (step * method.smoothness * root[rows, None]) * root
        structure.index_put_(self.places, self.weights, accumulate=True)
        structure.clamp_(0, self.top)


def _smoothness(structure: Tensor, gram: Tensor) -> tuple[Tensor, Tensor]:
    r"""The gradient of :math:`\mathrm{tr}(X^T \hat L X)`, as r and c: :math:`(c_i + c_j) / 2 - r_i r_j (X X^T)_{ij}`.

    With r the inverse roots of the degrees, the trace is
    :math:`\sum_i d_i r_i^2 (X X^T)_{ii} - \sum_{ij} S_{ij} r_i r_j (X X^T)_{ij}`, and c its derivative by d. As in the
    authors' code the degree under the root is increased by a thousandth, so that it may be zero.
    """
    root = (structure.sum(dim=1) + _LEAST_DEGREE).rsqrt()
    shared = root * torch.cat([(structure[rows] * gram[rows]) @ root for rows in _blocks(structure)])
    by_degree = shared * root**2 + _LEAST_DEGREE * gram.diagonal() * root**4
    return root, by_degree[:, None]


class _Convolution:
    r""":math:`P = \tilde D^{-1/2} (S + I) \tilde D^{-1/2}` of a dense S, which records the gradients that pass.

    A product P h with gradient g adds :math:`g h^T` to the gradient of P. Together these are a product of two narrow
    blocks, and are stored as such.

    Args:
        structure: S, symmetric.
        recording: whether the gradient of S is needed.
    """

    def __init__(self, structure: Tensor, *, recording: bool = False) -> None:
        self.recording, self.shape = recording, tuple(structure.shape)
        self._structure = structure
        self._root = (structure.sum(dim=1, keepdim=True) + 1).rsqrt()
        self._pairs: list[tuple[Tensor, Tensor]] = []
        self._pulls = torch.zeros_like(self._root)

    def __matmul__(self, block: Tensor) -> Tensor:
        """P times (n, f); gradients flow to the block."""
        return _product(self, block)

    def product(self, block: Tensor) -> Tensor:
        """P times (n, f)."""
        scaled = self._root * block
        # From the left, as S is symmetric: twice as fast for a few columns.
        return self._root * ((scaled.T @ self._structure).T + scaled)

    def record(self, gradient: Tensor, block: Tensor, forth: Tensor, back: Tensor) -> None:
        """Record the gradient of a product `forth` of a block; `back` is P times that gradient."""
        self._pairs.append((gradient, block))
        self._pulls += (gradient * forth + block * back).sum(dim=1, keepdim=True)

    def gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Blocks L and R and a column c: the gradient of S is the symmetric part of :math:`L R^T + c 1^T`."""
        left, right = (self._root * torch.cat(blocks, dim=1) for blocks in zip(*self._pairs, strict=True))
        return left, right, -self._pulls * self._root**2 / 2


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, convolution: _Convolution, block: Tensor) -> Tensor:
        result = convolution.product(block)
        ctx.convolution = convolution
        if convolution.recording:
            ctx.save_for_backward(block, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        convolution = ctx.convolution
        back = convolution.product(gradient)
        if convolution.recording:
            block, forth = (saved.detach() for saved in ctx.saved_tensors)
            convolution.record(gradient, block, forth, back)
        return None, back


# Torch does not type `apply`.
_product: Callable[[_Convolution, Tensor], Tensor] = _Product.apply


def _blocks(matrix: Tensor) -> list[slice]:
    """Slices of a few rows, for work that would fill another matrix of this size."""
    size = max(1, (1 << (18 if matrix.device.type == "cpu" else 26)) // len(matrix))
    return [slice(first, first + size) for first in range(0, len(matrix), size)]


def _gram(graph: Graph, device: str) -> Tensor:
    """(n, n) inner products of the features, computed a few columns at a time."""
    features = require_features(graph, "ProGNN compares them unless its 'smoothness' is 0")
    gram = torch.zeros(graph.num_nodes, graph.num_nodes, device=device)
    columns = sp.csc_array(features)
    for first in range(0, columns.shape[1], 1024):
        block = torch.from_numpy(columns[:, first : first + 1024].toarray()).to(device)
        gram.addmm_(block, block.T)
    return gram
