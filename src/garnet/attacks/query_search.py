"""Evasion of a defence by asking it, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from garnet.attacks.adaptive import KnownDefense, Oracle
from garnet.attacks.base import Attack, Task
from garnet.attacks.local_search import LocalSearch, Plan
from garnet.graph.graph import Edges


@dataclass(frozen=True, kw_only=True)
class QuerySearch(Plan, Attack):
    """Random local search over sets of flips, by queries alone: no gradient that a defence could mask.

    As in the Square Attack (Andriushchenko et al., ECCV 2020), a block of the flips is replaced by others at a time,
    a smaller one the longer the search has lasted, and what is better stays. But an answer has the logits of all nodes,
    and distant flips hardly interfere. Each replaced flip is credited with the harm near its ends; those that did harm
    stay, the others are undone, and the defence is asked again. Of the sets it was asked about, the one that does most
    harm counts.

    Flips join a node that is still right to one of the class that comes second there: any, the most alike, one that is
    about to fall itself, or one that has done well elsewhere; or they cut an edge between nodes of a class. Kinds that
    do well are drawn more often. Nodes that are nearly wrong and have few edges come first.

    Threat model: evasion by one who sees the graph with its features, and the logits of all nodes for any graph, but
    knows neither defence nor weights; and who knows the true labels of the nodes under attack, unless `labels` says
    otherwise. On the whole graph, or local: only pairs that touch a target are flipped. A budget for each target is
    spent on all targets at once, each having its own.

    Attributes:
        defense: the defence that is asked, or its name.
        queries: how often at most, the first time about the clean graph; with one alone, flips are made unasked.
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
    asks: ClassVar[bool] = True
    """What the defence answers decides, whatever proposes the flips."""

    defense: KnownDefense = "garnet"

    def _run(self, task: Task) -> Iterator[Edges]:
        yield from LocalSearch(self, task, Oracle.of(task, self.defense, self.loss, self.labels)).found()
