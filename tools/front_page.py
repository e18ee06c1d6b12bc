"""The figures of the README: one table, and some numbers within its sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools import leave_it_on
from tools.leave_it_on import RECORD, measured_rows
from tools.markdown import table
from tools.measured import measured
from tools.records import Cells
from tools.stress_tables import figure

_SHOWN = {"none": "no defence", "garnet": "`GARNET()`", "committee": "**committee**"}
_POISONED = (("metattack", 0.2, "Metattack 20 %"), ("nettack", 5.0, "Nettack 5"))


def in_short(records: Path) -> str:
    """Cora clean, under published attacks, and under somebody who knows the defence."""
    rows = [row for row in measured_rows(Cells(records / RECORD, leave_it_on.COMMAND)) if row.graph == "cora"]
    found = {(row.attack, row.budget): row for row in rows}
    cells = []
    for defense, label in _SHOWN.items():
        poisoned = [found[attack, budget].accuracy(defense) for attack, budget, _ in _POISONED]
        knows = [figure(f"cora {defense} evasion {budget}", records) for budget in ("1%", "5%", "10%")]
        known = [found["none", 0.0].accuracy(defense), *poisoned]
        cells.append([label, *(f"{one or 0:.1f}" for one in known), *knows])
    heads = ["Cora", "clean", *(label for *_, label in _POISONED)]
    return table([*heads, *(f"knows, {budget}" for budget in ("1 %", "5 %", "10 %"))], cells)


def worst_on_clean_graphs(records: Path) -> str:
    """What the committee costs where nobody attacks, on the graph where it costs most."""
    rows = [row for row in measured_rows(Cells(records / RECORD, leave_it_on.COMMAND)) if not row.attacked]
    costs = {row.label: -(row.gain("committee") or 0.0) for row in rows if row.attack == "none"}
    graph = max(costs, key=lambda name: costs[name])
    return f"{costs[graph]:.1f} points ({graph})"


@measured("recipe-r50")
def times_the_recipe(found: Mapping[str, Any]) -> str:
    """How many times as fast as the usual recipe ogbn-arxiv is purified."""
    return f"{found['ratio']:.0f}"


@measured("billion")
def seconds_of_a_billion(found: Mapping[str, Any]) -> str:
    """What a billion edges take on one GPU."""
    return f"{found['rmat']['default'][-1]['seconds']:.0f}"


BLOCKS: dict[str, Callable[[Path], str]] = {
    one.__name__.replace("_", " "): one
    for one in (in_short, worst_on_clean_graphs, times_the_recipe, seconds_of_a_billion)
}
"""By the name that a page says."""
