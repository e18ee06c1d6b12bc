"""Evasion of a known defence by search, in which the gradient proposes and the defence decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from garnet.attacks.adaptive import KnownDefense, Oracle
from garnet.attacks.base import Attack, Task
from garnet.attacks.local_search import LocalSearch
from garnet.attacks.models import Labels
from garnet.attacks.relaxation import Loss
from garnet.graph.graph import Edges
from garnet.parameters import Count, Share
from garnet.purify.relaxed import Way


@dataclass(frozen=True, kw_only=True)
class AdaptiveSearch(Attack):
    """The search of `QuerySearch`, to which the gradient through the whole defence proposes flips.

    A gradient alone is misled where a defence drops an edge altogether or a step is not small; a search alone does not
    know where to look. Here the pair of the largest gradient at a node, of some that are drawn, is one more kind of
    flip among those of `QuerySearch`: it is drawn more often the better it does, and like all others it stays only if
    the defence, when asked, shows the harm.

    Threat model: evasion by one who knows the graph, the defence with all of its parameters and random choices, the
    trained weights, and the true labels of the nodes under attack, unless `labels` says otherwise. On the whole graph,
    or local: only pairs that touch a target are flipped. A budget for each target is spent on all targets at once, each
    having its own.

    Attributes:
        defense: the defence that is known, or its name.
        queries: how often it is asked at most, the first time about the clean graph. That is more than `QuerySearch`
            may: who has the weights can ask a copy.
        starts: first sets of flips, of which the best is where the search begins.
        first_block: share of the flips that is replaced at a time in the beginning.
        last_block: the same in the end.
        way: how gradients pass what comes before the model; see `AdaptiveEvasion`.
        loss: what is made large, of two sets after which equally many nodes are wrong; see `attack_loss`.
        labels: which classes the nodes are to lose, the `true` ones or those that are `predicted` in the clean graph.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["evasion"]] = "evasion"
    asks: ClassVar[bool] = True
    """What the defence answers decides, whatever proposes the flips."""

    defense: KnownDefense = "garnet"
    queries: Count = 500
    starts: Count = 4
    first_block: Share = 0.8
    last_block: Share = 0.05
    way: Way = "still"
    loss: Loss = "tanh-margin"
    labels: Labels = "true"

    def _run(self, task: Task) -> Iterator[Edges]:
        oracle = Oracle.of(task, self.defense, self.loss, self.labels)
        yield from LocalSearch(self, task, oracle, self.way).found()
