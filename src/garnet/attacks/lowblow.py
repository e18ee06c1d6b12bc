"""LowBlow, after Entezari et al. (WSDM 2020): an attack below the belt of low-rank defences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from garnet.attacks.base import Attack, Task
from garnet.attacks.greedy import GreedyFlips
from garnet.attacks.meta_gradient import Aim, Course, Descent, aim_of
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.pair_scores import ScoreBlock, rows_at_once
from garnet.backbones import LinearGCN
from garnet.errors import ParameterError
from garnet.graph.graph import Edges
from garnet.linalg.sparse import SparseMatrix
from garnet.parameters import Count, Device
from garnet.spectral import choose_solver

# Directions that are carried along beside the rank, and rounds of iteration after each flip: a flip moves them little.
_SPARE, _ROUNDS = 16, 2


@dataclass(frozen=True, kw_only=True)
class LowBlow(Attack):
    r"""Metattack against a victim that trusts the leading singular components: its flips change these.

    Threat model: as Metattack (poisoning, whole graph, labels of the training nodes known), and the attacker knows that
    the defender keeps the r leading components of the adjacency, :math:`A_r = U \Lambda U^\top`. The surrogate is
    trained on :math:`A_r`, and the gradient is that by A with the directions U held fixed,
    :math:`U U^\top (\partial L / \partial A_r) U U^\top`. Degrees may change freely. For small graphs: features become
    a dense matrix.

    Attributes:
        rank: number of components that the defender is assumed to keep.
        variant: as in Metattack.
        steps: training steps of the surrogate.
        device: where gradients are computed.
    """

    needs: ClassVar[tuple[str, ...]] = ("features", "labels", "split")

    rank: Count = 50
    variant: Literal["self", "train", "both"] = "self"
    steps: Count = 100
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        n = task.graph.num_nodes
        if self.rank >= n:
            raise ParameterError(
                f"The 'rank' parameter of LowBlow must be below {n}, the node count. Got {self.rank} instead."
            )
        aim = aim_of(task, LinearGCN(), self.variant, self.device)
        graph, wide = MutableGraph(task.graph.adjacency, loops=False), min(self.rank + _SPARE, n - 1)
        spectrum = choose_solver(n)(
            task.graph.adjacency.astype(np.float64), wide, end="magnitude", seed=task.seed, device=self.device
        )
        leading = LeadingDirections(graph, spectrum.vectors.to(self.device, torch.float32))

        def gains(generator: torch.Generator) -> LowRankGains:
            low = LowRankConvolution(leading.vectors[:, : self.rank], leading.values[: self.rank])
            return low_rank_gains(low, aim, Descent(steps=self.steps), generator)

        yield from GreedyFlips(graph, after_flip=leading.follow).run(task, gains, self.device)


class LeadingDirections:
    """The leading eigenvectors of an adjacency, which follow it as it is flipped.

    Attributes:
        vectors: (n, r), of the strongest first.
        values: (r,) their eigenvalues.

    Args:
        graph: without loops.
        vectors: (n, r) that span about the same directions.
    """

    def __init__(self, graph: MutableGraph, vectors: Tensor) -> None:
        self._graph, self.vectors = graph, vectors
        self.follow(rounds=0)

    def follow(self, rounds: int = _ROUNDS) -> None:
        """Turn the directions of a similar graph into those of the graph as it is now."""
        matrix = SparseMatrix(self._graph.matrix, str(self.vectors.device), symmetric=True)
        directions = self.vectors
        for _ in range(rounds):
            directions = torch.linalg.qr(matrix @ (matrix @ directions)).Q
        values, turn = torch.linalg.eigh(directions.T @ (matrix @ directions))
        order = values.abs().argsort(descending=True)
        self.vectors, self.values = directions @ turn[:, order], values[order]


class LowRankConvolution:
    r"""The convolution of a low-rank graph, :math:`D^{-1/2} (U \Lambda U^\top + I) D^{-1/2}`.

    Attributes:
        vectors: (n, r), U.
        root: (n,) diagonal of D^(-1/2); zero where a degree is not positive.
    """

    def __init__(self, vectors: Tensor, values: Tensor) -> None:
        self.vectors, self._values = vectors, values
        degrees = vectors @ (values * vectors.sum(dim=0)) + 1
        # Below one half, the low-rank graph has taken more from a node than its loop gives; training would diverge.
        self.root = torch.where(degrees > 0.5, degrees.clamp_min(0.5).rsqrt(), 0.0)

    def __matmul__(self, block: Tensor) -> Tensor:
        scaled = self.root[:, None] * block
        return self.root[:, None] * (self.vectors @ (self._values[:, None] * (self.vectors.T @ scaled)) + scaled)


@dataclass(frozen=True, eq=False)
class LowRankGains:
    """Scores of all pairs as a product of tall factors."""

    left: Tensor
    right: Tensor

    def scores(self, graph: MutableGraph) -> Iterator[ScoreBlock]:
        """Block after block of rows."""
        step = rows_at_once(graph.n, str(self.left.device))
        for first in range(0, graph.n, step):
            yield ScoreBlock(np.arange(graph.n), first, self.left[first : first + step] @ self.right[first:].T)


def low_rank_gains(low: LowRankConvolution, aim: Aim, descent: Descent, generator: torch.Generator) -> LowRankGains:
    """What a flip gains through the leading components, the directions of which stay where they are."""
    seen = (low @ (low @ aim.dense))[aim.train]
    slope, drawn, rows = Course(low, seen, aim, descent, generator).retraced()
    taught = torch.zeros(len(slope), len(aim.train), device=slope.device)
    taught[aim.train, torch.arange(len(aim.train), device=slope.device)] = 1
    left = torch.cat([taught, low @ taught, slope, low @ slope], dim=1)
    right = torch.cat([low @ rows.T, rows.T, low @ drawn, drawn], dim=1)
    sums = (left * (low @ right) + right * (low @ left)).sum(dim=1)
    by_degree = -0.5 * low.root.square() * sums
    vectors = low.vectors
    core = (vectors.T @ (low.root[:, None] * left)) @ (vectors.T @ (low.root[:, None] * right)).T
    core = core + torch.outer(vectors.T @ by_degree, vectors.sum(dim=0))
    return LowRankGains(vectors @ (core + core.T), vectors)
