"""Whether the same graph comes out for any number of threads, and for any order of the nodes.

Each run is a process of its own. Compared are the bytes of the purified graph, edges and weights; for permutations, the
share of edges that two purified graphs have in common among all that either has, mean over three permutations. Needs
the graphs of the data folder.

    python benchmarks/determinism.py
    python -m tools.tables              writes its table into docs/reliability.md
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import torch
from record import data_folder, save

from garnet import GARNET, Graph, load_graph
from garnet.datasets import cora, nested_block_model

FILES = {
    "Cora": "cora/cora_lcc.npz",
    "Citeseer": "citeseer/citeseer_lcc.npz",
    "polblogs": "polblogs/polblogs.npz",
    "Chameleon": "chameleon/chameleon_full.npz",
    "Squirrel": "squirrel/squirrel_full.npz",
    "Pubmed": "pubmed/pubmed.npz",
}
DRAWN = "drawn, 20,000 nodes"
THREADS = (1, 2, 4)


def graph_of(name: str) -> Graph:
    """One of the graphs that are compared."""
    if name == DRAWN:
        return nested_block_model(20_000, mean_degree=10, seed=0)
    return load_graph(data_folder() / FILES[name], symmetrize=True)


def digest(name: str, threads: int) -> str:
    """The purified graph in a few letters, made by a process with so many threads."""
    line = [sys.executable, __file__, name, str(threads)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    return subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def purified(name: str, threads: int) -> str:
    """What that process does."""
    torch.set_num_threads(threads)
    matrix = GARNET().purify(graph_of(name)).graph.adjacency
    return hashlib.sha256(b"".join(part.tobytes() for part in (matrix.indptr, matrix.indices, matrix.data))).hexdigest()


def numbered(edges: np.ndarray, n: int) -> np.ndarray:
    """An edge as one number."""
    return np.minimum(*edges).astype(np.int64) * n + np.maximum(*edges)


def shared_after_permutations(purifier: GARNET, graph: Graph) -> float:
    """Share of edges in common, mean over three permutations."""
    expected, shares = numbered(purifier.purify(graph).graph.edges, graph.num_nodes), []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(graph.num_nodes)
        shuffled = replace(
            graph,
            adjacency=graph.adjacency[order][:, order].tocsr(),
            features=graph.features[order],
            labels=graph.labels[order],
            split=None,
        )
        found = numbered(order[purifier.purify(shuffled).graph.edges], graph.num_nodes)
        shares.append(len(np.intersect1d(expected, found)) / len(np.union1d(expected, found)))
    return float(np.mean(shares))


def equal_points(graph: Graph) -> int:
    """Pairs of nodes whose unit rows of the spectral embedding are the same to 1e-6."""
    points = torch.nn.functional.normalize(GARNET(features="none").embed(graph).embedding.double())
    near = torch.cdist(points, points) < 1e-6
    return int(near.triu(1).sum())


def main() -> None:
    """Compare, and write the record."""
    if len(sys.argv) == 3:
        print(purified(sys.argv[1], int(sys.argv[2])))
        return
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    same: dict[str, list[int]] = {}
    for name in (*FILES, DRAWN):
        found = [digest(name, threads) for threads in THREADS]
        same[name] = [threads for threads, one in zip(THREADS, found, strict=True) if one == found[0]]
        print(name, same[name], flush=True)
    graph = cora()
    figures = {
        "same_bytes_as_one_thread": same,
        "cora_shared_after_permutation": {
            "with features": shared_after_permutations(GARNET(), graph),
            "without features": shared_after_permutations(GARNET(features="none"), graph),
        },
        "cora_pairs_of_nodes_at_one_point": equal_points(graph),
    }
    save("determinism", figures)


if __name__ == "__main__":
    main()
