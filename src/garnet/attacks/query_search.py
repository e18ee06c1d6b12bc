"""Evasion of a defence by asking it, and by nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from garnet.attacks.adaptive import KnownDefense, Oracle
from garnet.attacks.base import Attack, Task
from garnet.attacks.models import Labels
from garnet.attacks.proposals import Answer, Proposals
from garnet.attacks.relaxation import Loss
from garnet.graph.graph import Edges
from garnet.parameters import Count, Share
from garnet.progress import Stop

_RESTLESS = 0.3
"""How much chance has a say in which flips are replaced, beside the harm that is done where they are."""


@dataclass(frozen=True, kw_only=True)
class QuerySearch(Attack):
    """Random local search over sets of flips, by queries alone: no gradient that a defence could mask.

    As in the Square Attack (Andriushchenko et al., ECCV 2020), a block of the flips is replaced by others at a time,
    a smaller one the longer the search has lasted, and what is better stays. But an answer has the logits of all nodes,
    and flips far from each other hardly meddle: so every replaced flip has the credit of the harm done at its ends and
    their neighbours, those that did good there stay, the others are taken back, and the defence is asked of the rest
    once more. Of the sets it was asked about, the one that does most harm counts.

    Flips join a node that is still right to one of the class that comes second there: any, the most alike, one that is
    about to fall itself, or one that has done well elsewhere; or they cut an edge between nodes of a class. Kinds that
    do well are drawn more often. Nodes that are nearly wrong and have few edges come first.

    Threat model: evasion by one who sees the graph with its features, and the logits of all nodes for any graph, but
    knows neither defence nor weights; and who knows the true labels of the nodes under attack, unless `labels` says
    otherwise. On the whole graph, or local: only pairs that touch a target are flipped. A budget for each target is
    spent on all targets at once, each having its own.

    Attributes:
        defense: the defence that is asked, or its name.
        queries: how often at most, the first time about the clean graph.
        starts: first sets of flips, of which the best is where the search begins.
        first_block: share of the flips that is replaced at a time in the beginning.
        last_block: the same in the end.
        loss: what is made large, of two sets after which equally many nodes are wrong; see `attack_loss`.
        labels: which classes the nodes are to lose, the `true` ones or those that are `predicted` in the clean graph.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["evasion"]] = "evasion"
    black_box: ClassVar[bool] = True
    """It asks the defence, and does not look into it."""

    defense: KnownDefense = "garnet"
    queries: Count = 200
    starts: Count = 4
    first_block: Share = 0.8
    last_block: Share = 0.05
    loss: Loss = "tanh-margin"
    labels: Labels = "true"

    def _run(self, task: Task) -> Iterator[Edges]:
        search = _Search(self, task, Oracle.of(task, self.defense, self.loss, self.labels))
        try:
            search.go()
        except Stop:
            yield search.best.flips
            raise
        yield search.best.flips


class _State(NamedTuple):
    """Flips that the defence was asked about: nodes they are aimed at, their other ends, the pairs, and the answer."""

    owners: NDArray[np.int64]
    others: NDArray[np.int64]
    flips: Edges
    answer: Answer

    def replaced(
        self, slots: NDArray[np.int64], owners: NDArray[np.int64], others: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Both ends of the flips when those in some places are others."""
        first, second = self.owners.copy(), self.others.copy()
        first[slots], second[slots] = owners, others
        return first, second


class _Search:
    """What is known in the course of a search.

    Attributes:
        asked: how often the defence was.
        best: the set of flips that did most harm.
    """

    def __init__(self, attack: QuerySearch, task: Task, oracle: Oracle) -> None:
        self.attack, self.task, self.oracle, self.asked = attack, task, oracle, 0
        self.generator = np.random.default_rng(task.seed)
        self.proposals = Proposals(task.graph, oracle, self.generator)
        nobody = np.zeros(0, dtype=np.int64)
        self.best = self._asked(nobody, nobody)

    def go(self) -> None:
        """Search until all is wrong, or nothing may be asked any more."""
        now, clean = self.best, self.best.answer
        for number in range(self.attack.starts):
            if number and not self._may_ask:
                break
            owners = self._owners(clean, self.task.budget)
            others, kinds = self.proposals.of(owners, clean, np.zeros(0, dtype=np.int64))
            found = others >= 0
            state = self._asked(owners[found], others[found])
            earned = self.proposals.credit([state.owners, state.others], clean, state.answer)
            self.proposals.learn(state.owners, state.others, kinds[found], earned)
            # Flips that help nobody are a beginning, too.
            if not number or state.answer.harm > now.answer.harm:
                now = state
            self._note(state, anew=not number)
        while self._may_ask and self.best.answer.harm[0] < 1 and len(now.owners):
            now = self._improved(now)

    @property
    def _may_ask(self) -> bool:
        return self.asked < self.attack.queries

    def _owners(self, answer: Answer, count: int) -> NDArray[np.int64]:
        """At whom flips are aimed: at each target as often as it may, or at those who are likely to fall."""
        if self.task.per_target is not None:
            return np.repeat(self.task.targets, self.task.per_target)
        return self.proposals.promising(count, answer)

    def _asked(self, owners: NDArray[np.int64], others: NDArray[np.int64]) -> _State:
        flips: Edges = np.sort(np.stack([owners, others]), axis=0)
        self.asked += 1
        return _State(owners, others, flips, Answer.of(self.oracle.after(flips)))

    def _note(self, state: _State, *, anew: bool = False) -> None:
        if anew or state.answer.harm > self.best.answer.harm:
            self.best = state
        self.task.tell(f"{self.best.answer.harm[0]:.1%} wrong, query", self.asked, self.attack.queries)

    def _improved(self, now: _State) -> _State:
        """The state after a block of flips is replaced, as far as that does harm."""
        attack, proposals, passed = self.attack, self.proposals, self.asked / self.attack.queries
        share = attack.first_block ** (1 - passed) * attack.last_block**passed
        noise = self.generator.gumbel(size=len(now.owners))
        order = (now.answer.at_nodes[now.owners] + _RESTLESS * noise).argsort(kind="stable")
        slots = order[: math.ceil(share * len(now.owners)) or 1]
        own = now.owners[slots]
        if self.task.per_target is None:
            own = proposals.promising(len(slots), now.answer)
        others, kinds = proposals.of(own, now.answer, proposals.numbers(now.owners, now.others))
        found = others >= 0
        slots, own, others, kinds = slots[found], own[found], others[found], kinds[found]
        if not len(slots):
            self.asked += 1
            return now
        whole = self._asked(*now.replaced(slots, own, others))
        earned = proposals.credit([now.owners[slots], now.others[slots], own, others], now.answer, whole.answer)
        proposals.learn(own, others, kinds, earned)
        self._note(whole)
        states, good = [now, whole], earned > 0
        if good.any() and not good.all() and self._may_ask:
            states.append(self._asked(*now.replaced(slots[good], own[good], others[good])))
            self._note(states[-1])
        return max(states, key=lambda state: float(state.answer.at_nodes.sum()))
