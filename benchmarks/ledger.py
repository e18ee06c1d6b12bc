"""What purification does to published poisoned graphs: edges dropped and kept, homophily, neighbourhoods recovered.

Needs the graphs of the data folder. For each: the share of the attack's edges that is dropped and of the true edges
that is kept, the homophily of the purified graph (table 11 of the paper), and recall and precision of two-hop
neighbourhoods of the clean graph, mean over 500 random nodes (table 12, which has the mean over five).

    python benchmarks/ledger.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import data_folder, save

from garnet import GARNET, Graph, as_graph, load_graph
from garnet.graph.edges import contains

CASES = {
    "cora metattack 20%": ("cora", "cora/cora_lcc.npz", "cora/cora_meta_adj_0.2.npz", "metattack"),
    "cora nettack 5": ("cora", "cora/cora_lcc.npz", "cora/cora_nettack_adj_5.0.npz", "nettack"),
    "citeseer metattack 20%": (
        "citeseer", "citeseer/citeseer_lcc.npz", "citeseer/citeseer_meta_adj_0.2.npz", "metattack"
    ),
    "citeseer nettack 5": ("citeseer", "citeseer/citeseer_lcc.npz", "citeseer/citeseer_nettack_adj_5.0.npz", "nettack"),
    "pubmed metattack 20%": ("pubmed", "pubmed/pubmed.npz", "pubmed/pubmed_meta_adj_0.2.npz", "metattack"),
    "chameleon metattack 20%": (
        "chameleon", "chameleon/chameleon_full.npz", "chameleon/chameleon_perturbed_0.2.npz", "metattack"
    ),
    "squirrel metattack 20%": (
        "squirrel", "squirrel/squirrel_full.npz", "squirrel/squirrel_perturbed_0.2.npz", "metattack"
    ),
}  # fmt: skip


def main() -> None:
    """Purify every case with the default, the authors' parameters and the full distortion; write the record."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    folder = data_folder()
    rows: dict[str, Any] = {}
    for name, (dataset, clean_file, poisoned_file, attack) in CASES.items():
        clean = load_graph(folder / clean_file, symmetrize=True)
        poisoned = attacked(clean, folder / poisoned_file)
        backbone = "gcn" if dataset in ("cora", "citeseer", "pubmed") else "gprgnn"
        rows[name] = {"homophily": {"clean": clean.homophily, "poisoned": poisoned.homophily}}
        kept = 1 - GARNET().purify(clean).ledger.share_dropped(clean.edges)
        rows[name]["clean graph"] = {"true_edges_kept": kept}
        print(name, "clean graph", round(kept, 3))
        settings = {
            "default": GARNET(),
            "paper": GARNET.paper(dataset, backbone, attack=attack),
            "distortion": GARNET(score="distortion", k=15, support=0.3),
            "distortion, neighbours alone": GARNET(score="distortion", k=15, support=None),
        }
        for setting, purifier in settings.items():
            rows[name][setting] = measure(clean, poisoned, purifier)
            print(name, setting, {key: round(value, 3) for key, value in rows[name][setting].items()}, flush=True)
    save("ledger", rows)


def attacked(clean: Graph, path: Path) -> Graph:
    """The clean graph's nodes with the edges of the attacker."""
    return as_graph(load_graph(path, symmetrize=True), features=clean.features, labels=clean.labels)


def measure(clean: Graph, poisoned: Graph, purifier: GARNET) -> dict[str, float]:
    """The figures of one purification."""
    result = purifier.purify(poisoned)
    true = contains(clean.edges, poisoned.edges, clean.num_nodes)
    recall, precision = recovered(clean, result.graph)
    return {
        "attack_edges_dropped": result.ledger.share_dropped(poisoned.edges[:, ~true]),
        "true_edges_kept": 1 - result.ledger.share_dropped(poisoned.edges[:, true]),
        "new_edges": result.ledger.added.shape[1],
        "homophily": result.graph.homophily or 0.0,
        "two_hop_recall": recall,
        "two_hop_precision": precision,
        "seconds": result.seconds,
    }


def recovered(clean: Graph, purified: Graph, sample: int = 500) -> tuple[float, float]:
    """Recall and precision of the nodes within two hops."""
    nodes = np.random.default_rng(0).choice(clean.num_nodes, sample, replace=False)
    truth, found = (within_two_hops(graph, nodes) for graph in (clean, purified))
    both = np.asarray(truth.multiply(found).sum(axis=1)).ravel()
    known = np.asarray(truth.sum(axis=1)).ravel()
    got = np.asarray(found.sum(axis=1)).ravel()
    return float((both[known > 0] / known[known > 0]).mean()), float((both[got > 0] / got[got > 0]).mean())


def within_two_hops(graph: Graph, nodes: np.ndarray) -> sp.csr_array:
    """0/1 rows: which nodes are within two edges of each of `nodes`, itself left out."""
    adjacency = graph.adjacency.astype(bool).astype(np.float32)
    one = adjacency[nodes]
    reach = (one + one @ adjacency).tocoo()
    others = reach.col != nodes[reach.row]
    entries = np.ones(int(others.sum()), dtype=np.float32)
    return sp.coo_array((entries, (reach.row[others], reach.col[others])), reach.shape).tocsr()


if __name__ == "__main__":
    main()
