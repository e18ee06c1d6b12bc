"""The simplified gradient-based attack, Li et al. (TKDE 2021): targets in graphs of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from garnet.attacks.base import Attack, Task, flips
from garnet.attacks.models import Labels, fitted
from garnet.attacks.mutable_graph import Floats, MutableGraph, Nodes
from garnet.backbones.base import require_features
from garnet.backbones.linear_gcn import LinearGCN
from garnet.errors import ParameterError
from garnet.graph.graph import Edges, Graph, Split
from garnet.parameters import Count


@dataclass(frozen=True, kw_only=True)
class SGA(Attack):
    r"""Flips edges of one target after the other, looking only at their surroundings.

    The surrogate is linear, :math:`Z = \hat A^2 X W`, and each flip moves a target towards the best wrong class. It
    considers the target's own edges, to drop, and potential nodes, to join: those of the wrong class with the largest
    gradient, found once for every two classes. The inner sums of :math:`\hat A (\hat A X W)` are stored for all nodes
    and updated around each flip; the logits of the target after any one flip are then exact, not just to first order.
    The time of a flip depends on the edges within two hops of its target, however large the graph is.

    Threat model: knows the graph, the features and the labels of the training nodes. Of a victim it uses nothing but
    the classes it sees in the clean graph, from which the surrogate then learns. Poisoning or evasion, aimed at
    targets, direct: every flip touches its target, whose last edge stays. All flips go into one graph. A budget that
    is not for each target is shared evenly.

    Attributes:
        potential: number of nodes to join that are considered.
        labels: the classes that targets should lose: their `true` ones, or those `predicted` on the clean graph.
    """

    scope: ClassVar[Literal["local"]] = "local"
    needs: ClassVar[tuple[str, ...]] = ("features",)

    potential: Count = 1000
    labels: Labels = "true"

    def _run(self, task: Task) -> Iterator[Edges]:
        scene = _Scene(task.graph, _hidden(task), self.potential)
        done, count = iter(task.done.T.tolist()), len(task.targets)
        for index, target in enumerate(task.targets.tolist()):
            share = task.budget * (index + 1) // count - task.budget * index // count
            right = int(task.labels[target]) if self.labels == "true" else int(scene.classes[target])
            if right < 0:
                raise ParameterError(f"Target {target} has no label; attack what a model says (labels='predicted').")
            for _ in range(min(share, len(scene.degrees) - 1 - len(scene.graph.flipped(target)))):
                earlier = next(done, None)
                if earlier is not None:
                    scene.flip(*earlier)
                    continue
                other = scene.best(target, right)
                scene.flip(target, other)
                yield flips([(target, other)])


class _Scene:
    r"""A graph that is flipped here and there, as a linear model of two hops sees it.

    Attributes:
        graph: the graph as it is now, without loops.
        hidden: (n, classes), H = XW.
        degrees: (n,) with the loop of weight one.
        sums: (n, classes), :math:`S = (A + I) D^{-1/2} H`, so that :math:`Z = D^{-1/2} (A + I) D^{-1} S`.
        classes: (n,) that the model sees in the clean graph.
    """

    def __init__(self, graph: Graph, hidden: Floats, potential: int) -> None:
        self.hidden, self.degrees = hidden, graph.degrees + 1
        self.graph, self._size = MutableGraph(graph.adjacency, loops=False), potential
        scaled = hidden / np.sqrt(self.degrees)[:, None]
        self.sums = graph.adjacency @ scaled + scaled
        inner = self.sums / self.degrees[:, None]
        self.classes = (graph.adjacency @ inner + inner).argmax(axis=1)
        self._unseen = np.setdiff1d(np.arange(hidden.shape[1]), self.classes)
        # The gradient in a new edge, for whichever target; of the clean graph, so that it does not change on the way.
        self._gradient = inner.astype(np.float32)
        self._potential: dict[tuple[int, int], Nodes] = {}

    def flip(self, one: int, other: int) -> None:
        """Flip a pair, and mend the sums around it."""
        self._add(one, -1)
        self._add(other, -1)
        self.degrees[[one, other]] += self.graph.flip(one, other)
        self._add(one, 1)
        self._add(other, 1)

    def logits(self, target: int) -> Floats:
        """(classes,) of the target."""
        neighbors, weights = self.graph.row(target)
        inner = (weights / self.degrees[neighbors]) @ self.sums[neighbors] + self.sums[target] / self.degrees[target]
        found: Floats = inner / np.sqrt(self.degrees[target])
        return found

    def best(self, target: int, right: int) -> int:
        """The other end of the flip that leads most from the right class to the best wrong one."""
        logits = self.logits(target)
        logits[[right, *self._unseen]] = -np.inf
        wrong = int(logits.argmax())
        near, taken = self.graph.row(target)[0], [*self.graph.flipped(target), target]
        dropped = np.setdiff1d(near, taken)
        others = np.setdiff1d(self._worthwhile(right, wrong), [*near, *taken])
        others = np.union1d(others, dropped) if len(near) > 1 else others
        # Where that is nobody, anybody else, and the last edge at the very end.
        others = others if len(others) else np.setdiff1d(np.arange(len(self.degrees)), [*near, *taken])
        others = others if len(others) else dropped
        return int(others[self.leads(target, others, right, wrong).argmax()])

    def leads(self, target: int, others: Nodes, right: int, wrong: int) -> Floats:
        """By how much the wrong class leads at the target, after a flip with each of the others alone."""
        neighbors, weights = self.graph.row(target)
        h, h_own = (self.hidden[nodes, wrong] - self.hidden[nodes, right] for nodes in (others, target))
        s, s_own, s_near = (self.sums[nodes, wrong] - self.sums[nodes, right] for nodes in (others, target, neighbors))
        d, d_own, d_near = self.degrees[others], self.degrees[target], self.degrees[neighbors]

        place = np.minimum(np.searchsorted(neighbors, others), max(len(neighbors) - 1, 0))
        joined = neighbors[place] == others if len(neighbors) else np.zeros(len(others), dtype=bool)
        old = np.where(joined, weights[place], 0.0) if len(neighbors) else np.zeros(len(others))
        new = np.where(joined, 0.0, 1.0)
        root, root_own = (d + new - old) ** -0.5, (d_own + new - old) ** -0.5
        shift, shift_own = root - d**-0.5, root_own - d_own**-0.5

        # Through the target's other neighbours, whose sums see the new degrees of target and flipped node.
        through = (weights * s_near / d_near).sum() - old * s / d
        through += h_own * shift_own * ((weights**2 / d_near).sum() - old**2 / d)
        through += h * shift * self._paths(neighbors, weights / d_near, others)
        # Through the loop of the target, and through the flipped edge.
        s_own = s_own + h_own * shift_own + new * h * root - old * h * d**-0.5
        s = s + h * shift + new * h_own * root_own - old * h_own * d_own**-0.5
        lead: Floats = root_own * (s_own * root_own**2 + through + new * s * root**2)
        return lead

    def _add(self, node: int, sign: int) -> None:
        """Add, or take away, what a node gives to the sums of its neighbours and its own."""
        neighbors, weights = self.graph.row(node)
        given = sign * self.hidden[node] / np.sqrt(self.degrees[node])
        self.sums[neighbors] += weights[:, None] * given
        self.sums[node] += given

    def _paths(self, neighbors: Nodes, factors: Floats, ends: Nodes) -> Floats:
        """Over the edges from neighbours to each of the ends (which ascend), the sum of weight times factor."""
        total = np.zeros(len(ends))
        for neighbor, factor in zip(neighbors.tolist(), factors.tolist(), strict=True):
            found, weights = self.graph.row(neighbor)
            place = np.minimum(np.searchsorted(ends, found), len(ends) - 1)
            hit = ends[place] == found
            np.add.at(total, place[hit], factor * weights[hit])
        return total

    def _worthwhile(self, right: int, wrong: int) -> Nodes:
        """The nodes of the wrong class whose edge to a target of the right class has the largest gradient."""
        if (right, wrong) not in self._potential:
            nodes = np.flatnonzero(self.classes == wrong)
            gradient = self._gradient[nodes, wrong] - self._gradient[nodes, right]
            self._potential[right, wrong] = nodes[np.argsort(-gradient, kind="stable")[: self._size]]
        return self._potential[right, wrong]


def _hidden(task: Task) -> Floats:
    """(n, classes) what the surrogate makes of the features, before it looks at any edge."""
    classes = 0 if task.graph.labels is None else int(task.graph.labels.max()) + 1
    if task.victim is not None:
        seen, n = task.victim.predictions(), task.graph.num_nodes
        if len(seen) != n:
            raise ParameterError(f"The victim was made for a graph of {len(seen)} nodes. Got one of {n}.")
        none = np.zeros(0, dtype=np.int64)
        task = replace(task, graph=replace(task.graph, labels=seen, split=Split(np.arange(n), none, none)))
    weight = fitted(task, LinearGCN()).parameters["weight"].numpy().astype(np.float64)
    hidden: Floats = np.asarray(require_features(task.graph, "the attack reads them") @ weight)
    # A victim may know classes that it never sees.
    return np.pad(hidden, ((0, 0), (0, max(0, classes - hidden.shape[1]))))
