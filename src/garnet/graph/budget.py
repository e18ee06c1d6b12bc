"""How much an attack may change."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from garnet.errors import BudgetError, brief
from garnet.graph.graph import Graph
from garnet.parameters import is_number, is_whole

_TEXT = re.compile(
    r"\s*(?P<number>\d{1,999}(\.\d{0,999})?|\.\d{1,999})\s*(?P<unit>%|/\s*target|edges?|entr(y|ies)|)\s*", re.ASCII
)

_WANTED = {
    "edges": "a number of edges >= 1, and below 2^63",
    "entries": "a number of entries >= 1, and below 2^63",
    "fraction": "a positive share, such as 0.2",
    "per_target": "a number of changes for each target >= 1, and below 2^63",
}


@dataclass(frozen=True)
class Budget:
    """How much an attack may change: `Budget.edges(100)`, `Budget.fraction(0.2)` or `Budget.per_target(5)`.

    Attributes:
        kind: what is counted.
        amount: how many, or what share.
    """

    kind: Literal["edges", "entries", "fraction", "per_target"]
    amount: float

    def __post_init__(self) -> None:
        if not issubclass(type(self.kind), str) or self.kind not in _WANTED:
            raise BudgetError(f"A budget is of {', '.join(_WANTED)}. Got {brief(self.kind)} instead.")
        counts = self.kind != "fraction"
        fine = is_whole(self.amount) and 1 <= self.amount < 2**63 if counts else is_number(self.amount)
        if not fine or not 0 < self.amount < math.inf:
            raise BudgetError(f"A budget must be {_WANTED[self.kind]}. Got {brief(self.amount)} instead.")
        object.__setattr__(self, "amount", int(self.amount) if counts else float(self.amount))

    @classmethod
    def edges(cls, count: int) -> Budget:
        """This many edge flips."""
        return cls("edges", count)

    @classmethod
    def entries(cls, count: int) -> Budget:
        """This many changed feature entries."""
        return cls("entries", count)

    @classmethod
    def fraction(cls, share: float) -> Budget:
        """This share of the graph's edges; for an attack on features, of the non-zero entries."""
        return cls("fraction", share)

    @classmethod
    def per_target(cls, count: int) -> Budget:
        """This many changes for each target."""
        return cls("per_target", count)

    @classmethod
    def parse(cls, text: str, what: Literal["edges", "entries"] = "edges") -> Budget:
        """A budget in words: `20%`, `100 edges`, `50 entries`, `5/target`, or `100`, counted in `what`.

        Example:
            >>> Budget.parse("20%") == Budget.fraction(0.2)
            True
        """
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise BudgetError(f"A budget is written as 20%, 100, 50 entries or 5/target. Got {brief(text)} instead.")
        # A decimal, because 7 / 100 is not always the float written as 7 %.
        number, unit = Decimal(found["number"]), found["unit"]
        if unit == "%":
            return cls.fraction(float(number.scaleb(-2)))
        count = int(number) if number == number.to_integral_value() else float(number)
        if unit.endswith("target"):
            return cls("per_target", count)
        entries = unit.startswith("entr") or (not unit and what == "entries")
        return cls("entries" if entries else "edges", count)

    def __str__(self) -> str:
        if self.kind == "fraction":
            return f"{Decimal(repr(self.amount)).scaleb(2):f}%"
        return f"{self.amount}/target" if self.kind == "per_target" else f"{self.amount} {self.kind}"

    def changes(self, graph: Graph, targets: int, what: Literal["edges", "entries"]) -> int:
        """How many changes that is, for a graph and a number of targets.

        Raises:
            BudgetError: it is zero, exceeds what there is, or is of another kind.
        """
        n, features = graph.num_nodes, graph.features
        if what == "edges":
            whole, most, things = graph.num_edges, n * (n - 1) // 2, "pairs of nodes"
        elif features is None:
            whole, most, things = 0, 0, "entries of features"
        else:
            whole, most, things = int((features != 0).sum()), math.prod(features.shape), "entries of features"
        if self.kind not in (what, "fraction", "per_target"):
            raise BudgetError(f"The attack changes {what}, and the budget is {self}; give it another.")
        if self.kind == "per_target" and not targets:
            raise BudgetError(f"A budget of {self} needs targets, and there are none.")
        wanted = self.amount * {"fraction": whole, "per_target": targets}.get(self.kind, 1)
        # A billionth more, because 29 % of 100 edges comes out a little below 29.
        if wanted + 1e-9 < 1:
            raise BudgetError(f"A budget of {self} allows no change of a graph with {whole} {what}; give a larger one.")
        if wanted + 1e-9 >= most + 1:
            raise BudgetError(f"A budget of {self} is {wanted:.15g} changes, but there are only {most} {things}.")
        return math.floor(wanted + 1e-9)
