"""The table of the unit test: of each budget, the accuracy under the worst of its sources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from garnet.bench.cell import EVASION, Facts, is_unit_test, key_of
from garnet.bench.entry import MISSING, Entry, Row
from garnet.bench.record import Record, spread
from garnet.bench.schema import TRAINED

_MEAN = "mean"


class Worst(NamedTuple):
    """The least accuracy at one budget.

    Attributes:
        mean: over seeds and splits, in percent.
        sd: their standard deviation; None for fewer than two.
        source: whose perturbations they were; empty for the clean graph.
    """

    mean: float
    sd: float | None
    source: str


def is_of_unit_test(facts: Facts) -> bool:
    """Whether a cell is part of the unit test: one of its attacks, or one of its graphs as it is."""
    clean = facts["attack"] == "none" and facts["graph"].startswith("unit-test-")
    return facts["measure"] in TRAINED and (clean or is_unit_test(facts["attack"]))


def worst_of(records: Sequence[Record]) -> Worst | None:
    """The least of the mean accuracies that sources have at one budget; None where nothing was measured."""
    accuracies: dict[str, list[float]] = {}
    for record in records:
        attack = record.cell["attack"]
        source = "" if attack == "none" else attack.rpartition("/")[2]
        accuracies.setdefault(source, []).extend(record.values["accuracy"])
    spreads = {source: spread(values) for source, values in accuracies.items()}
    figures = [Worst(mean, sd, source) for source, (mean, sd) in spreads.items() if mean is not None]
    return min(figures, default=None, key=lambda one: one.mean)


def mean_height(points: Sequence[tuple[float, float]]) -> float | None:
    """The area under a curve through points (x, y) in rising order, over its width; None for fewer than two."""
    if len(points) < 2:
        return None
    steps = [(right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(points)]
    return sum(steps) / (points[-1][0] - points[0][0])


class UnitTestLayout:
    """A row for each budget, a column for each defence; the last row has the mean over all budgets."""

    heads = ("flipped edges",)

    def __init__(self, cells: Sequence[Facts]) -> None:
        self._graph, self._evasion = cells[0]["graph"], cells[0]["measure"] == EVASION
        self._seeds = len({tuple(facts["seeds"]) for facts in cells}) > 1
        self._sources = len({facts["attack"] for facts in cells if facts["attack"] != "none"})

    def title(self, study: str) -> str:
        """With the graph and the scenario."""
        return f"{study}: {self._graph}, {EVASION if self._evasion else 'poisoning'}"

    def rows_of(self, facts: Facts) -> tuple[tuple[str, ...], ...]:
        """That of its budget, and the last."""
        return (_budget(facts),), (_MEAN,)

    def columns_of(self, facts: Facts) -> tuple[str, ...]:
        """That of its defence, with everything that was said of it."""
        given = {**facts["parameters"], **facts["training"]}
        if facts["model"] == "paper":
            given["model"] = facts["model"]
        if self._seeds:
            given["seeds"] = " ".join(map(str, facts["seeds"]))
        named = " ".join([facts["defense"], *(f"{name}={value}" for name, value in given.items())])
        return (", ".join(part for part in (facts["backbone"], named) if part),)

    def order(self, row: tuple[str, ...]) -> float:
        """By budget."""
        return math.inf if row[0] == _MEAN else float(row[0])

    def entry(self, row: tuple[str, ...], column: str, cells: Sequence[Facts], found: Mapping[str, Record]) -> Entry:
        """The worst at a budget and whose it is, or the mean over all budgets if each has one."""
        if not cells:
            return Entry()
        records = [found[key] for facts in cells if (key := key_of(facts)) in found]
        done = [record for record in records if record.status == "done"]
        part = "" if len(done) == len(cells) else f" [{len(done)} of {len(cells)} cells]"
        if row[0] == _MEAN:
            worst = {
                budget: worst_of([record for record in done if _budget(record.cell) == budget])
                for budget in sorted({_budget(facts) for facts in cells}, key=float)
            }
            mean = mean_height([(float(budget), one.mean) for budget, one in worst.items() if one is not None])
            return Entry() if mean is None or None in worst.values() else Entry(f"{mean:.1f}{part}")
        one = worst_of(done)
        if one is None:
            return Entry("failed" if records else MISSING)
        deviation = "" if one.sd is None else f" ± {one.sd:.1f}"
        return Entry(f"{one.mean:.1f}{deviation}" + (f" ({one.source})" if one.source else "") + part)

    def legend(self, rows: Sequence[Row]) -> list[str]:
        """Whose accuracy it is, and under what."""
        graph = "clean graph and attacked afterwards" if self._evasion else "attacked graph"
        sources = "its one source" if self._sources == 1 else f"the worst of its {self._sources} sources"
        return [
            f"Accuracy in percent of models trained on the {graph}, under {sources} of perturbations, which stands in "
            "brackets: mean ± standard deviation over seeds and splits. The last row is the mean over all numbers of "
            "edges up to the largest, the area under the curve."
        ]


def _budget(facts: Facts) -> str:
    return f"{facts['budget'] or 0:g}"
