"""What Pro-GNN costs on Cora under Metattack of 20 %, beside the authors' implementation.

* epoch: seconds of one step of the graph and two of the model, with the authors' settings in both. These leave nearly
  all singular values in place, so both decompose the whole matrix.
* whole: seconds of one training with our defaults, which take long steps.

The original is that of the package deeprobust, which another interpreter may have: `--original` names it. Without the
package ours is measured alone.

    python benchmarks/prognn.py [--epochs 3] [--rounds 3] [--original PYTHON] [--device cuda]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from record import data_folder, save

from garnet.datasets import poisoned
from garnet.defenses.prognn import ProGNN
from garnet.graph.graph import Graph
from garnet.training.loop import Training

ORIGINAL = """
import builtins, sys, time, types, warnings
builtins.warnings = warnings  # version 0.2.11 forgets to import it
warnings.simplefilter("ignore")
import numpy as np, torch
from deeprobust.graph.defense import GCN, ProGNN
file, epochs, device = np.load(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
adjacency, features, labels = (torch.from_numpy(file[name]).to(device) for name in ("adjacency", "features", "labels"))
settings = types.SimpleNamespace(
    epochs=epochs, lr=5e-4, weight_decay=5e-4, lr_adj=0.01, alpha=5e-4, beta=1.5, gamma=1, lambda_=1e-3, phi=0,
    outer_steps=1, inner_steps=2, symmetric=False, only_gcn=False, debug=False,
)
model = GCN(nfeat=features.shape[1], nhid=16, nclass=int(labels.max()) + 1, dropout=0.5, device=device)
defense = ProGNN(model, settings, device)
start = time.perf_counter()
defense.fit(features, adjacency, labels, file["train"], file["val"])
print((time.perf_counter() - start) / epochs)
"""


def main() -> None:
    """Measure in turns and write a record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epochs", type=int, default=3, help="of a measurement")
    options.add_argument("--rounds", type=int, default=3, help="measurements of each")
    options.add_argument("--original", default=sys.executable, help="interpreter that can import deeprobust")
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    graph = poisoned("cora", attack="metattack", budget=0.2)
    figures = {"threads": torch.get_num_threads(), **measure(graph, chosen)}
    if chosen.device != "cpu":
        figures["device"] = torch.cuda.get_device_name()
    print(figures)
    save("prognn" + ("" if chosen.device == "cpu" else f"-{chosen.device}"), figures)


def measure(graph: Graph, chosen: argparse.Namespace) -> dict[str, Any]:
    """Seconds of ours and of the original, and the ratios of their medians."""
    training = Training(epochs=chosen.epochs, lr=5e-4, weight_decay=5e-4, patience=None)
    same = ProGNN(lr_graph=0.01, inner_steps=2, training=training, device=chosen.device)
    whole = ProGNN(device=chosen.device)
    # A GPU's libraries take seconds to start.
    replace(same, training=replace(training, epochs=1)).fit(graph)
    ours, trained, theirs = [], [], []
    accuracy = 0.0
    for _ in range(chosen.rounds):
        ours.append(seconds(same, graph)[0] / chosen.epochs)
        taken, accuracy = seconds(whole, graph)
        trained.append(taken)
        other = original_seconds(graph, chosen)
        if other is not None:
            theirs.append(other)
    figures: dict[str, Any] = {
        "epochs": chosen.epochs, "seconds_an_epoch": median(ours), "seconds_whole": median(trained),
        "accuracy_whole": accuracy,
    }  # fmt: skip
    if theirs:
        figures |= {
            "original_seconds_an_epoch": median(theirs),
            "ratio": median(theirs) / median(ours),
        }
    return figures


def seconds(defense: ProGNN, graph: Graph) -> tuple[float, float]:
    """Seconds of a training, and its accuracy."""
    start = time.perf_counter()
    model = defense.fit(graph)
    return time.perf_counter() - start, model.accuracy()


def original_seconds(graph: Graph, chosen: argparse.Namespace) -> float | None:
    """Seconds of an epoch of the original; None if its package is not there."""
    assert graph.split is not None
    assert graph.labels is not None
    features: Any = graph.features
    if subprocess.run([chosen.original, "-c", "import deeprobust"], capture_output=True, check=False).returncode:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.npz"
        np.savez(
            path, adjacency=graph.adjacency.toarray(), features=features.toarray().astype(np.float32),
            labels=graph.labels, train=graph.split.train, val=graph.split.val,
        )  # fmt: skip
        command = [chosen.original, "-c", ORIGINAL, str(path), str(chosen.epochs), chosen.device]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
