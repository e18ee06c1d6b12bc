"""The numbers that the paper has for a cell."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from garnet.bench.cell import EVASION, Facts, threat


@dataclass(frozen=True)
class Published:
    """A mean and its standard deviation, in percent."""

    mean: float
    sd: float


def accuracy(facts: Facts) -> Published | None:
    """The accuracy that the paper has for a cell; None where it has none, as for an attack after training."""
    own = {"features"} | ({"k"} if facts["defense"] == "feature-knn" else set())
    changed = facts["training"] or set(facts["parameters"]) - own
    # The paper's baselines have settings of their own, tuned by its authors for each graph.
    if facts["measure"] == EVASION or str(facts["split"]).startswith("random"):
        return None
    if changed and facts["defense"] not in ("prognn", "gnnguard"):
        return None
    attack, budget = threat(facts)
    # A clean graph has the same test nodes as in the paper's tables of Metattack.
    attack = "metattack" if attack == "none" else attack
    backbone = "gcn" if facts["defense"] == "lfr" else facts["backbone"]  # which has its own GCN
    return _accuracies().get((facts["graph"], attack, budget, backbone, _defense(facts)))


def other(facts: Facts, column: str) -> float | None:
    """The paper's homophily or recovery, which it reports for GARNET's graphs, under Metattack where it says."""
    tables, graph = _document(), facts["graph"]
    if facts["measure"] == "homophily":
        if column == "clean":
            return _number(tables["homophily"]["clean"].get(graph))
        attacked = bool(facts["budget"]) and _defense(facts) == "garnet"
        return _number(tables["homophily"]["garnet"].get(graph)) if column == "after" and attacked else None
    if facts["measure"] == "recovery":
        same = (facts["attack"], facts["budget"], _defense(facts)) == ("metattack", 0.2, "garnet")
        return _number(tables["recovery"].get(graph, {}).get(column)) if same else None
    return None


def _defense(facts: Facts) -> str:
    """What the paper calls the defence."""
    name = str(facts["defense"]).removesuffix("-paper")
    if name == "garnet" and facts["parameters"].get("features", "none") != "none":
        return "garnet-features"
    return name


@cache
def _document() -> dict[str, Any]:
    text = files("garnet.bench").joinpath("published.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


@cache
def _accuracies() -> dict[tuple[str, str, float, str, str], Published]:
    return {
        (row["graph"], row["attack"], float(row["budget"]), row["backbone"], row["defense"]): Published(
            row["mean"], row["sd"]
        )
        for row in _document()["accuracy"]
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
