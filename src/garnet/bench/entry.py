"""One number of a table, and one row of them."""

from __future__ import annotations

from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Entry:
    """One number of a table.

    Attributes:
        text: ours, `failed`, or a dash.
        paper: the paper's, if it has one.
        mark: ▲ or ▼ where ours lies above or below the paper's by more than two standard deviations of the difference.
        drawn: what it is the mean of: of each model its split and seed, and its accuracy.
    """

    text: str = MISSING
    paper: str = ""
    mark: str = ""
    drawn: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        return " ".join(part for part in (self.text, self.paper and f"({self.paper})", self.mark) if part)


@dataclass(frozen=True)
class Row:
    """One row: its labels and its entries."""

    labels: tuple[str, ...]
    entries: tuple[Entry, ...]
