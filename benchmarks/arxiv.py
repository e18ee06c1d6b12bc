"""Defences on ogbn-arxiv under GR-BCD (table 5 of the paper), one record for each.

The official features could not be had: ours are drawn from Gaussians, one for each class, so noisy that a perceptron
alone has about 55 % (what it has on the official ones). The attack is ours, made for a GCN, with 25 and 50 % of the
edges. All but Soft Median GDC, which is a model of its own, train a GCN of two layers and 64 units.

    python benchmarks/arxiv.py gcn jaccard gnnguard soft-median-gdc garnet [--device cuda] [--seeds 10] [--epochs 200]
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
import torch
from record import data_folder, save

from garnet.attacks.bcd import GRBCD
from garnet.backbones import GCN
from garnet.datasets import class_features, load
from garnet.defenses.lookup import named_defense
from garnet.graph.graph import Graph, as_graph
from garnet.machine import peak_memory
from garnet.training.loop import Training

# A perceptron alone then has about 55 % of the test nodes.
SIGNAL = 2.15
# The paper's, with the official features.
PAPER = {
    "gcn": (70.74, 45.18, 39.12),
    "gnnguard": (68.78, 47.46, 41.18),
    "jaccard": (67.77, 46.27, 40.84),
    "soft-median-gdc": (69.75, 45.31, 40.11),
    "garnet": (69.91, 61.32, 60.88),
}
BUDGETS = ("clean", "25%", "50%")
# What the paper says it took; GNNGuard's P0 is its default.
PARAMETERS: dict[str, dict[str, Any]] = {
    "soft-median-gdc": {"temperature": 5.0, "alpha": 0.1, "k": 64},
}


def main() -> None:
    """Measure the defences that were asked for, under every budget."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("defenses", nargs="+", choices=["gcn", "jaccard", "gnnguard", "soft-median-gdc", "garnet"])
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--epochs", type=int, default=200)
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    plain = load("ogbn-arxiv")
    graph = as_graph(plain, features=class_features(plain.labels, dim=128, signal=SIGNAL, seed=0))
    graphs = {budget: attacked(graph, budget, chosen.device) for budget in BUDGETS}
    for name in chosen.defenses:
        defense = built(name, chosen.epochs, chosen.device)
        figures: dict[str, Any] = {
            "signal": SIGNAL, "seeds": chosen.seeds, "epochs": chosen.epochs,
            "paper, official features": dict(zip(BUDGETS, PAPER[name], strict=True)),
        }  # fmt: skip
        for budget, one in graphs.items():
            figures[budget] = measured(defense, one, chosen.seeds, chosen.device)
            print(name, budget, figures[budget], flush=True)
            save(f"arxiv-{name}", figures)


def attacked(graph: Graph, budget: str, device: str) -> Graph:
    """The graph after GR-BCD."""
    return graph if budget == "clean" else GRBCD(device=device)(graph, budget=budget).apply(graph)


def built(name: str, epochs: int, device: str) -> Any:
    """The defence of this name."""
    return named_defense(
        "none" if name == "gcn" else name,
        backbone=GCN(),
        training=Training(epochs=epochs, lr=0.01, patience=None),
        device=device,
        parameters=PARAMETERS.get(name, {}),
    )


def measured(defense: Any, graph: Graph, seeds: int, device: str) -> dict[str, Any]:
    """Accuracy of every seed in percent, and the seconds of all of them together."""
    start = time.perf_counter()
    models = defense.fit_seeds(graph, range(seeds))
    seconds = time.perf_counter() - start
    found = [100 * model.accuracy() for model in models]
    memory = peak_memory() if device == "cpu" else torch.cuda.max_memory_allocated()
    return {
        "mean": float(np.mean(found)),
        "sd": float(np.std(found, ddof=1)) if seeds > 1 else None,
        "accuracies": found,
        "seconds": seconds,
        "stages": {stage.name: stage.seconds for stage in models[0].stages},
        "peak_gb_so_far": memory / 1e9,
    }


if __name__ == "__main__":
    main()
