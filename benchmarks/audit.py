"""How well the audit finds the edges of an attack, against single scores, where the truth is known.

The published poisons of Metattack and Nettack, and attacks of our own on Cora. For every score the area under the ROC
curve and the average precision of telling the attack's edges from the others. Then what the audit says of the clean
graphs: how many edges it doubts there is its rate of false alarms. `null` is what it says of the clean graph when all
of its edges are rewired at random with all degrees kept, as far as that is possible. Histograms are of the log-odds of
suspicion, from -12 to 12 in steps of 1.

    python benchmarks/audit.py [--graphs cora citeseer pubmed chameleon squirrel]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from record import data_folder, save
from scipy.stats import rankdata

from garnet import Graph, as_graph
from garnet.attacks import DICE, GRBCD, PRBCD, LowBlow, Random
from garnet.audit import Audit, audit
from garnet.datasets import load, poisoned
from garnet.graph.edges import canonical, contains
from garnet.graph.perturbation import Perturbation
from garnet.linalg.sparse import normalized_matrix

PERTURBATIONS = Path(__file__).parents[1] / "perturbations"
POISONS = {"metattack": 0.2, "nettack": 5}
OURS = {"Random": Random(), "DICE": DICE(), "GRBCD": GRBCD(), "PRBCD": PRBCD(), "LowBlow": LowBlow()}


def main() -> None:
    """Audit every graph and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--graphs", nargs="+", default=["cora", "citeseer", "pubmed", "chameleon", "squirrel"])
    chosen = options.parse_args()
    data_folder()
    figures: dict[str, Any] = {}
    for name in chosen.graphs:
        for attack, budget in POISONS.items():
            clean, attacked = (poisoned(name, attack=attack, budget=amount) for amount in (0, budget))
            figures[f"{name} {attack} {budget}"] = compared(clean, attacked)
            print(f"{name} {attack}", figures[f"{name} {attack} {budget}"], flush=True)
        figures[f"{name} clean"] = untouched(clean)
        print(f"{name} clean", figures[f"{name} clean"], flush=True)
    if "cora" in chosen.graphs:
        clean = load("cora")
        attacks = {f"{name} 10%": maker(clean, budget="10%", seed=0) for name, maker in OURS.items()}
        attacks["LowBlow 20%"] = Perturbation.load(PERTURBATIONS / "cora-lowblow-0.2.npz")
        attacks["our Metattack 20%"] = Perturbation.load(PERTURBATIONS / "cora-metattack-0.2.npz")
        attacks["our Nettack 5"] = Perturbation.load(PERTURBATIONS / "cora-nettack-5.npz")
        for attack, perturbation in attacks.items():
            figures[f"cora {attack}"] = compared(clean, perturbation.apply(clean))
            print(attack, figures[f"cora {attack}"], flush=True)
    save("audit", figures)


def compared(clean: Graph, attacked: Graph) -> dict[str, Any]:
    """What the audit finds of an attack, and what single scores find."""
    false = ~contains(clean.edges, attacked.edges, clean.num_nodes)
    start = time.perf_counter()
    found = audit(attacked)
    seconds = time.perf_counter() - start
    bare = audit(as_graph(attacked.adjacency, features=attacked.features))
    scores = {"audit": found.suspicion, "audit without labels": bare.suspicion, **singles(attacked, found)}
    figures = {name: {"auc": area(score, false), "ap": precision(score, false)} for name, score in scores.items()}
    doubted = found.suspicion > 0.5
    return {
        "edges": attacked.num_edges, "false": float(false.mean()), "share": found.share, "power": found.power,
        "doubted": float(doubted.mean()), "doubted of false": float(doubted[false].mean()),
        "doubted of true": float(doubted[~false].mean()),
        "false alarms": float((~false & doubted).sum()) / max(int(doubted.sum()), 1),
        "false alarms, estimated": found.false_alarms, "seconds": seconds, "weights": dict(found.weights),
        "histogram": {"true": histogram(found.suspicion[~false]), "made up": histogram(found.suspicion[false])},
        "scores": figures,
    }  # fmt: skip


def untouched(clean: Graph) -> dict[str, Any]:
    """What the audit says of a clean graph, and of the same with its edges rewired."""
    found, null = audit(clean), audit(rewired(clean))
    return {
        "share": found.share, "doubted": float((found.suspicion > 0.5).mean()), "power": found.power,
        "null share": null.share, "null doubted": float((null.suspicion > 0.5).mean()), "null power": null.power,
        "histogram": {"clean": histogram(found.suspicion), "planted": histogram(found.planted)},
        "null histogram": {"rewired": histogram(null.suspicion), "planted": histogram(null.planted)},
    }  # fmt: skip


def histogram(suspicion: NDArray[Any]) -> list[int]:
    """How many edges have log-odds in each step of 1, those beyond the ends in the first and the last."""
    share = np.clip(suspicion, 1e-12, 1 - 1e-12)
    odds = np.clip(np.log(share / (1 - share)), -11.999, 11.999)
    return np.histogram(odds, np.arange(-12, 13))[0].tolist()


def rewired(graph: Graph) -> Graph:
    """A graph of the configuration model: ends of edges are joined at random, loops and repeated pairs left out."""
    ends = np.random.default_rng(0).permutation(graph.edges.ravel()).reshape(2, -1)
    ends = ends[:, ends[0] != ends[1]]
    return graph.with_edges(canonical(ends[0], ends[1], graph.num_nodes))


def singles(graph: Graph, found: Audit) -> dict[str, NDArray[Any]]:
    """The obvious scores of an edge, the larger the more suspicious."""
    first, second = graph.edges
    features = sp.csr_array(graph.features).astype(np.float64)
    degrees = graph.degrees
    both = np.log(degrees[first] * degrees[second])
    return {
        "Jaccard of features": -jaccard(features, first, second),
        "cosine of features": -cosine(features, first, second),
        "spectral distance": found.reasons["spectral_distance"],
        "gradient of the graphical model": found.reasons["gradient"],
        "shared neighbours": -found.reasons["shared_neighbors"],
        "degree product, small": -both,
        "degree product, large": both,
        "gradient of a GCN": gcn_gradient(graph),
    }


def jaccard(features: sp.csr_array, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Words that both nodes have, over those that one has."""
    there = (features != 0).astype(np.float64)
    counts = np.asarray(there.sum(axis=1)).ravel()
    common = np.asarray(there[first].multiply(there[second]).sum(axis=1)).ravel()
    return common / np.maximum(counts[first] + counts[second] - common, 1)


def cosine(features: sp.csr_array, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Cosine of two rows."""
    lengths = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    inner = np.asarray(features[first].multiply(features[second]).sum(axis=1)).ravel()
    return inner / np.maximum(lengths[first] * lengths[second], 1e-12)


def gcn_gradient(graph: Graph) -> NDArray[Any]:
    """By how much the loss of a trained GCN of two layers on its training nodes would fall without an edge."""
    generator = torch.Generator().manual_seed(0)
    features = torch.from_numpy(sp.csr_array(graph.features).toarray()).float()
    labels, train = torch.from_numpy(graph.labels), torch.from_numpy(graph.split.train)
    edges = torch.from_numpy(graph.edges)
    weights = torch.ones(edges.shape[1])
    shapes = ((features.shape[1], 16), (16, int(labels.max()) + 1))
    layers = [(torch.randn(*shape, generator=generator) / shape[0] ** 0.5).requires_grad_() for shape in shapes]
    optimizer = torch.optim.Adam(layers, lr=0.01, weight_decay=5e-4)

    def loss(matrix: Any) -> Any:
        hidden = torch.relu(matrix @ (features @ layers[0]))
        return torch.nn.functional.cross_entropy((matrix @ (hidden @ layers[1]))[train], labels[train])

    matrix = normalized_matrix(edges, weights, graph.num_nodes)
    for _ in range(200):
        optimizer.zero_grad()
        loss(matrix).backward()
        optimizer.step()
    weights.requires_grad_()
    loss(normalized_matrix(edges, weights, graph.num_nodes)).backward()
    return weights.grad.numpy()


def area(score: NDArray[Any], false: NDArray[np.bool_]) -> float:
    """Area under the ROC curve."""
    ranks, count = rankdata(score), int(false.sum())
    return float((ranks[false].sum() - count * (count + 1) / 2) / (count * (len(false) - count)))


def precision(score: NDArray[Any], false: NDArray[np.bool_]) -> float:
    """Average precision."""
    ordered = false[np.argsort(-score, kind="stable")]
    return float((np.cumsum(ordered) / np.arange(1, len(ordered) + 1))[ordered].mean())


if __name__ == "__main__":
    main()
