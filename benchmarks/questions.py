"""Whether a search has seen the bottom: what AdaptiveSearch leaves of a defence on Cora the more often it may ask.

5 % of the edges are flipped after training. It goes on where it stopped.

    python benchmarks/questions.py [--defenses committee,none] [--queries 125,500,2000] [--seeds 1]
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from record import real_graph, save, so_far

from garnet.attacks import AdaptiveSearch, Budget
from garnet.registry import defense_named

NAME = "questions-cora"
BUDGET = Budget.fraction(0.05)


def main() -> None:
    """Attack each defence with each number of questions and each seed, and write the record after each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--defenses", default="committee,elastic-gnn,rung,none")
    options.add_argument("--queries", default="125,500,2000")
    options.add_argument("--seeds", type=int, default=1)
    chosen = options.parse_args()
    path, graph = so_far(f"{NAME}.json"), real_graph("cora")
    figures: dict[str, Any] = json.loads(path.read_text())["figures"] if path.exists() else {}
    for name in chosen.defenses.split(","):
        defense, left = defense_named(name), figures.setdefault(name, {})
        for seed in range(chosen.seeds):
            todo = [one for one in chosen.queries.split(",") if len(left.get(one, [])) <= seed]
            fitted = defense.fit(graph, seed=seed) if todo else None
            for queries in todo:
                attack = AdaptiveSearch(defense=defense, queries=int(queries))
                flips = attack(graph, budget=BUDGET, seed=seed, victim=fitted)
                left.setdefault(queries, []).append(100 * defense.predict(fitted, flips.apply(graph)).accuracy())
                print(name, queries, left[queries], flush=True)
                save(NAME, figures)


if __name__ == "__main__":
    main()
