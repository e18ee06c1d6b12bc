"""What a committee costs beside one model of the same backbone, in turns in one run.

GPRGNN with its defaults, one seed, the time of the whole fit: both choose their step size, and the committee
purifies the graph and trains a model on each view.

    python benchmarks/committee.py [--rounds 3] [--device cuda]
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median
from typing import Any

import torch
from record import data_folder, save

from garnet.backbones import GPRGNN
from garnet.datasets import load
from garnet.defenses import Committee
from garnet.progress import seconds_of
from garnet.training.loop import train

GRAPHS = ("cora", "chameleon", "pubmed")


def main() -> None:
    """Time both on each graph and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3, help="fits of each")
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    figures: dict[str, Any] = {"threads": torch.get_num_threads(), "device": chosen.device}
    for name in GRAPHS:
        figures[name] = compared(name, chosen.rounds, chosen.device)
        print(name, figures[name])
    save("committee" if chosen.device == "cpu" else f"committee-{chosen.device}", figures)


def compared(name: str, rounds: int, device: str) -> dict[str, Any]:
    """Median seconds of one model and of a committee, taking turns, and where the latter's go."""
    graph, committee = load(name), Committee(device=device)
    alone, together, stages = [], [], {}
    for _ in range(rounds):
        start = time.perf_counter()
        train(GPRGNN(), graph, seeds=(0,), device=device)
        middle = time.perf_counter()
        stages = seconds_of(committee.fit(graph, seed=0).stages)
        alone.append(middle - start)
        together.append(time.perf_counter() - middle)
    one, all_of_them = median(alone), median(together)
    return {"one_seconds": one, "committee_seconds": all_of_them, "ratio": all_of_them / one, "stages": stages}


if __name__ == "__main__":
    main()
