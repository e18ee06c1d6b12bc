"""Flips that were made for one defence, tried on every other: stress-tested or not, each has a figure then.

After training, all that the records of `garnet stress` have at the budget; before, of each record the two sets of flips
that did most harm there, since every one takes a training. What is there already is made again if the budget, the
defence or the flips in the records are others than they were.

    python benchmarks/transfer.py [--graph cora] [--budget 0.1] [--defenses "committee,none, gcn"] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from record import RESULTS, real_graph, save, so_far

from garnet.bench.attempt import replay
from garnet.bench.measure import effective_parameters, of_the_method, why_failed
from garnet.bench.record import latest, read_records
from garnet.defenses import Defense
from garnet.defenses.lookup import defense_names, named_defense
from garnet.errors import GarnetError
from garnet.graph.graph import Edges, Graph
from garnet.graph.perturbation import Perturbation
from garnet.io.identity import digest_of

SLOW = ("prognn",)


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
        "--defenses",
        default=",".join(one for one in defense_names() if one not in SLOW),
        help="names with commas between them; a backbone comes after a comma and a space",
    )
    options.add_argument("--jobs", type=int, default=2)
    chosen = options.parse_args()
    graph, name = real_graph(chosen.graph), f"transfer-{chosen.graph}"
    path = so_far(f"{name}.json")
    figures = json.loads(path.read_text())["figures"] if path.exists() else {}
    sets = recorded(RESULTS, chosen.graph, graph, chosen.budget)
    asked = [one.removesuffix(", gprgnn") for one in re.split(r",(?! )", chosen.defenses)]
    wanted = [one for one in asked if is_stale(figures.get(one), one, sets, chosen.budget)]
    for one in figures.keys() - {*asked}:
        if is_stale(figures[one], one, sets, chosen.budget):
            print(f"{one} was tried with other flips or as it then was; name it in --defenses to try it again")
    order = dict.fromkeys([*figures, *wanted])
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
        tried = {pool.submit(transferred, one, graph, sets, chosen.budget): one for one in wanted}
        for result in as_completed(tried):
            one = tried[result]
            try:
                figures[one] = result.result()
            except Exception as error:  # the others have their figures, whatever is wrong with this one
                print(f"{one} has no figure: {why_failed(error)}", flush=True)
                continue
            print(one, {kind: figures[one][kind][:1] for kind in ("evasion", "poisoning")}, flush=True)
            save(name, {each: figures[each] for each in order if each in figures})


def transferred(name: str, graph: Graph, sets: Sequence[Flips], budget: float) -> dict[str, Any]:
    """What is left of a defence: clean, and under the flips that were made for others, the most harmful first."""
    defense, others = named(name), made_for_others(name, sets)
    fitted = defense.fit(graph, seed=0)
    evasion, poisoning = [], []
    for one in others:
        changed = Perturbation.of(graph, one.edges).apply(graph)
        if (left := evaded(defense, fitted, changed)) is not None:
            evasion.append([left, one.made_for, one.attack])
    for one in harmful(others):
        changed = Perturbation.of(graph, one.edges).apply(graph)
        poisoning.append([100 * defense.fit(changed, seed=0).accuracy(), one.made_for, one.attack])
    found = {"clean": 100 * fitted.accuracy(), "evasion": sorted(evasion), "poisoning": sorted(poisoning)}
    return found | {"budget": budget, "made_of": made_of(name, sets, budget)}


def is_stale(figures: dict[str, Any] | None, name: str, sets: Sequence[Flips], budget: float) -> bool:
    """Whether there are no figures of a defence, or such of something else."""
    return figures is None or figures.get("made_of") != made_of(name, sets, budget)


def made_of(name: str, sets: Sequence[Flips], budget: float) -> str:
    """Sixteen hex digits of all that the figures of a defence depend on."""
    flips = [[one.made_for, one.attack, one.left, one.edges.tolist()] for one in made_for_others(name, sets)]
    parameters = of_the_method(effective_parameters(named(name)))
    return digest_of({"budget": budget, "defense": parameters, "flips": flips})


def named(name: str) -> Defense:
    """The defence of a row of the leaderboard, such as `committee`, or `none, gcn` with a backbone."""
    defense, _, backbone = name.partition(", ")
    return named_defense(defense, backbone=backbone or None)


def made_for_others(name: str, sets: Sequence[Flips]) -> list[Flips]:
    """Those that were not made for this defence."""
    return [one for one in sets if one.made_for.removesuffix(", gprgnn") != name]


def evaded(defense: Defense, fitted: Any, changed: Any) -> float | None:
    """Accuracy on a graph that was changed after training; None of a defence that learns one graph."""
    try:
        return 100 * defense.predict(fitted, changed).accuracy()
    except GarnetError:
        return None


def recorded(results: Path, name: str, graph: Graph, budget: float) -> list[Flips]:
    """All flips in the records of a graph at a budget, but for those that were too many to be kept.

    Raises:
        GarnetError: a record is damaged, or of another graph.
    """
    found = []
    for path in sorted(results.glob(f"stress-{name}-*.jsonl")):
        records, damages = read_records(path)
        if damages:
            raise GarnetError(f"Line {damages[0].line} of the record {path} is damaged: {damages[0].why}.")
        for record in latest(records).values():
            cell, values = record.cell, record.values
            if record.status != "done" or (cell["graph"], cell["role"], cell["seeds"]) != (name, "attack", [0]):
                continue
            if cell["budget"] == budget and values["changed"] is not None:
                left = tuple(100.0 if values[kind] is None else values[kind] for kind in ("evasion", "poisoning"))
                made_for = ", ".join(filter(None, [cell["defense"], cell["backbone"]]))
                found.append(Flips(made_for, cell["attack"], replay(record, graph).edges, left))
    return found


def harmful(sets: Sequence[Flips]) -> list[Flips]:
    """Of those made for each defence, the two that did most harm to it: one after training and one before."""
    best = []
    for made_for in dict.fromkeys(one.made_for for one in sets):
        own = [one for one in sets if one.made_for == made_for]
        places = dict.fromkeys(min(range(len(own)), key=lambda i, k=kind: own[i].left[k]) for kind in (0, 1))
        best += [own[i] for i in places]
    return best


if __name__ == "__main__":
    main()
