"""Both rounds of an answer to attackers who know: a committee before, after the first and after the second.

    python benchmarks/rounds.py --graph cora --caution 0 --jobs 8 -o results/rounds-cora-1.jsonl

Everything is that of `garnet stress`, with all attacks that fit.
"""

import argparse
import os

from garnet.bench.stress import stress
from garnet.datasets import load
from garnet.defenses import Committee
from garnet.registry import defense_named


def main() -> None:
    """Stress one defence on one of the benchmark graphs and print the verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--defense", default="committee")
    parser.add_argument("--caution", type=float, default=None, help="of the committee; its own by default")
    parser.add_argument("--attacks", default=None)
    parser.add_argument("--budgets", default="1%,5%,10%,20%")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--output", required=True)
    given = parser.parse_args()
    defense = defense_named(given.defense)
    if given.caution is not None:
        defense = Committee(caution=given.caution)
    planetoid = given.graph in ("cora", "citeseer", "pubmed")
    command = f"python benchmarks/rounds.py --graph {given.graph} --defense {given.defense} --budgets {given.budgets}"
    command += f" --attacks {given.attacks}" if given.attacks else ""
    command += f" --caution {given.caution:g}" if given.caution is not None else ""
    command += f" --seeds {given.seeds}" if given.seeds != 1 else ""
    found = stress(
        load(given.graph, split="prognn" if planetoid else None),
        defense,
        budgets=given.budgets.split(","),
        attacks=given.attacks and given.attacks.split(","),
        seeds=given.seeds,
        unbounded=False,
        path=given.output,
        jobs=given.jobs,
        graph_name=given.graph,
        defense_name=given.defense if given.caution is None else f"{given.defense}, caution {given.caution:g}",
        command=command,
        progress=lambda step: print(step, flush=True) if os.environ.get("VERBOSE") else None,
    )
    print(found.verdict)


if __name__ == "__main__":
    main()
