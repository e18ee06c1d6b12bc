"""Neighbourhoods of attacked nodes of Cora: clean, under Nettack with five edges a target, and purified.

Needs the published poison of the data folder. The first node is the one that the paper draws, 1255; the others are the
first, in a random order of the targets, whose neighbourhoods are small enough to be looked at: whom purification served
well or badly plays no part. For each graph the record has the nodes within two edges, which of them have the target's
label, and the edges among them by what became of them; and for all targets, how much of the attack was undone.

    python benchmarks/neighbourhoods.py
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from record import save

from garnet import GARNET, Graph
from garnet.datasets import load, poisoned
from garnet.graph.edges import contains

PAPERS, OTHERS, SEED = 1255, 2, 0
FEWEST, MOST = 6, 60  # nodes within two edges in the clean graph


def main() -> None:
    """Purify Cora under Nettack, choose three targets and write what surrounds them."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    clean, attacked = load("cora"), poisoned("cora", attack="nettack", budget=5)
    result = GARNET().purify(attacked)
    graphs = {"clean": clean, "attacked": attacked, "purified": result.graph}
    targets = np.sort(attacked.split.test)
    shuffled = np.random.default_rng(SEED).permutation(targets)
    fitting = [node for node in shuffled if node != PAPERS and FEWEST <= len(within_two(clean, node)) <= MOST]
    chosen = [PAPERS, *fitting[:OTHERS]]
    written = attacked.edges[:, ~contains(clean.edges, attacked.edges, clean.num_nodes)]
    figures = {
        "graph": "cora",
        "attack": "nettack",
        "budget": 5,
        "purifier": "garnet",
        "targets": len(targets),
        "seed": SEED,
        "attack_edges": written.shape[1],
        "attack_edges_dropped": result.ledger.share_dropped(written),
        "same_label_neighbours": {name: same_label(graph, targets) for name, graph in graphs.items()},
        "neighbourhoods": [
            {"node": int(node), "views": {name: view(graph, node, clean, attacked) for name, graph in graphs.items()}}
            for node in chosen
        ],
    }
    save("neighbourhoods", figures)


def within_two(graph: Graph, node: int) -> dict[int, int]:
    """The nodes within two edges of one, with how many edges away each is."""
    hops = {int(node): 0}
    for hop in (1, 2):
        for inner in [one for one, far in hops.items() if far == hop - 1]:
            for neighbour in neighbours(graph, inner):
                hops.setdefault(int(neighbour), hop)
    return hops


def neighbours(graph: Graph, node: int) -> np.ndarray:
    """The nodes that share an edge with one."""
    return graph.adjacency.indices[graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]]


def view(graph: Graph, node: int, clean: Graph, attacked: Graph) -> dict[str, Any]:
    """What a figure shows of one node in one graph: nodes as [id, hops, same label], edges as [u, v, origin]."""
    hops = within_two(graph, node)
    inside = np.isin(graph.edges, list(hops)).all(axis=0)
    edges = graph.edges[:, inside]
    true, given = (contains(some.edges, edges, graph.num_nodes) for some in (clean, attacked))
    origin = np.where(true, "clean", np.where(given, "attack", "new"))
    alike = graph.labels == graph.labels[node]
    return {
        "nodes": [[one, far, bool(alike[one])] for one, far in hops.items()],
        # Edges among the outermost nodes only clutter the picture.
        "edges": [
            [int(u), int(v), str(how)]
            for (u, v), how in zip(edges.T, origin, strict=True)
            if min(hops[int(u)], hops[int(v)]) < 2
        ],
    }


def same_label(graph: Graph, targets: np.ndarray) -> float:
    """Share of the neighbours of targets that have the target's label, mean over the targets that have any."""
    shares = [
        float((graph.labels[near] == graph.labels[node]).mean())
        for node in targets
        if len(near := neighbours(graph, node))
    ]
    return float(np.mean(shares))


if __name__ == "__main__":
    main()
