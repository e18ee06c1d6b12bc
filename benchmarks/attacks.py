"""What attacks cost, one part at a time; each writes its own record.

* metattack: seconds a flip on Cora, in turns with DeepRobust's Metattack if that can be imported (the package
  deeprobust with scikit-learn and numba; install it beside this library, for this measurement only). Both train the
  same linear surrogate of 16 units for 100 steps.
* cora: the whole Metattack of 20 % on Cora.
* nettack: five edges for each of the 83 published targets on Cora.
* pubmed: a slice of Metattack on Pubmed, exact on a GPU, first order on a CPU, and what the whole 20 % would take.
* arxiv: GR-BCD with 25 % of the edges of ogbn-arxiv, and what it does to a GCN. The features are drawn from Gaussians,
  one for each class, so noisy that a perceptron alone has about 55 %.

    python benchmarks/attacks.py metattack cora nettack pubmed arxiv [--device cuda] [--flips 20]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from record import data_folder, save

from garnet.attacks import Budget
from garnet.attacks.bcd import GRBCD
from garnet.attacks.metattack import Metattack
from garnet.attacks.nettack import Nettack
from garnet.backbones import GCN, MLP
from garnet.datasets import class_features, load, poisoned
from garnet.graph.graph import Graph, as_graph
from garnet.machine import peak_memory
from garnet.progress import Step
from garnet.training.loop import Training, train

# The surrogate and the training of the paper, which DeepRobust's attack has too; the records were made with these.
AS_IN_THE_PAPER: dict[str, Any] = {"loss": "cross-entropy", "unit_rows": False, "hidden": 16, "steps": 100}


def main() -> None:
    """Run the parts that were asked for and write a record of each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="+", choices=["metattack", "cora", "nettack", "pubmed", "arxiv"])
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    options.add_argument("--flips", type=int, default=20, help="of a slice")
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    parts: dict[str, Callable[[str, int], dict[str, Any]]] = {
        "metattack": metattack, "cora": cora, "nettack": nettack, "pubmed": pubmed, "arxiv": arxiv,
    }  # fmt: skip
    for name in chosen.parts:
        figures = {"threads": torch.get_num_threads(), **parts[name](chosen.device, chosen.flips)}
        if chosen.device != "cpu":
            figures["device"] = torch.cuda.get_device_name()
        print(name, figures)
        save(f"attack-{name}" + ("" if chosen.device == "cpu" else f"-{chosen.device}"), figures)


def metattack(device: str, flips: int) -> dict[str, Any]:
    """Seconds a flip of ours and of DeepRobust's, in turns."""
    graph = load("cora")
    theirs = deeprobust_metattack(graph, device)
    ours, other = [], []
    for _ in range(3):
        ours.append(slice_seconds(Metattack(**AS_IN_THE_PAPER, device=device), graph, flips)["seconds_a_flip"])
        if theirs is not None:
            start = time.perf_counter()
            theirs(2)
            other.append((time.perf_counter() - start) / 2)
    figures: dict[str, Any] = {"seconds_a_flip": median(ours), "flips": flips}
    if other:
        figures |= {"deeprobust_seconds_a_flip": median(other), "ratio": median(other) / median(ours)}
    return figures


def deeprobust_metattack(graph: Graph, device: str) -> Callable[[int], None] | None:
    """DeepRobust's Metattack on a graph, as a function of the number of flips; None if it is not installed."""
    import builtins
    import warnings

    builtins.warnings = warnings  # type: ignore[attr-defined]  # version 0.2.11 forgets to import it
    try:
        import deeprobust.graph.defense as defenses  # type: ignore[import-not-found]
        import deeprobust.graph.global_attack as attacks  # type: ignore[import-not-found]
    except ImportError:
        return None
    assert graph.split is not None
    assert graph.labels is not None
    unlabelled = np.union1d(graph.split.val, graph.split.test)
    features = torch.from_numpy(np.asarray(graph.features.todense(), dtype=np.float32))  # type: ignore[union-attr]
    labels, adjacency = torch.from_numpy(graph.labels), torch.from_numpy(graph.adjacency.toarray())
    surrogate = defenses.GCN(
        nfeat=features.shape[1], nclass=int(labels.max()) + 1, nhid=16, dropout=0, with_relu=False, with_bias=False,
        device=device,
    ).to(device)  # fmt: skip
    surrogate.fit(features, adjacency, labels, graph.split.train)

    def run(flips: int) -> None:
        attack = attacks.Metattack(
            model=surrogate, nnodes=graph.num_nodes, feature_shape=features.shape, attack_structure=True,
            attack_features=False, device=device, lambda_=0,
        ).to(device)  # fmt: skip
        attack.attack(features, adjacency, labels, graph.split.train, unlabelled, flips, ll_constraint=False)

    return run


def cora(device: str, flips: int) -> dict[str, Any]:
    """The whole attack."""
    return slice_seconds(Metattack(**AS_IN_THE_PAPER, device=device), load("cora"), None)


def pubmed(device: str, flips: int) -> dict[str, Any]:
    """A slice of the attack, and the time of the whole if every flip takes as long."""
    graph = load("pubmed")
    attack = Metattack(**AS_IN_THE_PAPER, device=device, approx=device == "cpu")
    figures = slice_seconds(attack, graph, flips)
    whole = Budget.fraction(0.2).changes(graph, 0, "edges")
    memory = peak_memory() if device == "cpu" else torch.cuda.max_memory_allocated()
    return {
        "approx": attack.approx, **figures, "flips_of_the_whole": whole,
        "hours_of_the_whole": figures["seconds_a_flip"] * whole / 3600, "peak_gb": memory / 1e9,
    }  # fmt: skip


def slice_seconds(attack: Metattack, graph: Graph, flips: int | None) -> dict[str, Any]:
    """Seconds of so many flips after the first, or of all 20 % with the surrogate's training."""
    moments: list[float] = []
    start = time.perf_counter()
    budget = Budget.fraction(0.2) if flips is None else Budget.edges(flips + 1)

    def note(step: Step) -> None:
        if step.done:
            moments.append(time.perf_counter())

    done = attack(graph, budget=budget, progress=note).edges.shape[1]
    end = time.perf_counter()
    if flips is None:
        return {"flips": done, "seconds": end - start}
    return {"flips": flips, "seconds_a_flip": (end - moments[0]) / flips}


def nettack(device: str, flips: int) -> dict[str, Any]:
    """Five edges for each published target, and what a GCN that is trained on the result makes of the targets."""
    graph = poisoned("cora", attack="nettack", budget=0)
    assert graph.split is not None
    start = time.perf_counter()
    made = Nettack()(graph, budget="5/target", targets=graph.split.test)
    return {"targets": len(graph.split.test), "flips": made.edges.shape[1], "seconds": time.perf_counter() - start}


def arxiv(device: str, flips: int) -> dict[str, Any]:
    """GR-BCD at 25 %, and a GCN trained before and after."""
    plain = load("ogbn-arxiv")
    graph = as_graph(plain, features=class_features(plain.labels, dim=128, signal=ARXIV_SIGNAL, seed=0))
    training = Training(epochs=200, lr=0.01, patience=None)

    # On two cores a training takes minutes.
    seeds = range(1 if device == "cpu" else 10)

    def accuracy(backbone: Any, one: Graph) -> list[float]:
        models = train(backbone, one, seeds=seeds, training=training, device=device)
        return [float(np.mean(found := [model.accuracy() for model in models])), float(np.std(found))]

    figures: dict[str, Any] = {
        "signal": ARXIV_SIGNAL,
        "mlp": accuracy(MLP(), graph),
        "gcn_clean": accuracy(GCN(), graph),
    }
    before = peak_memory()
    start = time.perf_counter()
    made = GRBCD(device=device)(graph, budget="25%")
    figures |= {"flips": made.edges.shape[1], "seconds": time.perf_counter() - start}
    figures |= {"peak_gb": peak_memory() / 1e9, "peak_gb_before": before / 1e9}
    figures["gcn_poisoned"] = accuracy(GCN(), made.apply(graph))
    return figures


# Strength of the drawn features at which a perceptron alone has about 55 % of ogbn-arxiv's test nodes.
ARXIV_SIGNAL = 2.15

if __name__ == "__main__":
    main()
