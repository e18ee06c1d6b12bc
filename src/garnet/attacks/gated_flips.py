"""The best flips of all pairs where a defence is between the graph and the model: what it would drop gains nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.greedy import Scores, places
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.pair_scores import DIVERGED
from garnet.errors import AttackError
from garnet.graph.edges import numbers
from garnet.graph.graph import Graph
from garnet.purify.relaxed import Relaxed

_EVERY, _SPARE = 101, 32
"""One in so many scores is looked at to guess which are large; and so many more than needed are taken for large."""

Pairs = NDArray[np.int64]
"""(q, 2) pairs of nodes, the smaller one first."""


class Gate(NamedTuple):
    """A view of a graph, what is read there, and what every pair would gain if it were read.

    Attributes:
        view: of the defence.
        read: the graph that it gives.
        gain: what an edge of weight one between two nodes of that graph gains.
    """

    view: Relaxed
    read: MutableGraph
    gain: Scores


def read_by(view: Relaxed, graph: Graph, device: str) -> MutableGraph:
    """What a view gives of a graph, with loops."""
    edges, weights = view(torch.from_numpy(graph.edges).to(device), torch.from_numpy(graph.weights).to(device))
    there = weights > 0
    (first, second), values = edges[:, there].cpu().numpy(), weights[there].detach().cpu().numpy()
    half = sp.coo_array((values, (first, second)), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    whole = sp.csr_array(half + half.T)
    whole.sort_indices()
    return MutableGraph(whole, loops=True)


@dataclass(frozen=True, eq=False)
class GatedFlips:
    """Flips of a graph by what they gain in the end.

    A flip that joins two nodes gains as much as the defence would make of the new edge; one that parts them, as much as
    was left of the old one. All edges may be dropped; of the other pairs, only the `candidates` that would gain most if
    the defence did nothing are asked about.

    Attributes:
        graph: as it is now.
        gates: what is between it and the models.
        candidates: pairs that are no edges and are looked at, as many of each gate.
        taken: (j, 2) pairs that may not be flipped.
        device: where the views compute.
    """

    graph: Graph
    gates: Sequence[Gate]
    candidates: int
    taken: Pairs
    device: str

    def best(self, count: int) -> list[tuple[int, int]]:
        """At most so many flips, the best first; no node loses its last edge.

        Flips that gain the same, as all do that are dropped, come in the order of what they would gain otherwise.

        Raises:
            AttackError: the gains are not numbers.
        """
        own = self.graph.edges.T
        pairs = np.concatenate([own, self._others()])
        gained, hoped = self._gains(pairs, len(own))
        if np.isnan(gained).any():
            raise AttackError(DIVERGED)
        n, degrees = self.graph.num_nodes, np.diff(self.graph.adjacency.indptr)
        closed = np.isin(_keys(pairs, n), _keys(self.taken, n))
        chosen: list[tuple[int, int]] = []
        for place in np.lexsort((-hoped, -gained)):
            if len(chosen) == count:
                break
            ends = pairs[place]
            if closed[place] or (place < len(own) and (degrees[ends] == 1).any()):
                continue
            degrees[ends] += -1 if place < len(own) else 1
            chosen.append((int(ends[0]), int(ends[1])))
        return chosen

    def _gains(self, pairs: Pairs, own: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(q,) what flips gain, and what they would gain without a defence; of the pairs, the first ones are edges."""
        weights = torch.ones(len(pairs), device=self.device)
        weights[:own] = torch.from_numpy(self.graph.weights).to(weights)
        edges = torch.from_numpy(pairs.T.copy()).to(self.device)
        sign = np.where(np.arange(len(pairs)) < own, -1.0, 1.0)
        gained, hoped = np.zeros(len(pairs)), np.zeros(len(pairs))
        for view, read, gain in self.gates:
            arrives = (view(edges, weights)[1] - view(edges, torch.zeros_like(weights))[1])[: len(pairs)]
            scores = sign * _scores(gain, read, pairs)
            gained += scores * arrives.detach().double().cpu().numpy()
            hoped += scores * weights.double().cpu().numpy()
        return gained, hoped

    def _others(self) -> Pairs:
        """Pairs that are no edges, and would gain most for one of the gates."""
        n = self.graph.num_nodes
        closed = np.concatenate([self.graph.edges.T, self.taken])
        each = -(-self.candidates // len(self.gates))
        found = [_largest(gain, read, closed, each) for _, read, gain in self.gates]
        keys: NDArray[np.int64] = np.unique(_keys(np.concatenate(found), n))
        return np.stack(np.divmod(keys, n), axis=1)


def _keys(pairs: Pairs, n: int) -> NDArray[np.int64]:
    first, second = torch.from_numpy(pairs).T
    found: NDArray[np.int64] = numbers(first, second, n).numpy()
    return found


def _scores(gain: Scores, graph: MutableGraph, pairs: Pairs) -> NDArray[np.float64]:
    """(q,) the scores of some pairs."""
    found = np.zeros(len(pairs))
    for block in gain.scores(graph):
        inside, rows, columns = places(pairs, block)
        found[inside] = block.entries[rows, columns].double().cpu().numpy()
    return found


def _largest(gain: Scores, graph: MutableGraph, closed: Pairs, count: int) -> Pairs:
    """The pairs of the largest scores, but for those that are closed."""
    values, keys = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    for block in gain.scores(graph):
        scores = block.entries
        _, rows, columns = places(closed, block)
        scores[rows, columns] = -math.inf
        behind = torch.arange(len(scores), device=scores.device)
        scores[:, : len(scores)].masked_fill_(behind <= behind[:, None], -math.inf)
        if scores.isnan().any():
            raise AttackError(DIVERGED)
        some, rows, columns = _top(scores, count)
        ends = torch.from_numpy(block.nodes[block.first :]).to(scores.device)
        first, second = ends[rows], ends[columns]
        found = numbers(first.minimum(second), first.maximum(second), graph.n)
        values, keys = torch.cat([values.to(some), some]), torch.cat([keys.to(found), found])
        values, order = values.topk(min(count, len(values)))
        keys = keys[order]
    return np.stack(np.divmod(keys.cpu().numpy(), graph.n), axis=1)


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The largest scores, at most so many and none of minus infinity, with their rows and columns."""
    flat = scores.flatten()
    # What is surely too small is left out first, by a sample: to put all in order would take longer than to make them.
    sample, rank = flat[::_EVERY], 2 * count // _EVERY + _SPARE
    least = float(sample.topk(rank).values[-1]) if rank < len(sample) else -math.inf
    large = (flat > least).nonzero()[:, 0]
    if len(large) < count and least > -math.inf:
        large = (flat > -math.inf).nonzero()[:, 0]
    values, order = flat[large].topk(min(count, len(large)))
    return values, large[order] // scores.shape[1], large[order] % scores.shape[1]
