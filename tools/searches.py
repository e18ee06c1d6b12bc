"""What searches by questions left behind, in Markdown: the benchmarks `through`, `questions` and `targets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import NONE, table
from tools.measured import measured


@measured("through", by="python benchmarks/through.py")
def through(found: Mapping[str, Any]) -> str:
    """What the test nodes have in common that a search by queries takes from a committee."""
    flips = sorted({run["flips"] for run in found.values()})
    heads = {
        "accuracy": "right",
        "attacked": f"right after {' or '.join(map(str, flips))} flips",
        "without_edges": "right without edges",
        "lost": "nodes lost",
        "lost_touched_once": "one flip touches",
        "lost_touched_more": "several touch",
        "lost_with_two_edges_or_fewer": "had one or two edges",
        "lost_though_features_know": "of these, right without edges",
    }
    rows = [
        [name, *(f"{run[key]:.0f}" if key == "lost" else f"{run[key]:.1f}" for key in heads)]
        for name, run in found.items()
    ]
    return table(["Cora, percent", *heads.values()], rows)


@measured("questions-cora", by="python benchmarks/questions.py")
def questions(found: Mapping[str, Any]) -> str:
    """What AdaptiveSearch leaves of defences on Cora with 5 % of the edges, the more often it may ask."""
    asked = sorted({int(number) for left in found.values() for number in left})
    rows = [[f"`{name}`", *(_mean(left.get(str(number))) for number in asked)] for name, left in found.items()]
    return table(["evasion, 5%", *(f"{number:,} questions" for number in asked)], rows)


@measured("targets-cora", by="python benchmarks/targets.py")
def targets(found: Mapping[str, Any]) -> str:
    """What attacks on the published targets of Cora leave of them, after training and before."""
    attacks = ("nettack", "query-search", "adaptive-search")
    rows = []
    for name, runs in found.items():
        for edges, run in runs.items():
            left = [f"{run[attack][kind]:.1f}" for kind in ("evasion", "poisoning") for attack in attacks]
            rows.append([f"`{name}`", edges, f"{run['clean']:.1f}", *left])
    heads = [f"{when}: {attack}" for when in ("after", "before") for attack in attacks]
    return table(["Cora, 83 targets", "flips a target", "clean", *heads], rows)


def _mean(accuracies: list[float] | None) -> str:
    return f"{sum(accuracies) / len(accuracies):.1f}" if accuracies else NONE


BLOCKS: dict[str, Callable[[Path], str]] = {one.__name__: one for one in (questions, targets, through)}
"""By the name that a page says."""
