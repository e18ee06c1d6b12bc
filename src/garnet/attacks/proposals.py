"""Flips worth trying against a defence that only answers, and the credit that each has in what they do together."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.attacks.adaptive import Oracle
from garnet.attacks.answer import Answer
from garnet.attacks.slopes import Slopes
from garnet.graph.edges import numbers
from garnet.graph.graph import Graph
from garnet.purify.features import unit_rows

_TRIED = 8
"""Nodes that are compared before one of them is joined."""
_NEARBY = 0.25
"""What the neighbour of an end counts in the credit of a flip, beside the end."""
_DRAWS = 4
"""How often a pair is drawn anew that is flipped already."""
_KINDS = ("any", "alike", "falling", "proven", "cut")
_STEEP = "steep"
"""A kind for those who know the defence: the pair with the largest gradient."""


class Proposals:
    """Draws flips, and learns from what they did which kinds of them are worth drawing.

    Attributes:
        tried: (n,) how often flips were aimed at a node.
        worth: (n,) the credit that flips have earned with a node as their other end.
    """

    def __init__(
        self, graph: Graph, oracle: Oracle, generator: np.random.Generator, slopes: Slopes | None = None
    ) -> None:
        self.slopes, self.kinds = slopes, _KINDS if slopes is None else (*_KINDS, _STEEP)
        self.graph, self.generator, self.nodes = graph, generator, oracle.nodes.numpy()
        self.counts = np.diff(graph.adjacency.indptr)
        self.features = unit_rows(sp.csr_array(graph.features)) if graph.num_features else None
        self.tried = np.zeros(graph.num_nodes)
        self.worth = np.zeros(graph.num_nodes)
        self.done, self.good = np.zeros(len(self.kinds)), np.zeros(len(self.kinds))

    def promising(self, count: int, answer: Answer) -> NDArray[np.int64]:
        """(count,) nodes that are still right: with a small lead, few edges and few flips tried, and by chance."""
        right = self.nodes[answer.margins[self.nodes] > 0]
        if not len(right):
            right = self.nodes
        lead = answer.margins[right].clip(1e-3) * np.sqrt((1 + self.counts[right]) * (1 + self.tried[right]))
        chance = -2 * np.log(lead) + self.generator.gumbel(size=len(right))
        order = right[np.argsort(-chance, kind="stable")]
        return np.resize(order, count)

    def numbers(self, owners: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
        """(j,) one for each pair, in either order of its nodes."""
        first, second = torch.from_numpy(np.sort(np.stack([owners, others]), axis=0))
        found: NDArray[np.int64] = numbers(first, second, self.graph.num_nodes).numpy()
        return found

    def of(
        self, owners: NDArray[np.int64], answer: Answer, taken: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The other end of a flip at each of some nodes, -1 where none was found, and the kinds of them.

        Args:
            owners: (j,) nodes.
            answer: what is said before.
            taken: numbers of pairs that are flipped already.
        """
        n, others, kinds = self.graph.num_nodes, np.full(len(owners), -1), np.zeros(len(owners), dtype=np.int64)
        by_class = [np.flatnonzero(answer.said == one) for one in range(int(answer.second.max()) + 1)]
        chances = (self.good + 1) / (self.done + 2)
        steep = None if self.slopes is None else self.slopes.of(owners, answer, np.stack(np.divmod(taken, n)))
        for _ in range(_DRAWS):
            missing = np.flatnonzero(others < 0)
            if not len(missing):
                break
            kinds[missing] = self.generator.choice(len(self.kinds), size=len(missing), p=chances / chances.sum())
            for slot in missing:
                kind = self.kinds[kinds[slot]]
                if steep is not None and kind == _STEEP:
                    others[slot], steep[slot] = steep[slot], -1
                else:
                    others[slot] = self._other(int(owners[slot]), kind, answer, by_class)
            pairs = np.where(others >= 0, self.numbers(owners, others), -1 - np.arange(len(owners)))
            first = np.zeros(len(owners), dtype=bool)
            first[np.unique(pairs, return_index=True)[1]] = True
            others[~first | np.isin(pairs, taken)] = -1
        return others, kinds

    def _other(self, owner: int, kind: str, answer: Answer, by_class: list[NDArray[np.int64]]) -> int:
        """The other end of a flip of some kind at a node; -1 if there is none."""
        start, end = self.graph.adjacency.indptr[owner : owner + 2]
        neighbors = self.graph.adjacency.indices[start:end]
        if kind == "cut":
            alike = neighbors[answer.said[neighbors] == answer.said[owner]]
            return int(self.generator.choice(alike)) if len(alike) else -1
        group = by_class[answer.second[owner]]
        if not len(group):
            group = np.arange(self.graph.num_nodes)
        drawn = group[self.generator.integers(len(group), size=1 if kind == "any" else _TRIED)]
        drawn = drawn[(drawn != owner) & ~np.isin(drawn, neighbors)]
        if not len(drawn):
            return -1
        if kind == "alike" and self.features is not None:
            return int(drawn[np.asarray((self.features[drawn] @ self.features[[owner]].T).todense()).argmax()])
        if kind == "falling":
            # Right itself, with the class of the owner in the second place: one flip may take both.
            lead = np.where(answer.second[drawn] == answer.said[owner], np.abs(answer.margins[drawn]), np.inf)
            return int(drawn[lead.argmin()])
        return int(drawn[self.worth[drawn].argmax()])

    def credit(self, ends: list[NDArray[np.int64]], before: Answer, after: Answer) -> NDArray[np.float64]:
        """(j,) how much of the harm that came between two answers is owed to each of j changes.

        The harm at a node is shared by the changes that have it, or a neighbour of it, at one of their ends.

        Args:
            ends: arrays (j,), each with one node of every change.
            before: what was said before.
            after: what was said then.
        """
        count, n = len(ends[0]), self.graph.num_nodes
        rows = np.tile(np.arange(count), len(ends))
        own = sp.csr_array((np.ones(len(rows)), (rows, np.concatenate(ends))), shape=(count, n))
        own.data[:] = 1
        near = own @ (self.graph.adjacency != 0).astype(np.float64)
        share = own + _NEARBY * near
        claims = np.asarray(share.sum(axis=0)).ravel()
        harm = (after.at_nodes - before.at_nodes) / np.maximum(claims, 1e-12)
        return np.asarray(share @ harm).ravel()

    def learn(
        self,
        owners: NDArray[np.int64],
        others: NDArray[np.int64],
        kinds: NDArray[np.int64],
        credit: NDArray[np.float64],
    ) -> None:
        """Take note of what flips did."""
        np.add.at(self.tried, owners, 1)
        # A steep flip may cut an edge; what its other end is worth then says nothing of joining it.
        joined = ~np.isin(kinds, [self.kinds.index(kind) for kind in self.kinds if kind in ("cut", _STEEP)])
        np.add.at(self.worth, others[joined], credit[joined])
        np.add.at(self.done, kinds, 1)
        np.add.at(self.good, kinds, credit > 0)
