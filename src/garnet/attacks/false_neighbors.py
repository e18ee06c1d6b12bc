"""Evasion of a purifier that joins near nodes, by pulling nodes to where their neighbours are false."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.adaptive import KnownDefense, Oracle, Reached
from garnet.attacks.answer import Answer
from garnet.attacks.base import Attack, Task, best_so_far, flips
from garnet.attacks.models import Labels, margins
from garnet.attacks.pockets import Pull, Told, pulls_of
from garnet.attacks.relaxation import Loss
from garnet.backbones.base import dense_features
from garnet.errors import ParameterError
from garnet.graph.graph import Edges
from garnet.parameters import Count
from garnet.purify.features import scale

_LOOKED = 4
"""Nodes that are looked at for each flip that is left: those with a small lead and few edges."""
_PATIENCE = 2
"""Pockets that are tried at a node before all that it has is taken back."""


@dataclass(frozen=True, kw_only=True)
class FalseNeighbors(Attack):
    """Joins nodes to pockets of a wrong class, so that the purifier itself finds false neighbours for them.

    A purifier such as GARNET joins nodes that are near each other in an embedding. A node that is joined to several
    nodes of one class, which resemble it and are joined among themselves, is pulled to their place: there its nearest
    neighbours are of that class, and the edges share neighbours and so vouch for each other. For each node that is
    still right and each pocket, the attack estimates where the node ends up (`Joining.moved`), which neighbours it
    has there, and which of the new edges are kept. What promises most for each flip is tried; then the defence is run
    anew, and what did not help is taken back, so that the budget is free for others. What really did most harm counts.

    Against a defence that adds nothing, those pockets are chosen of which most survives; against one that does not read
    the edges, none are.

    Threat model: evasion with knowledge of the graph, the defence with all of its parameters and random choices, the
    trained weights, and the true labels of the nodes under attack, unless `labels` says otherwise. On the whole graph,
    or local: only pairs that touch a target are flipped. A budget for each target is spent on all targets at once, each
    having its own. Edges are added, never cut.

    Attributes:
        defense: the known defence, or its name.
        size: most nodes in a pocket.
        pockets: pockets to consider for each node: half around the nodes of its second-best class that resemble it
            most, half around those that are surest of that class and have few edges.
        rounds: number of rounds; after each the defence is run again.
        loss: the loss to maximise, between two sets of flips after which equally many nodes are wrong; see
            `attack_loss`.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["evasion"]] = "evasion"

    defense: KnownDefense = "garnet"
    size: Count = 3
    pockets: Count = 6
    rounds: Count = 20
    loss: Loss = "tanh-margin"
    labels: Labels = "true"

    def _run(self, task: Task) -> Iterator[Edges]:
        course = _Course(self, task, Oracle.of(task, self.defense, self.loss, self.labels))
        yield from best_so_far(course.go, lambda: course.best)


class _Now(NamedTuple):
    """A graph that was reached, and what the defence says of it in the terms of an attacker."""

    reached: Reached
    answer: Answer


class _Course:
    """What is known in the course of an attack.

    Attributes:
        flips: (2, j) the nodes that are pulled, and to whom.
        best: the flips that did most harm.
        failed: (2, j) flips that were taken back.
    """

    def __init__(self, attack: FalseNeighbors, task: Task, oracle: Oracle) -> None:
        self.attack, self.task, self.oracle = attack, task, oracle
        self.flips = self.best = np.zeros((2, 0), dtype=np.int64)
        self.tried = np.zeros(task.graph.num_nodes, dtype=np.int64)
        self.failed = self.flips

    def go(self) -> None:
        """Pull nodes, see what that did, and take back what did nothing."""
        now = clean = self._asked()
        most = (-1.0, -1.0)
        for number in range(self.attack.rounds):
            if number and self._take_back(now.answer, clean.answer):
                now = self._asked()
            if self._pull(now):
                now = self._asked()
            if now.answer.harm > most and self.flips.shape[1]:
                most, self.best = now.answer.harm, np.sort(self.flips, axis=0)
            self.task.tell(f"{max(most[0], 0):.1%} wrong, round", number + 1, self.attack.rounds)
            # Where nobody can be pulled, another round would not find anybody either.
            if now.answer.harm[0] == 1 or not self.flips.shape[1]:
                break

    def _asked(self) -> _Now:
        """What the defence says after the flips there are."""
        reached = self.oracle.after(np.sort(self.flips, axis=0))
        return _Now(reached, Answer.of(reached))

    def _take_back(self, answer: Answer, clean: Answer) -> bool:
        """Take flips back at nodes that are still right, unless their lead has halved and there is patience left.

        Returns:
            Whether there were some.
        """
        owners = self.flips[0]
        right = answer.margins[owners] > 0
        hopeless = self.tried[owners] % _PATIENCE == 0
        gone = right & (hopeless | (answer.margins[owners] > clean.margins[owners] / 2))
        self.failed = np.concatenate([self.failed, self.flips[:, gone]], axis=1)
        self.flips = self.flips[:, ~gone]
        return bool(gone.any())

    def _pull(self, now: _Now) -> bool:
        """Spend what is left of the budget on pockets that promise most.

        Returns:
            Whether there were some.
        """
        left = self._left()
        nodes = self._looked_at(now.answer, left)
        if not len(nodes):
            return False
        try:
            pulls = pulls_of(self.oracle.relaxed(now.reached.graph), now.reached.graph)
        except ParameterError:
            if self.oracle.reads_edges():
                raise
            return False  # flips change nothing
        owners, pockets = self._pockets(nodes, now, pulls)
        if not len(owners):
            return False
        gains = self._gains(owners, pockets, now.reached, pulls)
        sizes = (pockets >= 0).sum(dim=1)
        total = self.task.budget - self.flips.shape[1]
        new: dict[tuple[int, int], None] = {}
        pulled: set[int] = set()
        for row in (gains / sizes).argsort(descending=True, stable=True).tolist():
            owner, size = int(owners[row]), int(sizes[row])
            if owner in pulled or size > min(left[owner], total - len(new)):
                continue
            pairs = [(owner, other) for other in pockets[row, :size].tolist()]
            if any((other, one) in new for one, other in pairs):
                continue
            new |= dict.fromkeys(pairs)
            pulled.add(owner)
            if len(new) == total:
                break
        self.tried[list(pulled)] += 1
        self.flips = np.concatenate([self.flips, flips(list(new))], axis=1)
        return bool(new)

    def _left(self) -> NDArray[np.int64]:
        """(n,) flips that may still be made at each node."""
        n, each = self.task.graph.num_nodes, self.task.per_target
        if each is None:
            return np.full(n, self.task.budget - self.flips.shape[1])
        return each - np.bincount(self.flips[0], minlength=n)

    def _looked_at(self, answer: Answer, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nodes under attack that are still right, or any of them if none is, by how likely they are to fall."""
        nodes = self.oracle.nodes.numpy()
        right = nodes[(answer.margins[nodes] > 0) & (left[nodes] > 0)]
        nodes = right if len(right) or self.flips.shape[1] else nodes
        degrees = np.diff(self.task.graph.adjacency.indptr)[nodes]
        lead = answer.margins[nodes] * np.sqrt((1 + degrees) * (1 + self.tried[nodes]))
        likely: NDArray[np.int64] = nodes[lead.argsort(kind="stable")]
        return likely[: _LOOKED * (self.task.budget - self.flips.shape[1])]

    def _pockets(self, nodes: NDArray[np.int64], now: _Now, pulls: Sequence[Pull | Told]) -> tuple[Tensor, Tensor]:
        """Owners (q,) and pockets (q, size), -1 for no node, to be compared."""
        reached, answer = now
        points, degrees = _points(reached, pulls), np.diff(reached.graph.adjacency.indptr)
        logits = reached.logits.numpy()
        owners: list[int] = []
        found: list[list[int]] = []
        for owner in nodes.tolist():
            free = np.ones(len(logits), dtype=bool)
            free[[owner, *_neighbors(reached, owner)]] = False
            wanted = free & (answer.said == answer.second[owner])
            wanted = wanted if wanted.any() else free
            seeds = wanted.copy()
            seeds[self.failed[1, self.failed[0] == owner]] = False
            alike = (points @ points[owner]).numpy()
            sure = (logits[:, answer.second[owner]] - logits[:, answer.said[owner]]) / np.sqrt(1 + degrees)
            half = (self.attack.pockets + 1) // 2
            chosen = _largest(np.where(seeds, alike, -np.inf), half)
            seeds[chosen] = False
            chosen += _largest(np.where(seeds, sure, -np.inf), self.attack.pockets - half)
            for seed in chosen:
                around = _neighbors(reached, seed)
                around = around[wanted[around]]
                pocket = [seed, *around[np.argsort(-alike[around], kind="stable")].tolist()][: self.attack.size]
                for size in range(1, len(pocket) + 1):
                    owners.append(owner)
                    found.append(pocket[:size] + [-1] * (self.attack.size - size))
        shape = torch.tensor(found, dtype=torch.int64).reshape(-1, self.attack.size)
        return torch.tensor(owners, dtype=torch.int64), shape

    def _gains(self, owners: Tensor, pockets: Tensor, reached: Reached, pulls: Sequence[Pull | Told]) -> Tensor:
        """(q,) by how much the lead of each node would shrink, less where pockets were tried in vain."""
        logits, n = reached.logits, len(reached.logits)
        after: Any = sum(one.say * one.after(owners, pockets, logits) for one in pulls)
        labels = torch.zeros(n, dtype=torch.int64).index_put((self.oracle.nodes,), self.oracle.labels)[owners]
        gained = margins(logits[owners], labels).tanh() - margins(after, labels).tanh()
        return gained / (1 + torch.from_numpy(self.tried)[owners])


def _points(reached: Reached, pulls: Sequence[Pull | Told]) -> Tensor:
    """(n, d) of length one: those of a purifier that has some, features, or what is said of the nodes."""
    for one in pulls:
        if one.judge is not None:
            return scale(one.judge.embedding.points.cpu().float(), "unit")
    features = reached.graph.features
    if features is None or not features.shape[1]:
        return scale(reached.logits.softmax(dim=1), "unit")
    return scale(torch.from_numpy(dense_features(features)), "unit")


def _neighbors(reached: Reached, node: int) -> NDArray[np.int64]:
    matrix = reached.graph.adjacency
    found: NDArray[np.int64] = matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]
    return found


def _largest(values: NDArray[np.float32], count: int) -> list[int]:
    """Where the largest values are, but those of minus infinity."""
    count = min(count, int(np.isfinite(values).sum()))
    found: list[int] = np.argsort(-values, kind="stable")[:count].tolist()
    return found
