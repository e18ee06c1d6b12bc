"""The best flip of all pairs, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.base import Task, flips
from garnet.attacks.degree_test import DegreeTest
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.pair_scores import DIVERGED, ScoreBlock
from garnet.errors import AttackError
from garnet.graph.graph import Edges


class Scores(Protocol):
    """What every pair of nodes is worth."""

    def scores(self, graph: MutableGraph) -> Iterator[ScoreBlock]:
        """Block after block of rows."""
        ...


class GreedyFlips:
    """A graph that is changed flip by flip, each of them the best at its time.

    Attributes:
        graph: as it is now.
        flipped: what was flipped, in this order.

    Args:
        graph: to be changed.
        unnoticeable: whether flips have to pass the test of degrees.
        after_flip: called after each.
    """

    def __init__(
        self, graph: MutableGraph, *, unnoticeable: bool = False, after_flip: Callable[[], None] | None = None
    ) -> None:
        self.graph, self._after_flip = graph, after_flip
        self.flipped: list[tuple[int, int]] = []
        self._tested = DegreeTest.of(graph.counts) if unnoticeable else None

    def run(self, task: Task, gain: Callable[[torch.Generator], Scores], device: str) -> Iterator[Edges]:
        """Repeat the flips that are done, then make the best one again and again, until none is allowed."""
        for one, other in task.done.T.tolist():
            self.flip(one, other)
        while True:
            # A generator for each flip, so that an attack that goes on later draws the same numbers.
            seed = int(np.random.default_rng((task.seed, len(self.flipped))).integers(2**62))
            best = self.best(gain(torch.Generator(device).manual_seed(seed)))
            if best is None:
                return
            self.flip(*best)
            yield flips([best])

    def flip(self, one: int, other: int) -> None:
        """Flip a pair for good."""
        if self._tested is not None:
            first, second = self.graph.counts[[one, other]].tolist()
            self._tested = self._tested.flipped(first, second, -1 if self.graph.weight(one, other) else 1)
        self.graph.flip(one, other)
        self.flipped.append((one, other))
        if self._after_flip is not None:
            self._after_flip()

    def best(self, gain: Scores) -> tuple[int, int] | None:
        """The allowed pair whose flip gains most; None if there is none.

        No pair is flipped twice, and no node loses its last edge.

        Raises:
            AttackError: the scores are not numbers.
        """
        edges, weights = self._edges()
        last = (self.graph.counts[edges] == 1).any(axis=1)
        banned = np.concatenate([edges[last], np.array(self.flipped, dtype=np.int64).reshape(-1, 2)])
        found, most = None, -math.inf
        for block in gain.scores(self.graph):
            scores = block.entries
            kept, rows, columns = places(edges, block)
            scores[rows, columns] *= -torch.from_numpy(weights[kept]).to(scores)
            _, rows, columns = places(banned, block)
            scores[rows, columns] = -math.inf
            numbers = torch.arange(len(scores), device=scores.device)
            scores[:, : len(scores)].masked_fill_(numbers <= numbers[:, None], -math.inf)
            value, pair = self._largest(block)
            if math.isnan(value):
                raise AttackError(DIVERGED)
            if value > most:
                found, most = pair, value
            # A flip that drops an edge is worth as much as the edge weighs.
            if most >= block.rest * max(1.0, float(weights.max(initial=1.0))):
                break
        return found

    def _edges(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(m, 2) edges of the graph as it is now, and their weights."""
        rows, columns, weights = self.graph.entries
        upper = rows < columns
        return np.stack([rows[upper], columns[upper]], axis=1), weights[upper]

    def _largest(self, block: ScoreBlock) -> tuple[float, tuple[int, int]]:
        """The largest score that is allowed, and its pair."""
        value, one, other = _maximum(block)
        if self._tested is None or value == -math.inf:
            return value, (one, other)
        counts, change = self.graph.counts, -1 if self.graph.weight(one, other) else 1
        if not self._tested.allowed(counts[one], counts[other], change):
            # Only now are all pairs tested, by a table of their degrees.
            self._ban_noticeable(block, self._tested)
            value, one, other = _maximum(block)
        return value, (one, other)

    def _ban_noticeable(self, block: ScoreBlock, tested: DegreeTest) -> None:
        scores = block.entries
        known, kind = np.unique(self.graph.counts[block.nodes], return_inverse=True)
        there = torch.from_numpy(kind[block.first :]).to(scores.device)
        here = there[: len(scores)]
        adding, dropping = (
            torch.from_numpy(tested.allowed(known[:, None], known, change)).to(scores.device) for change in (1, -1)
        )
        _, rows, columns = places(self._edges()[0], block)
        kept = torch.where(dropping[here[rows], there[columns]], scores[rows, columns], -math.inf)
        scores.masked_fill_(~adding[here][:, there], -math.inf)
        scores[rows, columns] = kept


def _maximum(block: ScoreBlock) -> tuple[float, int, int]:
    """The largest score and its pair of nodes, the smaller one first."""
    # By way of the rows: torch is much faster at a maximum than at its place.
    row = int(block.entries.amax(dim=1).argmax())
    column = int(block.entries[row].argmax())
    one, other = sorted(block.nodes[block.first :][[row, column]].tolist())
    return float(block.entries[row, column]), one, other


def places(pairs: NDArray[np.int64], block: ScoreBlock) -> tuple[NDArray[np.bool_], Tensor, Tensor]:
    """Which pairs are in a block, and in which of its rows and columns."""
    place = np.empty_like(block.nodes)
    place[block.nodes] = np.arange(len(place))
    ends = np.sort(place[pairs], axis=1) - block.first
    inside = (ends[:, 0] >= 0) & (ends[:, 0] < len(block.entries))
    rows, columns = torch.from_numpy(ends[inside]).to(block.entries.device).T
    return inside, rows, columns
