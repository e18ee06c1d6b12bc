"""Which pairs at a node the gradient through a defence would flip."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.attacks.adaptive import Oracle, changed
from garnet.attacks.answer import Answer
from garnet.attacks.relaxation import Relaxation, pair_numbers
from garnet.graph.graph import Edges
from garnet.purify.relaxed import Way

_SECOND, _ANY, _OWN = 24, 8, 8
"""Nodes of the second class, any nodes, and neighbours that are compared at each node."""
_EVERY = 8
"""How often gradients are taken before the defence is made differentiable anew."""


class Slopes:
    """The gradient of the loss in pairs at some nodes, near the graph that a search has reached.

    Attributes:
        oracle: the defence.
        way: how gradients pass what comes before its model.
    """

    def __init__(self, oracle: Oracle, way: Way, generator: np.random.Generator) -> None:
        """Make the defence differentiable near the clean graph.

        Raises:
            ParameterError: no gradient reaches the edges.
        """
        self.oracle, self.way, self._generator = oracle, way, generator
        self._taken, self._near = 0, oracle.relaxation(oracle.graph, way)

    def of(self, owners: NDArray[np.int64], answer: Answer, flips: Edges) -> NDArray[np.int64]:
        """(j,) the other ends of the pairs of largest gradient at some nodes, -1 where none would do harm.

        A node that is there twice has its second best pair, too.

        Args:
            owners: (j,) nodes.
            answer: what is said before.
            flips: (2, t) that were made before, the smaller node first.
        """
        nodes, slots = np.unique(owners, return_inverse=True)
        others = self._drawn(nodes, answer)
        slopes = self._gradient(nodes, others, flips)
        order = np.argsort(-slopes, axis=1, kind="stable")
        # Where a node stands among the slots that are its own.
        by_node = np.argsort(slots, kind="stable")
        rank = np.empty(len(slots), dtype=np.int64)
        rank[by_node] = np.arange(len(slots)) - np.searchsorted(slots[by_node], slots[by_node])
        place = order[slots, np.minimum(rank, order.shape[1] - 1)]
        useful = (slopes[slots, place] > 0) & (rank < order.shape[1])
        return np.where(useful, others[slots, place], -1)

    def _drawn(self, nodes: NDArray[np.int64], answer: Answer) -> NDArray[np.int64]:
        """(u, c) nodes that each of some nodes is compared with; itself if there are no more."""
        graph, n = self.oracle.graph, self.oracle.graph.num_nodes
        by_class = np.argsort(answer.said, kind="stable")
        starts = np.searchsorted(answer.said[by_class], np.arange(int(max(answer.second.max(), answer.said.max())) + 2))
        wanted, begins = answer.second[nodes], graph.adjacency.indptr.astype(np.int64)
        second = self._some(by_class, starts[wanted], starts[wanted + 1], nodes, _SECOND)
        anyone = self._generator.integers(n, size=(len(nodes), _ANY))
        own = self._some(graph.adjacency.indices, begins[nodes], begins[nodes + 1], nodes, _OWN)
        drawn = np.sort(np.concatenate([second, anyone, own], axis=1), axis=1)
        drawn[:, 1:][drawn[:, 1:] == drawn[:, :-1]] = -1
        return np.where(drawn < 0, nodes[:, None], drawn)

    def _some(
        self,
        pool: NDArray[np.integer],
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        nodes: NDArray[np.int64],
        count: int,
    ) -> NDArray[np.int64]:
        """(u, count) of a pool, for each node between two of its places; the node itself where there are none."""
        chance, none = self._generator.random((len(nodes), count)), (high <= low)[:, None]
        place = low[:, None] + np.floor(chance * (high - low)[:, None]).astype(np.int64)
        # A place beyond the pool is that of a node that has none.
        return np.where(none, nodes[:, None], np.append(pool, -1)[np.where(none, len(pool), place)])

    def _gradient(self, nodes: NDArray[np.int64], others: NDArray[np.int64], flips: Edges) -> NDArray[np.float64]:
        """(u, c) of the pairs; minus infinity for those that are none, or are flipped already."""
        n = self.oracle.graph.num_nodes
        ends = np.stack([np.broadcast_to(nodes[:, None], others.shape), others]).reshape(2, -1)
        pairs = pair_numbers(torch.from_numpy(np.sort(ends, axis=0)), n)
        made = pair_numbers(torch.from_numpy(flips), n)
        fit = torch.from_numpy(ends[0] != ends[1]) & ~torch.isin(pairs, made)
        distinct, place = torch.unique(pairs[fit], return_inverse=True)
        problem = self._problem(flips)
        device = problem.weights.device
        p = torch.cat([torch.ones(len(made)), torch.zeros(len(distinct))]).to(device)
        slopes = problem.gradient(torch.cat([made, distinct]).to(device), p)[len(made) :].cpu()
        found = torch.full((len(pairs),), -torch.inf, dtype=torch.float64)
        found[fit] = slopes[place].double()
        whole: NDArray[np.float64] = found.numpy().reshape(others.shape)
        return whole

    def _problem(self, flips: Edges) -> Relaxation:
        """The defence as a function of flips, made differentiable near a graph that was reached not long ago."""
        if self._taken and not self._taken % _EVERY:
            self._near = self.oracle.relaxation(changed(self.oracle.graph, flips), self.way)
        self._taken += 1
        return self._near
