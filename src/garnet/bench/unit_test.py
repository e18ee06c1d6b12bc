"""The black-box unit test of robustness as a study: everything that its file has, for defences of one's choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from garnet.bench.study import Study, parse_study
from garnet.datasets.unit_test_file import SCENARIOS, UnitTest
from garnet.registry import known_name

UNIT_TEST = "unit-test"
"""The name of the study, for which there is no file."""

_MEASURES = {"evasion": "evasion", "poisoning": "accuracy"}


def unit_test_study(
    test: UnitTest,
    defenses: Sequence[str],
    *,
    backbone: str = "gcn",
    scenarios: Sequence[str] = SCENARIOS,
    seeds: int = 1,
) -> Study:
    """The study of all perturbations of the unit test, and of its graphs as they are.

    Args:
        test: what `garnet.datasets.unit_test` found.
        defenses: their names.
        backbone: what they train, where they train one of one's choice.
        scenarios: `evasion`, `poisoning` or both.
        seeds: how many models for each perturbation.

    Raises:
        ParameterError: there is no such defence, backbone or scenario.
        GraphError: a graph of the file is damaged.
    """
    scenarios = [known_name(one, SCENARIOS, "scenario") for one in scenarios]
    # Cells of one scenario, defence and split come one after another, so that those of evasion share a model.
    groups = [
        group
        for graph, splits in test.splits.items()
        for scenario in scenarios
        for defense in dict.fromkeys(defenses)
        for split in splits
        for group in _groups(test, graph, scenario, split, {"defense": defense, "backbone": backbone})
    ]
    told = [f"From {test.path.name}. What it does not say was guessed:", *map(test.guesses, test.splits)]
    if uneven := [graph for graph in test.splits if not _is_even(test, graph)]:
        told.append(f"Not every source has every budget in every split of {' and '.join(uneven)}.")
    return parse_study({"title": "Black-box unit test", "note": " ".join(told), "seeds": seeds, "cells": groups})


def _groups(test: UnitTest, graph: str, scenario: str, split: int, common: dict[str, Any]) -> list[dict[str, Any]]:
    """The clean graph, and each source with its budgets."""
    name = f"{UNIT_TEST}-{graph.replace('_', '-')}"
    common = common | {"graph": name, "split": f"{UNIT_TEST}-{split}", "measure": _MEASURES[scenario]}
    budgets: dict[str, list[float]] = {}
    for flips in test.flips:
        if (flips.graph, flips.scenario, flips.split) == (graph, scenario, split):
            budgets.setdefault(flips.attack, []).append(flips.budget)
    return [common, *(common | {"attack": attack, "budget": some} for attack, some in budgets.items())]


def _is_even(test: UnitTest, graph: str) -> bool:
    """Whether the sources of a graph have the same budgets in the same splits."""
    for scenario in SCENARIOS:
        some = [flips for flips in test.flips if flips[:2] == (graph, scenario)]
        sources, budgets = ({getattr(one, part) for one in some} for part in ("source", "budget"))
        if len(some) < len(sources) * len(budgets) * len(test.splits[graph]):
            return False
    return True
