"""The low-rank graph of Entezari et al. (WSDM 2020), dense as it is: for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from garnet.attacks.models import EdgeFunction
from garnet.backbones import GCN
from garnet.backbones.base import Backbone, Dense, Noise, Parameters
from garnet.backbones.gcn import GCNInputs
from garnet.defenses.base import Defense, require_dense
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph
from garnet.linalg.device_graph import Resident
from garnet.linalg.low_rank import LowRank
from garnet.linalg.sparse import WeightedMatrix
from garnet.parameters import Bytes, Count, Device
from garnet.progress import Clock, Progress
from garnet.purify.relaxed import Way
from garnet.spectral import Spectrum, choose_solver
from garnet.spectral.perturbation import truncated
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

_SOLVED, _SOLVER_STEPS = 1e-2, 30
"""Limit of the solver for the rotation of eigenvectors; few steps keep narrow gaps from dominating."""


@dataclass(frozen=True, kw_only=True)
class TSVD(Defense):
    r"""Trains on :math:`U_r \Lambda_r U_r^T`, the symmetric matrix of rank r nearest to the adjacency.

    Its entries, of both signs, fill an n x n matrix, and each product costs as much: this is what GARNET avoids.
    Degrees are row sums with a loop of weight one; rows whose sum is not positive are left out.

    Attributes:
        rank: number of singular values to keep; None means 50, or half the nodes if fewer.
        backbone: GCN, GPRGNN or H2GCN; for the last, a graph that joins all pairs has no pairs at two hops.
        training: how it is trained.
        most_bytes: a graph whose dense matrix would take more is refused.
        device: where it is trained.
    """

    whole_graph: ClassVar[bool] = True
    gives_model: ClassVar[bool] = False

    rank: Count | None = None
    backbone: Backbone[Any] = field(default_factory=GCN)
    training: Training = field(default_factory=Training)
    most_bytes: Bytes = 4 << 30
    device: Device = "cpu"

    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        model, clock = _OnLowRank(self), Clock(progress)
        self._require_possible(graph)
        with clock("decompose"):
            inputs = model.prepare(graph, self.device)
        predictors = train(
            self.backbone, graph, seeds=seeds, training=self.training, device=self.device, inputs=inputs,
            progress=progress,
        )  # fmt: skip
        # A file would not record that the weights are for a low-rank matrix.
        return tuple(replace(one, backbone=None, stages=(*clock.stages, *one.stages)) for one in predictors)

    def _predict(self, predictor: Predictor, graph: Graph) -> Predictor:
        """The low-rank matrix of the other graph, read with the learnt weights."""
        self._require_possible(graph)
        whole = replace(predictor, backbone=_OnLowRank(self))
        return replace(whole.on(graph, device=self.device), backbone=None)

    def relaxed(self, predictor: Predictor, graph: Graph, *, way: Way = "still") -> EdgeFunction:
        """See `Defense.relaxed`: the low-rank matrix follows the edges, to first order."""
        self._require_possible(graph)
        inputs = self.backbone.prepare(graph, self.device)
        if not isinstance(inputs, GCNInputs):
            raise ParameterError(f"No gradient of {self.backbone!r} reaches the edges here; take GCN or GPRGNN.")
        stacked = {name: value[None].to(self.device) for name, value in predictor.parameters.items()}
        return _RelaxedTSVD(self.backbone, stacked, inputs, self.spectrum(graph), Resident.of(graph, self.device), way)

    def spectrum(self, graph: Graph) -> Spectrum:
        """The eigenpairs of the adjacency to keep: those of largest absolute value."""
        solve = choose_solver(graph.num_nodes)
        matrix = graph.adjacency.astype(float)
        return solve(matrix, self._rank(graph.num_nodes), end="magnitude", seed=0, device=self.device)

    def _rank(self, n: int) -> int:
        return max(1, min(50, n // 2)) if self.rank is None else self.rank

    def _require_possible(self, graph: Graph) -> None:
        n = graph.num_nodes
        if n < 2:
            raise GraphError(f"TSVD needs at least two nodes, and the graph has {n}.")
        if (rank := self._rank(n)) >= n:
            raise ParameterError(f"The 'rank' parameter of TSVD must be below {n}, the node count. Got {rank} instead.")
        require_dense(self, n, self.most_bytes)


@dataclass(frozen=True)
class _OnLowRank:
    """The backbone of a TSVD, which reads the low-rank matrix of any graph."""

    defense: TSVD

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The backbone's parameters."""
        return self.defense.backbone.initial(features, classes, generator)

    def prepare(self, graph: Graph, device: str) -> Any:
        """What the backbone needs, with the low-rank matrix in place of the graph's own."""
        backbone = self.defense.backbone
        inputs = backbone.prepare(graph, device)
        if not isinstance(inputs, Dense):
            raise ParameterError(f"TSVD takes GCN, GPRGNN or H2GCN as backbone. Got {backbone!r} instead.")
        spectrum = self.defense.spectrum(graph)
        vectors = spectrum.vectors.float().to(device)
        return inputs.with_matrix((vectors * spectrum.values.float().to(device)) @ vectors.T)

    def logits(self, parameters: Parameters, inputs: Any, noise: Noise | None) -> Tensor:
        """The backbone's logits."""
        return self.defense.backbone.logits(parameters, inputs, noise)


@dataclass(frozen=True, eq=False)
class _RelaxedTSVD:
    """A trained TSVD near a graph with known leading eigenpairs."""

    backbone: Backbone[Any]
    parameters: Parameters
    inputs: GCNInputs
    known: Spectrum
    graph: Resident
    way: Way

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def device(self) -> str:
        """Where it computes."""
        return str(self.graph.weights.device)

    def edges(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """See `EdgeFunction`."""
        return torch.from_numpy(graph.edges).to(self.device), torch.from_numpy(graph.weights).to(self.device)

    def logits(self, edges: Tensor, weights: Tensor) -> Tensor:
        """See `EdgeFunction`."""
        adjacency = WeightedMatrix.adjacency(edges, weights, self.nodes)
        values, vectors = self.known.values.float().to(weights), self.known.vectors.float().to(weights)
        if self.way == "turning":
            product = self.graph.matrix().product
            low = truncated(adjacency, product, values, vectors, tol=_SOLVED, steps=_SOLVER_STEPS)
        else:
            low = LowRank.within(adjacency, vectors)
        inputs = replace(self.inputs, matrix=low.normalized(1.0))
        return self.backbone.logits(self.parameters, inputs, None)[0]
