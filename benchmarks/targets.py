"""Attackers who aim at nodes: what Nettack and two searches leave of the 83 targets that were published for Cora.

Each target may lose or gain as many edges as are named, all targets being attacked in one graph. The searches are made
for the defence; what they find is tried after training and, with a model trained anew, before. It goes on where it
stopped.

    python benchmarks/targets.py [--defenses committee,rung] [--edges 1,5] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from record import data_folder, save, so_far

from garnet.attacks import AdaptiveSearch, Attack, Budget, Nettack, QuerySearch
from garnet.bench.measure import why_failed
from garnet.datasets import poisoned
from garnet.defenses import Defense
from garnet.registry import defense_named
from garnet.training.supervision import require_trainable

NAME = "targets-cora"
DEFENSES = "committee,garnet,none,rung,elastic-gnn,gnnguard,soft-median-gdc,tsvd"


def main() -> None:
    """Attack each defence, and write the record after each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--defenses", default=DEFENSES)
    options.add_argument("--edges", default="1,5", help="that may be flipped at each target")
    options.add_argument("--jobs", type=int, default=1)
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    path = so_far(f"{NAME}.json")
    figures = json.loads(path.read_text())["figures"] if path.exists() else {}
    edges = [int(one) for one in chosen.edges.split(",")]
    todo = [
        (name, each) for name in chosen.defenses.split(",") for each in edges if str(each) not in figures.get(name, {})
    ]
    order = dict.fromkeys([*figures, *(name for name, _ in todo)])
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
        tried = {pool.submit(attacked, *one): one for one in todo}
        for result in as_completed(tried):
            name, each = tried[result]
            try:
                found = result.result()
            except Exception as error:  # the others have their figures, whatever is wrong with this one
                print(f"{name} has no figure for {each} a target: {why_failed(error)}", flush=True)
                continue
            left = {**figures.get(name, {}), str(each): found}
            figures[name] = {one: left[one] for one in sorted(left, key=int)}
            print(name, each, {key: value for key, value in found.items() if key != "flips"}, flush=True)
            save(NAME, {one: figures[one] for one in order if one in figures})


def attacked(name: str, each: int) -> dict[str, Any]:
    """Accuracy on the targets, in percent: clean, and under each attack, after training and before."""
    graph, defense = poisoned("cora", attack="nettack", budget=0), defense_named(name)
    targets = require_trainable(graph)[0].test
    fitted = defense.fit(graph, seed=0)
    found: dict[str, Any] = {"clean": 100 * fitted.accuracy()}
    for attack in attacks(defense):
        known = {"victim": fitted} if not isinstance(attack, Nettack) else {}
        flips = attack(graph, budget=Budget.parse(f"{each}/target"), targets=targets, seed=0, **known)
        changed = flips.apply(graph)
        found[attack.name] = {
            "evasion": 100 * defense.predict(fitted, changed).accuracy(),
            "poisoning": 100 * defense.fit(changed, seed=0).accuracy(),
            "flips": flips.num_changes,
        }
    return found


def attacks(defense: Defense) -> Iterator[Attack]:
    """One that knows no defence, one that asks this one, and one that knows it."""
    yield from (Nettack(), QuerySearch(defense=defense), AdaptiveSearch(defense=defense))


if __name__ == "__main__":
    main()
