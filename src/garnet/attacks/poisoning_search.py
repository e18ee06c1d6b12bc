"""Poisoning of a known defence by search, which continues against the defence retrained on the flips so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from garnet.attacks.adaptive import KnownDefense, Oracle
from garnet.attacks.base import Attack, Task, best_so_far
from garnet.attacks.local_search import LocalSearch, Plan
from garnet.graph.graph import Edges
from garnet.parameters import Count


@dataclass(frozen=True, kw_only=True)
class PoisoningSearch(Plan, Attack):
    """The search of `QuerySearch` against models that are trained on the attacked graph.

    Flips that fool a model of the clean graph are less effective on one trained on them. So the search pauses now and
    then, the defence is trained on the graph with the most harmful flips, and the search continues against the new
    model. Of the sets of flips that were trained on, the most harmful one is kept.

    Threat model: poisoning with knowledge of the graph, the defence, the seed of its training, and the true labels of
    the nodes under attack, unless `labels` says otherwise. On the whole graph, or local: only pairs that touch a target
    are flipped. A budget for each target is spent on all targets at once, each having its own.

    Attributes:
        defense: the defence to train and query, or its name.
        queries: total number of queries to its models.
        trainings: how often it is retrained on the best flips so far, unless these have not changed.
        starts, first_block, last_block: as in `QuerySearch`.
        loss, labels: as in `QuerySearch`.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["poisoning"]] = "poisoning"
    asks: ClassVar[bool] = True
    """The defence's answers decide, whatever proposes the flips."""

    defense: KnownDefense = "garnet"
    queries: Count = 500
    trainings: Count = 10

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        least = self.starts + 2 * self.trainings
        yield "queries", self.queries >= least, f"at least {least}, for the starts and two a training"

    def _run(self, task: Task) -> Iterator[Edges]:
        poison = _Poison(self, task)
        yield from best_so_far(poison.go, lambda: poison.best)


class _Poison:
    """What is known in the course of an attack."""

    def __init__(self, attack: PoisoningSearch, task: Task) -> None:
        self.attack, self.task = attack, task
        oracle = Oracle.of(task, attack.defense, attack.loss, attack.labels)
        # The last question is for the model that is trained last.
        self.search = LocalSearch(attack, task, oracle, spare=1)
        self._trained: Edges | None = None

    @property
    def best(self) -> Edges:
        """(2, j) the flips that do most harm to what is trained on them; until there are some, to the clean model."""
        return self.search.best.flips if self._trained is None else self._trained

    def go(self) -> None:
        """Search and train in turn; flips that were trained on last would give the same model again."""
        attack, search, most = self.attack, self.search, (-1.0, -1.0)
        last: Edges | None = None
        for number in range(1, attack.trainings + 1):
            # One question is left for the model that is trained then.
            search.until(attack.queries * number // attack.trainings - 1)
            flips = search.best.flips
            if last is not None and np.array_equal(flips, last):
                search.face_again()
            else:
                search.face(search.oracle.trained_on(flips, self.task.seed))
                last = flips
            if search.best.answer.harm > most:
                most, self._trained = search.best.answer.harm, flips
            self.task.tell(f"{most[0]:.1%} wrong, training", number, attack.trainings)
