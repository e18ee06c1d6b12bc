"""End to end, purification and training, of GARNET against the defences that the paper compares with (its figure 4).

Poison: Metattack with 20 % of the edges. All train for 200 steps, LFR its own GCN, the others GPRGNN; Pro-GNN has its
own number of them, up to twelve that decompose a dense matrix and ten of the model after each. Repetitions take turns;
medians are printed, and the ratio to GARNET's with the same model. One training comes first that does not count.

    python benchmarks/defenses.py cora squirrel [--device cuda] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from record import data_folder, save

from garnet.datasets import poisoned
from garnet.defenses.lookup import named_defense
from garnet.graph.graph import Graph

NAMES = ("garnet", "tsvd", "gnnguard", "prognn", "garnet, gcn", "lfr")


def main() -> None:
    """Measure every defence on the graphs that were asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graphs", nargs="+", choices=["cora", "squirrel"])
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    figures: dict[str, Any] = {"threads": torch.get_num_threads(), "rounds": chosen.rounds}
    if chosen.device != "cpu":
        figures["device"] = torch.cuda.get_device_name()
    for name in chosen.graphs:
        figures[name] = compared(poisoned(name, attack="metattack", budget=0.2), chosen.device, chosen.rounds)
        print(name, figures[name], flush=True)
    save("defenses" if chosen.device == "cpu" else f"defenses-{chosen.device}", figures)


def compared(graph: Graph, device: str, rounds: int) -> dict[str, Any]:
    """Seconds and accuracy of each defence, taking turns."""
    defenses = {name: built(name, device) for name in NAMES}
    defenses["garnet"].fit(graph)
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    accuracies: dict[str, list[float]] = {name: [] for name in NAMES}
    for seed in range(rounds):
        for name, defense in defenses.items():
            start = time.perf_counter()
            accuracies[name].append(100 * defense.fit(graph, seed=seed).accuracy())
            seconds[name].append(time.perf_counter() - start)
    ours = {name: median(seconds["garnet, gcn" if name in ("lfr", "garnet, gcn") else "garnet"]) for name in NAMES}
    return {
        name: {
            "seconds": median(seconds[name]),
            "times_garnet": median(seconds[name]) / ours[name],
            "accuracies": accuracies[name],
        }
        for name in NAMES
    }


def built(name: str, device: str) -> Any:
    """The defence of this name."""
    backbone = "gcn" if name == "garnet, gcn" else "gprgnn"
    defense: Any = named_defense(name.removesuffix(", gcn"), backbone=backbone, device=device)
    if name == "prognn":
        return defense
    return replace(defense, training=replace(defense.training, epochs=200, lr=0.01, patience=None))


if __name__ == "__main__":
    main()
