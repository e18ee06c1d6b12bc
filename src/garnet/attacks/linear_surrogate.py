"""A linear GCN whose logits after any flip of one node's edges or words follow in closed form."""

from __future__ import annotations

from collections import defaultdict
from copy import copy, deepcopy
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.attacks.degree_test import DegreeTest
from garnet.attacks.mutable_graph import Floats, MutableGraph, Nodes
from garnet.backbones.base import require_features
from garnet.graph.graph import Graph
from garnet.graph.perturbation import Entries


class Flip(NamedTuple):
    """An edge between two nodes, the smaller first, or a word: node and column."""

    kind: Literal["edge", "word"]
    one: int
    other: int

    @property
    def pair(self) -> tuple[int, int]:
        """The two numbers."""
        return self.one, self.other


class LinearSurrogate:
    r"""The linear GCN on a graph that changes, in double precision.

    With :math:`C = A + I`, its row sums d and :math:`Z = XW`, the logits of a node u are

    .. math:: d_u^{-1/2} \sum_k C_{uk} P_k / d_k, \quad P = C Y, \quad Y_j = d_j^{-1/2} Z_j.

    Attributes:
        graph: the graph as it is now, with loops: C.
        words: features of the clean graph.
    """

    def __init__(self, graph: Graph, weights: Floats) -> None:
        self.graph = MutableGraph(graph.adjacency, loops=True)
        self._weights = weights
        self._scores = np.asarray(require_features(graph, "the attack reads them").astype(np.float64) @ weights)
        self._degrees = self.graph.degrees
        self._scaled = self._scores / np.sqrt(self._degrees)[:, None]
        self._sums = np.asarray(self.graph.matrix @ self._scaled)
        self.words = Words(graph)
        self._flipped_words = defaultdict[int, set[int]](set)

    def copy(self) -> LinearSurrogate:
        """One that can be changed by itself."""
        other = copy(self)
        for name in ("_scores", "_degrees", "_scaled", "_sums"):
            setattr(other, name, getattr(self, name).copy())
        other.graph, other._flipped_words = self.graph.copy(), deepcopy(self._flipped_words)
        return other

    def logits(self, target: int) -> Floats:
        """(classes,) of a node."""
        columns, values = self.graph.row(target)
        total: Floats = (values / self._degrees[columns]) @ self._sums[columns]
        return np.asarray(total / np.sqrt(self._degrees[target]))

    def partners(self, one: int, barred: list[int], test: DegreeTest | None) -> Nodes:
        """Nodes with which a node may flip its edge."""
        columns, counts = self.graph.row(one)[0], self.graph.counts
        change = np.ones(self.graph.n, dtype=np.int64)
        change[columns] = -1
        # Nobody may lose the last edge.
        fine = (counts + change > 0) & (counts[one] + change > 0)
        fine[[one, *barred, *self.graph.flipped(one)]] = False
        others = np.flatnonzero(fine)
        if test is not None:
            others = others[test.allowed(counts[one], counts[others], change[others])]
        return others

    def after_edges(self, target: int, one: int, others: Nodes) -> Floats:
        """(m, classes) logits of a target after the flip of `one` with each of (m,) others."""
        d, y, p = self._degrees, self._scaled, self._sums
        reach, paths = self._seen_from(target)
        between = self._dense(one)[others]
        delta = np.where(between > 0, -between, 1.0)
        # What the flip makes of both ends: degrees, scaled scores, and sums over their neighbours.
        d_one, d_others = d[one] + delta, d[others] + delta
        y_one, y_others = self._scores[one] / _tall(np.sqrt(d_one)), self._scores[others] / _tall(np.sqrt(d_others))
        by_one, by_others = y_one - y[one], y_others - y[others]
        p_one = p[one] + by_one + _tall(between + delta) * y_others - _tall(between) * y[others]
        p_others = p[others] + by_others + _tall(between + delta) * y_one - _tall(between) * y[one]
        # The target sees both ends, and its other neighbours see their scores change.
        total = self.logits(target) * np.sqrt(d[target]) - reach[one] / d[one] * p[one]
        total = total - _tall(reach[others] / d[others]) * p[others]
        total += _tall((reach[one] + delta * (others == target)) / d_one) * p_one
        total += _tall((reach[others] + delta * (one == target)) / d_others) * p_others
        total += _tall(paths[one] - reach[one] / d[one] - reach[others] * between / d[others]) * by_one
        total += _tall(paths[others] - reach[one] * between / d[one] - reach[others] / d[others]) * by_others
        d_target = d[target] + delta * ((others == target) | (one == target))
        return np.asarray(total / _tall(np.sqrt(d_target)))

    def columns(self, node: int, unnoticeable: bool) -> Nodes:
        """Words that a node may gain or lose."""
        fine = self.words.plausible(node).copy() if unnoticeable else np.ones(len(self._weights), dtype=bool)
        fine[list(self._flipped_words[node])] = False
        return np.flatnonzero(fine)

    def after_words(self, target: int, node: int, columns: Nodes) -> Floats:
        """(m, classes) logits of a target after a node gains or loses each of (m,) words."""
        _, paths = self._seen_from(target)
        influence = paths[node] / np.sqrt(self._degrees[target] * self._degrees[node])
        signs = 1 - 2 * self.words.of(node)[columns]
        return np.asarray(self.logits(target) + influence * _tall(signs) * self._weights[columns])

    def make(self, flip: Flip) -> None:
        """Flip it here."""
        one, other = flip.pair
        ends = [one]
        if flip.kind == "edge":
            ends = [one, other]
            self.graph.flip(one, other)
            self._degrees[ends] = self.graph.matrix[ends].sum(axis=1)
        else:
            self._flipped_words[one].add(other)
            self._scores[one] += (1 - 2 * self.words.of(one)[other]) * self._weights[other]
        self._scaled[ends] = self._scores[ends] / _tall(np.sqrt(self._degrees[ends]))
        # An edge that goes has its two ends among these all the same: they are their own neighbours.
        touched = np.unique(np.concatenate([self.graph.row(end)[0] for end in ends]))
        self._sums[touched] = self.graph.matrix[touched] @ self._scaled

    def _seen_from(self, target: int) -> tuple[Floats, Floats]:
        """Rows of C and of C D^-1 C, in full."""
        columns, values = self.graph.row(target)
        paths = np.asarray((values / self._degrees[columns]) @ self.graph.matrix[columns])
        return self._dense(target), paths

    def _dense(self, node: int) -> Floats:
        dense = np.zeros(self.graph.n)
        columns, values = self.graph.row(node)
        dense[columns] = values
        return dense


class Words:
    """Features of zero and one, and which of them go together."""

    def __init__(self, graph: Graph) -> None:
        self._features = require_features(graph, "the attack reads them")
        self._plausible: dict[int, NDArray[np.bool_]] = {}

    @cached_property
    def _matrix(self) -> sp.csr_array:
        return sp.csr_array(self._features, dtype=np.float64)

    def of(self, node: int) -> Floats:
        """The features of a node."""
        row: Floats = self._matrix[[node]].toarray()[0]
        return row

    def entry(self, node: int, column: int) -> Entries:
        """The change of one word."""
        before = self.of(node)[[column]].astype(np.float32)
        return Entries(np.array([[node], [column]]), before, 1 - before)

    def plausible(self, node: int) -> NDArray[np.bool_]:
        """Words that a node has, and those that a random step from one of them leads to often enough."""
        if node not in self._plausible:
            own = self.of(node) > 0
            mine = np.flatnonzero(own)
            together = (self._matrix[:, mine].T @ self._matrix).toarray() > 0
            together[np.arange(len(mine)), mine] = False
            degrees = together.sum(axis=1)
            chance = (degrees > 0) / np.maximum(degrees, 1)
            self._plausible[node] = own | (chance @ together > chance.sum() / 2)
        return self._plausible[node]


def _tall(values: Floats) -> Floats:
    return values[:, None]
