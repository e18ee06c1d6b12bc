"""The low-rank graph of Entezari et al. (WSDM 2020), dense as it is: for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from garnet.backbones import GCN
from garnet.backbones.base import Backbone, Dense
from garnet.defenses.base import Defense, require_dense
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph
from garnet.parameters import Bytes, Count, Device
from garnet.progress import Clock, Progress
from garnet.spectral import choose_solver
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor


@dataclass(frozen=True, kw_only=True)
class TSVD(Defense):
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
    gives_model: ClassVar[bool] = False

    rank: Count | None = None
    backbone: Backbone[Any] = field(default_factory=GCN)
    training: Training = field(default_factory=Training)
    most_bytes: Bytes = 4 << 30
    device: Device = "cpu"

    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        n = graph.num_nodes
        if n < 2:
            raise GraphError(f"TSVD needs at least two nodes, and the graph has {n}.")
        rank = max(1, min(50, n // 2)) if self.rank is None else self.rank
        if rank >= n:
            raise ParameterError(f"The 'rank' parameter of TSVD must be below {n}, the node count. Got {rank} instead.")
        require_dense(self, n, self.most_bytes)
        inputs = self.backbone.prepare(graph, self.device)
        if not isinstance(inputs, Dense):
            raise ParameterError(f"TSVD takes GCN, GPRGNN or H2GCN as backbone. Got {self.backbone!r} instead.")
        clock = Clock(progress)
        with clock("decompose"):
            solve = choose_solver(n)
            spectrum = solve(graph.adjacency.astype(float), rank, end="magnitude", seed=0, device=self.device)
            vectors = spectrum.vectors.float().to(self.device)
            inputs = inputs.with_matrix((vectors * spectrum.values.float().to(self.device)) @ vectors.T)
        predictors = train(
            self.backbone, graph, seeds=seeds, training=self.training, device=self.device, inputs=inputs,
            progress=progress,
        )  # fmt: skip
        # Nothing but this matrix fits its weights, so the model cannot be used on another graph.
        return tuple(replace(one, backbone=None, stages=(*clock.stages, *one.stages)) for one in predictors)
