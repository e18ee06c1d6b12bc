"""Evasion of a defence by queries alone."""

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

    As in the Square Attack (Andriushchenko et al., ECCV 2020), a block of flips is replaced at a time, a smaller one as
    the search goes on, and improvements are kept. But an answer has the logits of all nodes, and distant flips hardly
    interfere. Each replaced flip is credited with the harm near its ends; those that did harm stay, the others are
    undone, and the defence is queried again. Of the sets in these queries, the most harmful one is kept.

    Flips join a node still classified correctly to one of its second-best class: any, the most similar, one about to
    fall itself, or one that has done well elsewhere; or they cut an edge between nodes of one class. Kinds of flips
    that do well are drawn more often. Nodes that are nearly wrong and have few edges come first.

    Threat model: evasion by one who sees the graph with its features, and the logits of all nodes for any graph, but
    knows neither defence nor weights; and who knows the true labels of the nodes under attack, unless `labels` says
    otherwise. On the whole graph, or local: only pairs that touch a target are flipped. A budget for each target is
    spent on all targets at once, each having its own.

    Attributes:
        defense: the defence to query, or its name.
        queries: most queries, the first one on the clean graph; with only one, flips are made without further queries.
        starts: initial sets of flips; the search starts from the best.
        first_block: share of the flips replaced at a time in the beginning.
        last_block: the same at the end.
        loss: the loss to maximise, between two sets after which equally many nodes are wrong; see `attack_loss`.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["evasion"]] = "evasion"
    black_box: ClassVar[bool] = True
    """It asks the defence, and does not look into it."""
    asks: ClassVar[bool] = True
    """The defence's answers decide, whatever proposes the flips."""

    defense: KnownDefense = "garnet"

    def _run(self, task: Task) -> Iterator[Edges]:
        yield from LocalSearch(self, task, Oracle.of(task, self.defense, self.loss, self.labels)).found()
