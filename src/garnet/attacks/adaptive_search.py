"""Evasion of a known defence by search, in which the gradient proposes and the defence decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from garnet.attacks.adaptive import KnownDefense, Oracle
from garnet.attacks.base import Attack, Task
from garnet.attacks.local_search import LocalSearch, Plan
from garnet.graph.graph import Edges
from garnet.parameters import Count
from garnet.purify.relaxed import Way


@dataclass(frozen=True, kw_only=True)
class AdaptiveSearch(Plan, Attack):
    """The search of `QuerySearch`, to which the gradient through the whole defence proposes flips.

    A gradient alone is misled where a defence drops an edge altogether or a step is not small; a search alone does not
    know where to look. Here the pair of the largest gradient at a node, of some that are drawn, is one more kind of
    flip among those of `QuerySearch`: it is drawn more often the better it does, and like all others it stays only if
    the defence, when asked, shows the harm. Where no gradient reaches the edges, the other kinds are all there is.

    Threat model: evasion with knowledge of the graph, the defence with all of its parameters and random choices, the
    trained weights, and the true labels of the nodes under attack, unless `labels` says otherwise. On the whole graph,
    or local: only pairs that touch a target are flipped. A budget for each target is spent on all targets at once, each
    having its own.

    Attributes:
        defense: the known defence, or its name.
        queries: most queries, the first one on the clean graph. More than for `QuerySearch`: an attacker with the
            weights can query a copy.
        starts, first_block, last_block: as in `QuerySearch`.
        way: how gradients pass through what precedes the model; see `AdaptiveEvasion`.
        loss, labels: as in `QuerySearch`.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["evasion"]] = "evasion"
    asks: ClassVar[bool] = True
    """The defence's answers decide, whatever proposes the flips."""

    defense: KnownDefense = "garnet"
    queries: Count = 500
    way: Way = "still"

    def _run(self, task: Task) -> Iterator[Edges]:
        oracle = Oracle.of(task, self.defense, self.loss, self.labels)
        yield from LocalSearch(self, task, oracle, self.way).found()
