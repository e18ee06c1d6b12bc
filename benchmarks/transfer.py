"""Flips that were made for one defence, tried on every other: stress-tested or not, each has a figure then.

After training, all that the records of `garnet stress` have at the budget; before, of each record the two sets of flips
that did most harm there, since every one takes a training. Goes on where it stopped.

    python benchmarks/transfer.py [--graph cora] [--budget 0.1] [--defenses committee,rung] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from record import RESULTS, data_folder, save

from garnet.bench.record import read_records
from garnet.datasets import load
from garnet.defenses import Defense
from garnet.errors import GarnetError
from garnet.graph.graph import Edges
from garnet.graph.perturbation import Perturbation
from garnet.registry import DEFENSES, defense_named

SLOW = ("prognn",)
PURIFIERS = ("none", "garnet", "jaccard", "audited")


@dataclass(frozen=True)
class Flips:
    """A set of flips of a record.

    Attributes:
        made_for: the defence that it was to break.
        attack: that made it.
        edges: (2, m).
        left: accuracy that it left of that defence, after training and before.
    """

    made_for: str
    attack: str
    edges: Edges
    left: tuple[float, float]


def main() -> None:
    """Try all on each defence, and write the record after each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--graph", default="cora")
    options.add_argument("--budget", type=float, default=0.1, help="share of the edges")
    options.add_argument(
        "--defenses", default=",".join([*PURIFIERS, *(one for one in DEFENSES.names() if one not in SLOW)])
    )
    options.add_argument("--jobs", type=int, default=2)
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    name = f"transfer-{chosen.graph}"
    path = RESULTS / f"{name}.json"
    figures = json.loads(path.read_text())["figures"] if path.exists() else {}
    wanted = [one for one in chosen.defenses.split(",") if one not in figures]
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
        tried = {one: pool.submit(transferred, one, chosen.graph, chosen.budget) for one in wanted}
        for one, result in tried.items():
            figures[one] = result.result()
            print(one, {kind: found[:1] for kind, found in figures[one].items() if kind != "clean"}, flush=True)
            save(name, figures)


def transferred(name: str, graph_name: str, budget: float) -> dict[str, Any]:
    """What is left of a defence: clean, and under the flips that were made for others, the most harmful first."""
    graph, defense = load(graph_name, split="prognn"), defense_named(name)
    sets = [one for one in recorded(graph_name, budget) if one.made_for.removesuffix(", gprgnn") != name]
    fitted = defense.fit(graph, seed=0)
    found: dict[str, Any] = {"clean": 100 * fitted.accuracy(), "evasion": [], "poisoning": []}
    for one in sets:
        changed = Perturbation.of(graph, one.edges).apply(graph)
        if (left := evaded(defense, fitted, changed)) is not None:
            found["evasion"].append([left, one.made_for, one.attack])
    for one in harmful(sets):
        changed = Perturbation.of(graph, one.edges).apply(graph)
        found["poisoning"].append([100 * defense.fit(changed, seed=0).accuracy(), one.made_for, one.attack])
    return {kind: value if kind == "clean" else sorted(value) for kind, value in found.items()}


def evaded(defense: Defense, fitted: Any, changed: Any) -> float | None:
    """Accuracy on a graph that was changed after training; None of a defence that learns one graph."""
    try:
        return 100 * defense.predict(fitted, changed).accuracy()
    except GarnetError:
        return None


def recorded(graph: str, budget: float) -> list[Flips]:
    """All flips of the records at a budget."""
    found = []
    for path in sorted(RESULTS.glob(f"stress-{graph}-*.jsonl")):
        for record in read_records(path)[0]:
            cell, values = record.cell, record.values
            if record.status == "done" and cell["budget"] == budget and cell["seeds"] == [0]:
                left = tuple(100.0 if values[kind] is None else values[kind] for kind in ("evasion", "poisoning"))
                made_for = ", ".join(filter(None, [cell["defense"], cell["backbone"]]))
                found.append(Flips(made_for, cell["attack"], np.array(values["changed"]), left))
    return found


def harmful(sets: list[Flips]) -> list[Flips]:
    """Of those made for each defence, the two that did most harm to it: one after training and one before."""
    best = []
    for made_for in dict.fromkeys(one.made_for for one in sets):
        own = [one for one in sets if one.made_for == made_for]
        places = dict.fromkeys(min(range(len(own)), key=lambda i, k=kind: own[i].left[k]) for kind in (0, 1))
        best += [own[i] for i in places]
    return best


if __name__ == "__main__":
    main()
