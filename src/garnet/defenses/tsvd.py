"""The low-rank graph of Entezari et al. (WSDM 2020), dense as it is: for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from garnet.backbones import GCN
from garnet.backbones.base import Backbone
from garnet.backbones.gcn import GCNInputs
from garnet.backbones.h2gcn import H2GCNInputs
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph, as_graph
from garnet.parameters import Bytes, Count, Device, require_device, require_parameters, require_seeds
from garnet.progress import Clock, Progress
from garnet.spectral import choose_solver
from garnet.training.loop import Training, require_batches, train
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable


@dataclass(frozen=True, kw_only=True)
class TSVD:
    r"""Trains on :math:`U_r \Lambda_r U_r^T`, the symmetric matrix of rank r nearest to the adjacency.

    Its entries, of both signs, fill n x n numbers, and each product costs as much: this is what GARNET avoids. Degrees
    are the sums of its rows with a loop of weight one; rows whose sum is not positive are left out.

    Attributes:
        rank: singular values kept; None is 50, or half the nodes if fewer.
        backbone: GCN, GPRGNN or H2GCN; for the last, a graph that joins all pairs has no pairs at two hops.
        training: how it is trained.
        most_bytes: a graph whose dense matrix would take more is refused.
        device: where it is trained.
    """

    whole_graph: ClassVar[bool] = True

    rank: Count | None = None
    backbone: Backbone = field(default_factory=GCN)
    training: Training = field(default_factory=Training)
    most_bytes: Bytes = 4 << 30
    device: Device = "cpu"

    def __post_init__(self) -> None:
        require_parameters(self)
        require_batches(self, self.training)

    def fit(self, graph: Graph, *, seed: int = 0) -> Predictor:
        """One trained model."""
        return self.fit_seeds(graph, [seed])[0]

    def fit_seeds(
        self, graph: Graph, seeds: Sequence[int], *, progress: Progress | None = None
    ) -> tuple[Predictor, ...]:
        """A trained model for each seed; the decomposition is made once."""
        graph = as_graph(graph)
        require_trainable(graph)
        require_seeds(seeds)
        require_device(self.device, "TSVD")
        n = graph.num_nodes
        if n < 2:
            raise GraphError(f"TSVD needs at least two nodes, and the graph has {n}.")
        rank = max(1, min(50, n // 2)) if self.rank is None else self.rank
        if rank >= n:
            raise ParameterError(f"The 'rank' parameter of TSVD must be below {n}, the node count. Got {rank} instead.")
        if 4 * n**2 > self.most_bytes:
            raise GraphError(
                f"TSVD forms a dense matrix of {n} x {n} numbers, {4 * n**2 / 1e9:.1f} GB, more than its 'most_bytes' "
                f"of {self.most_bytes / 1e9:.1f} GB; GARNET does not."
            )
        inputs = self.backbone.prepare(graph, self.device)
        if not isinstance(inputs, GCNInputs | H2GCNInputs):
            raise ParameterError(f"TSVD takes GCN, GPRGNN or H2GCN as backbone. Got {self.backbone!r} instead.")
        clock = Clock(progress)
        with clock("decompose"):
            solve = choose_solver(n)
            spectrum = solve(graph.adjacency.astype(float), rank, end="magnitude", seed=0, device=self.device)
            vectors = spectrum.vectors.float().to(self.device)
            dense = (vectors * spectrum.values.float().to(self.device)) @ vectors.T
            if isinstance(inputs, GCNInputs):
                inputs = replace(inputs, matrix=_normalized(dense, loops=1.0))
            else:
                inputs = replace(inputs, near=_normalized(dense, loops=0.0), far=torch.zeros_like(dense))
        predictors = train(
            self.backbone, graph, seeds=seeds, training=self.training, device=self.device, inputs=inputs,
            progress=progress,
        )  # fmt: skip
        # Nothing but this matrix fits its weights, so the model cannot be used on another graph.
        return tuple(replace(one, backbone=None, stages=(*clock.stages, *one.stages)) for one in predictors)


def _normalized(dense: Tensor, loops: float) -> Tensor:
    dense.diagonal().add_(loops)
    degrees = dense.sum(dim=1)
    root = torch.where(degrees > 1e-6, degrees.clamp_min(1e-6).rsqrt(), 0.0)
    return dense.mul_(root[:, None]).mul_(root)
