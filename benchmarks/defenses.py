"""End to end, purification and training, of GARNET against the defences that the paper compares with (its figure 4).

All but LFR, which has a GCN of its own, train GPRGNN for 200 steps; Pro-GNN has its own number of them, each of which
decomposes a dense matrix. Poison: Metattack with 20 % of the edges. Repetitions take turns; medians are printed, and
the ratio to GARNET's. On a GPU one training comes first that does not count.

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

from garnet.backbones import GPRGNN
from garnet.datasets import poisoned
from garnet.defenses.named import named_defense
from garnet.graph import Graph
from garnet.training import Training

NAMES = ("garnet", "tsvd", "gnnguard", "lfr", "prognn")
TRAINING = Training(epochs=200, lr=0.01, patience=None)


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
    if device != "cpu":
        defenses["garnet"].fit(graph)
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    accuracies: dict[str, list[float]] = {name: [] for name in NAMES}
    for seed in range(rounds):
        for name, defense in defenses.items():
            start = time.perf_counter()
            accuracies[name].append(100 * defense.fit(graph, seed=seed).accuracy())
            seconds[name].append(time.perf_counter() - start)
    ours = median(seconds["garnet"])
    return {
        name: {
            "seconds": median(seconds[name]),
            "times_garnet": median(seconds[name]) / ours,
            "accuracies": accuracies[name],
        }
        for name in NAMES
    }


def built(name: str, device: str) -> Any:
    """The defence of this name, with GPRGNN where it takes a backbone."""
    if name == "lfr":
        return named_defense(name, device=device)
    defense: Any = named_defense(name, backbone=GPRGNN(), device=device)
    return defense if name == "prognn" else replace(defense, training=TRAINING)


if __name__ == "__main__":
    main()
