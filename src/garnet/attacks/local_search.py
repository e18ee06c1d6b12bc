"""Random local search over sets of flips, by what a defence answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from garnet.attacks.adaptive import Oracle
from garnet.attacks.answer import Answer
from garnet.attacks.base import Task, best_so_far
from garnet.attacks.models import Labels
from garnet.attacks.proposals import Proposals
from garnet.attacks.relaxation import Loss
from garnet.attacks.slopes import Slopes
from garnet.errors import ParameterError
from garnet.graph.graph import Edges
from garnet.parameters import Count, Share
from garnet.purify.relaxed import Way

_RESTLESS = 0.3
"""How much chance has a say in which flips are replaced, beside the harm that is done where they are."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to search: what the attacks that do have in common.

    Attributes:
        queries: how often the defence is asked at most, the first time about the clean graph.
        starts: first sets of flips, of which the best is where the search begins.
        first_block: share of the flips that is replaced at a time in the beginning.
        last_block: the same in the end.
        loss: the loss to maximise, between two sets after which equally many nodes are wrong; see `attack_loss`.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
    """

    queries: Count = 200
    starts: Count = 4
    first_block: Share = 0.8
    last_block: Share = 0.05
    loss: Loss = "tanh-margin"
    labels: Labels = "true"


class _State(NamedTuple):
    """Flips that the defence was asked about: nodes they are aimed at, their other ends, and the answer."""

    owners: NDArray[np.int64]
    others: NDArray[np.int64]
    answer: Answer

    @property
    def flips(self) -> Edges:
        """(2, j) the pairs."""
        return _flips(self.owners, self.others)

    def replaced(
        self, slots: NDArray[np.int64], owners: NDArray[np.int64], others: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Both ends of the flips when those in some places are others."""
        first, second = self.owners.copy(), self.others.copy()
        first[slots], second[slots] = owners, others
        return first, second


class LocalSearch:
    """What is known in the course of a search.

    Attributes:
        asked: how often the defence was.
        best: the set of flips that did most harm.
    """

    def __init__(self, plan: Plan, task: Task, oracle: Oracle, way: Way | None = None, *, spare: int = 0) -> None:
        """Ask about the clean graph.

        Args:
            plan: how to search.
            task: what is attacked.
            oracle: the defence.
            way: how gradients pass the defence, where they may be followed and there are some; see `Slopes`.
            spare: questions of the plan that the search may not ask, as they are needed after it.
        """
        self.plan, self.task, self.oracle, self.asked = plan, task, oracle, 0
        self._most = plan.queries - spare
        self.generator = np.random.default_rng(task.seed)
        slopes = None
        if way is not None:
            # Where no gradient reaches the edges, there is none that could guide, but the defence may be asked.
            with suppress(ParameterError):
                slopes = Slopes(oracle, way, self.generator)
        self.proposals = Proposals(task.graph, oracle, self.generator, slopes)
        nobody = np.zeros(0, dtype=np.int64)
        self.best = self._asked(nobody, nobody)
        self._now: _State | None = None

    def found(self) -> Iterator[Edges]:
        """Search, and yield the flips that did most harm; also where it is stopped."""
        return best_so_far(lambda: self.until(self.plan.queries), lambda: self.best.flips)

    def until(self, asked: int) -> None:
        """Search until all is wrong, or so many questions have been asked."""
        now = self._begun() if self._now is None else self._now
        while self.asked < asked and self.best.answer.harm[0] < 1 and len(now.owners):
            now = self._improved(now)
        self._now = now

    def face(self, oracle: Oracle) -> None:
        """Go on against another model, which is asked what the flips that did most harm do to it."""
        self.oracle = oracle
        self.best = self._now = self._asked(self.best.owners, self.best.others)

    def face_again(self) -> None:
        """Go on against the same model from the flips that did most harm, which counts as asked though it is known."""
        self.asked += 1
        self._now = self.best

    def _begun(self) -> _State:
        """The best of some sets of flips to start from."""
        now, clean = self.best, self.best.answer
        for number in range(self.plan.starts):
            if number and not self._may_ask:
                break
            owners = self._owners(clean, self.task.budget)
            others, kinds = self.proposals.of(owners, clean, np.zeros(0, dtype=np.int64))
            found = others >= 0
            if not self._may_ask:
                # The clean graph was all that might be asked about: what these flips do, nobody knows.
                self.best = _State(owners[found], others[found], clean)
                break
            state = self._asked(owners[found], others[found])
            earned = self.proposals.credit([state.owners, state.others], clean, state.answer)
            self.proposals.learn(state.owners, state.others, kinds[found], earned)
            # Flips that help nobody are a beginning, too.
            if not number or state.answer.harm > now.answer.harm:
                now = state
            self._note(state, anew=not number)
        return now

    @property
    def _may_ask(self) -> bool:
        return self.asked < self._most

    def _owners(self, answer: Answer, count: int) -> NDArray[np.int64]:
        """At whom flips are aimed: at each target as often as it may, or at those who are likely to fall."""
        if self.task.per_target is not None:
            return np.repeat(self.task.targets, self.task.per_target)
        return self.proposals.promising(count, answer)

    def _asked(self, owners: NDArray[np.int64], others: NDArray[np.int64]) -> _State:
        self.asked += 1
        return _State(owners, others, Answer.of(self.oracle.after(_flips(owners, others))))

    def _note(self, state: _State, *, anew: bool = False) -> None:
        if anew or state.answer.harm > self.best.answer.harm:
            self.best = state
        self.task.tell(f"{self.best.answer.harm[0]:.1%} wrong, query", self.asked, self.plan.queries)

    def _improved(self, now: _State) -> _State:
        """The state after a block of flips is replaced, as far as that does harm."""
        plan, proposals, passed = self.plan, self.proposals, self.asked / self.plan.queries
        share = plan.first_block ** (1 - passed) * plan.last_block**passed
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


def _flips(owners: NDArray[np.int64], others: NDArray[np.int64]) -> Edges:
    return np.sort(np.stack([owners, others]), axis=0)
