"""Nettack: Zügner, Akbarnejad and Günnemann (KDD 2018)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.attacks.base import Attack, Change, Task, flips
from garnet.attacks.degrees import DegreeTest
from garnet.backbones.base import require_features
from garnet.backbones.linear_gcn import LinearGCN
from garnet.errors import GraphError, ParameterError
from garnet.graph import Graph
from garnet.parameters import is_number, is_whole
from garnet.perturbation import Entries
from garnet.training import Training, train

Floats = NDArray[np.float64]
Nodes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Nettack(Attack):
    r"""Greedy flips, one target after the other, each the one that hurts a linear surrogate most.

    Threat model: knows edges, features, the labels of training nodes and, where the graph has them, of the targets; no
    model of the defender's. It trains a linear GCN, :math:`\hat A^2 X W`, on the clean graph, or takes one as victim,
    and lowers the margin of each target: the logit of its label less the best of the others. Poisoning or evasion,
    targeted. A direct attack flips pairs with the target and words of it; an indirect one leaves the target alone and
    works through some of its neighbours. Training nodes are no targets. No node loses its last edge, and nothing is
    flipped twice.

    Every pair of a target is scored in one go, without a matrix of all pairs: a flip changes the logits by terms that
    the two nodes, the row of :math:`\hat A^2` and their neighbours' sums give in closed form. Words are scored exactly
    too, because the surrogate is linear in them.

    Limits: unnoticed is what the changes for one target are, seen by themselves; those for many targets together may
    show. An attack that goes on has to choose its earlier flips again, and must be given the budget it had.

    Attributes:
        structure: whether to flip edges.
        features: whether to flip words, which are features of zero and one.
        direct: whether target and attacker are the same node.
        influencers: neighbours that an indirect attack works through, those whose best flip hurts most.
        unnoticeable: whether edges have to pass the test of degrees, and new words the test of co-occurrence: a random
            step from a word of the node, among words that occur together in the clean graph, leads to the new one with
            more than half of the probability that it could have.
        cutoff: of the test of degrees.
        sequential: whether flips for one target are made before the next one is attacked, as in the graphs that the
            field uses. If not, each target is attacked in the clean graph, and a flip that two of them want is made,
            and counted, once; that is for judging each by itself, because targets want the same few partners, who say
            little to all of them together.
    """

    scope: ClassVar[Literal["global", "local", "either"]] = "local"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    spares_training: ClassVar[bool] = True

    structure: bool = True
    features: bool = False
    direct: bool = True
    influencers: int = 5
    unnoticeable: bool = True
    cutoff: float = 0.004
    sequential: bool = True

    def _run(self, task: Task) -> Iterator[Change]:
        self._require_valid(task.graph)
        clean = Surrogate(task.graph, self._weights(task))
        state = clean.copy()
        made = set[Flip]()
        earlier = {"edge": iter(task.done.T.tolist()), "word": iter(task.done_entries.places.T.tolist())}
        share, rest = divmod(task.budget, len(task.targets))
        for place, target in enumerate(task.targets.tolist()):
            state = state if self.sequential else clean.copy()
            label = _label(task, clean, target)
            for flip in self._flips(state, target, label, share + (place < rest)):
                if flip in made:
                    continue
                made.add(flip)
                known = next(earlier[flip.kind], None)
                if known is None:
                    yield flips([flip.pair]) if flip.kind == "edge" else clean.words.entry(*flip.pair)
                elif tuple(known) != flip.pair:
                    raise ParameterError(
                        "What is to go on had another budget for each target, or other labels; begin it anew."
                    )

    def _flips(self, state: Surrogate, target: int, label: int, count: int) -> Iterator[Flip]:
        """Flips for one target, each made in the surrogate when it is chosen."""
        test = DegreeTest.of(state.neighbors, cutoff=self.cutoff) if self.unnoticeable else None
        attackers = [target]
        if not self.direct:
            attackers = state.row(target)[0].tolist()
            attackers.remove(target)
            if len(attackers) > self.influencers:
                best = [self._best(state, test, target, label, [one])[0] for one in attackers]
                attackers = [attackers[place] for place in np.argsort(best, kind="stable")[: self.influencers]]
        for _ in range(count):
            _, flip = self._best(state, test, target, label, attackers)
            if flip is None:
                return
            if test is not None and flip.kind == "edge":
                first, second = state.neighbors[list(flip.pair)].tolist()
                test = test.flipped(first, second, -1 if state.weight(*flip.pair) else 1)
            state.make(flip)
            yield flip

    def _best(
        self, state: Surrogate, test: DegreeTest | None, target: int, label: int, attackers: list[int]
    ) -> tuple[float, Flip | None]:
        """The margin that the best flip of the attackers leaves, and that flip; infinity and None if there is none."""
        margin, best = np.inf, None
        for place, one in enumerate(attackers):
            if self.structure:
                barred = attackers[:place] if self.direct else [target, *attackers[:place]]
                others = state.partners(one, barred, test)
                left = _margins(state.after_edges(target, one, others), label)
                if len(left) and left.min() < margin:
                    margin, other = float(left.min()), int(others[left.argmin()])
                    best = Flip("edge", min(one, other), max(one, other))
            if self.features:
                columns = state.columns(one, self.unnoticeable)
                left = _margins(state.after_words(target, one, columns), label)
                if len(left) and left.min() < margin:
                    margin, best = float(left.min()), Flip("word", one, int(columns[left.argmin()]))
        return margin, best

    def _weights(self, task: Task) -> Floats:
        """W, of features times classes."""
        victim = task.victim
        if victim is None:
            task.tell("train the surrogate")
            # To its end: stopped at its best validation accuracy, on Cora after some twenty epochs, it misleads less.
            training = Training(epochs=200, lr=0.01, warmup=199, patience=None)
            victim = train(LinearGCN(), task.graph, seeds=(task.seed,), training=training)[0]
        elif victim.backbone != LinearGCN():
            raise ParameterError(
                "Nettack's closed form needs a linear surrogate of two hops: give a trained LinearGCN as victim, or "
                f"none. Got {victim.backbone!r} instead."
            )
        weights: Floats = victim.on(task.graph).parameters["weight"].double().numpy()
        return weights

    def _require_valid(self, graph: Graph) -> None:
        for name, fine, wanted in (
            ("structure", self.structure or self.features, "True where 'features' is False"),
            ("influencers", is_whole(self.influencers) and self.influencers >= 1, "an integer >= 1"),
            ("cutoff", is_number(self.cutoff) and self.cutoff > 0, "a positive number"),
        ):
            if not fine:
                got = getattr(self, name)
                raise ParameterError(f"The '{name}' parameter of Nettack must be {wanted}. Got {got!r} instead.")
        features = require_features(graph)
        values = features.data if sp.issparse(features) else features
        if self.features and not np.isin(values, (0, 1)).all():
            raise GraphError("Nettack flips features of zero and one, and the graph has others; leave 'features' out.")


class Flip(NamedTuple):
    """An edge between two nodes, the smaller first, or a word: node and column."""

    kind: Literal["edge", "word"]
    one: int
    other: int

    @property
    def pair(self) -> tuple[int, int]:
        """The two numbers."""
        return self.one, self.other


class Surrogate:
    r"""The linear GCN on a graph that changes, in double precision.

    With :math:`C = A + I`, its row sums d and :math:`Z = XW`, the logits of a node u are

    .. math:: d_u^{-1/2} \sum_k C_{uk} P_k / d_k, \quad P = C Y, \quad Y_j = d_j^{-1/2} Z_j.

    Attributes:
        neighbors: (n,) how many neighbours each node has.
        words: features of the clean graph.
    """

    def __init__(self, graph: Graph, weights: Floats) -> None:
        n = graph.num_nodes
        self._looped = sp.csr_array(graph.adjacency.astype(np.float64) + sp.eye_array(n, format="csr"))
        self._weights = weights
        self._scores = np.asarray(require_features(graph).astype(np.float64) @ weights)
        self._degrees = np.asarray(self._looped.sum(axis=1))
        self._scaled = self._scores / np.sqrt(self._degrees)[:, None]
        self._sums = np.asarray(self._looped @ self._scaled)
        self.neighbors = np.diff(graph.adjacency.indptr).astype(np.int64)
        self.words = Words(graph)
        self._made: dict[str, defaultdict[int, set[int]]] = {"edge": defaultdict(set), "word": defaultdict(set)}

    def copy(self) -> Surrogate:
        """One that can be changed by itself."""
        other = object.__new__(Surrogate)
        other.__dict__.update(self.__dict__)
        for name in ("_scores", "_degrees", "_scaled", "_sums", "neighbors"):
            setattr(other, name, getattr(self, name).copy())
        other._made = deepcopy(self._made)
        return other

    def row(self, node: int) -> tuple[Nodes, Floats]:
        """Columns and entries of a row of C, the loop among them."""
        inside = slice(self._looped.indptr[node], self._looped.indptr[node + 1])
        return self._looped.indices[inside].astype(np.int64), self._looped.data[inside]

    def weight(self, one: int, other: int) -> float:
        """Of the edge between two nodes, zero if there is none."""
        columns, values = self.row(one)
        return float(values[columns == other].sum())

    def logits(self, target: int) -> Floats:
        """(classes,) of a node."""
        columns, values = self.row(target)
        total: Floats = (values / self._degrees[columns]) @ self._sums[columns]
        return np.asarray(total / np.sqrt(self._degrees[target]))

    def partners(self, one: int, barred: list[int], test: DegreeTest | None) -> Nodes:
        """Nodes with which a node may flip its edge."""
        columns, _ = self.row(one)
        change = np.ones(len(self.neighbors), dtype=np.int64)
        change[columns] = -1
        # Nobody may lose the last edge.
        fine = (self.neighbors + change > 0) & (self.neighbors[one] + change > 0)
        fine[[one, *barred, *self._made["edge"][one]]] = False
        others = np.flatnonzero(fine)
        if test is not None:
            others = others[test.allowed(self.neighbors[one], self.neighbors[others], change[others])]
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
        fine[list(self._made["word"][node])] = False
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
        self._made[flip.kind][one].add(other)
        ends = [one]
        if flip.kind == "edge":
            self._made["edge"][other].add(one)
            ends, n = [one, other], len(self.neighbors)
            weight = self.weight(one, other)
            change = np.repeat(-weight if weight else 1.0, 2)
            self.neighbors[ends] += np.sign(change).astype(np.int64)
            self._looped = sp.csr_array(self._looped + sp.csr_array((change, (ends, ends[::-1])), shape=(n, n)))
            self._degrees[ends] = self._looped[ends].sum(axis=1)
        else:
            self._scores[one] += (1 - 2 * self.words.of(one)[other]) * self._weights[other]
        self._scaled[ends] = self._scores[ends] / _tall(np.sqrt(self._degrees[ends]))
        # An edge that goes has its two ends among these all the same: they are their own neighbours.
        touched = np.unique(np.concatenate([self.row(end)[0] for end in ends]))
        self._sums[touched] = self._looped[touched] @ self._scaled

    def _seen_from(self, target: int) -> tuple[Floats, Floats]:
        """Rows of C and of C D^-1 C, in full."""
        columns, values = self.row(target)
        paths = np.asarray((values / self._degrees[columns]) @ self._looped[columns])
        return self._dense(target), paths

    def _dense(self, node: int) -> Floats:
        dense = np.zeros(len(self.neighbors))
        columns, values = self.row(node)
        dense[columns] = values
        return dense


class Words:
    """Features of zero and one, and which of them go together."""

    def __init__(self, graph: Graph) -> None:
        self._features = require_features(graph)
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


def _label(task: Task, surrogate: Surrogate, target: int) -> int:
    """What a target is, or, where the graph does not say, what the surrogate takes it for."""
    logits, labels = surrogate.logits(target), task.graph.labels
    if labels is not None and 0 <= labels[target] < len(logits):
        return int(labels[target])
    return int(logits.argmax())


def _margins(logits: Floats, label: int) -> Floats:
    """(m,) by how much the logit of the label leads."""
    others = np.delete(logits, label, axis=1)
    return np.asarray(logits[:, label] - others.max(axis=1, initial=-np.inf))


def _tall(values: Floats) -> Floats:
    return values[:, None]
