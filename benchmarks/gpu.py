"""Every stage on one GPU against the same stage on the CPU beside it, and whether both give the same graph.

python benchmarks/gpu.py [--ranks 50 500]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import torch
from record import data_folder, save

from garnet import GARNET, Graph, InMemory, load_graph
from garnet.datasets import cora
from garnet.graph.edges import contains
from garnet.neighbors.search import Cells, Exact, recall
from garnet.spectral import Arpack, Chebyshev
from garnet.spectral.spectrum import normalized_adjacency


def main() -> None:
    """Run the comparison and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, nargs="+", default=[50, 500])
    chosen = options.parse_args()
    graph = load_graph(data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz", symmetrize=True)
    purifier = GARNET(features="low-rank")
    figures: dict[str, Any] = {"graph": repr(graph), "agreement": {"cora": agreement(cora(), purifier)}}
    bare = replace(purifier, features="none", rank=50, k=15, tau="mean")
    figures["agreement"]["arxiv"] = agreement(Graph(graph.adjacency), bare)
    print(figures["agreement"])
    for rank in chosen.ranks:
        figures[f"rank {rank}"] = stages(graph, rank)
        print(rank, figures[f"rank {rank}"])
    save("cuda", figures)


def agreement(graph: Graph, purifier: GARNET) -> dict[str, float]:
    """How near the GPU's spectrum and graph come to those of the CPU."""
    solver = Chebyshev(tol=1e-5)
    ours = purifier.purify(graph, place=InMemory(device="cuda", solver=solver, neighbors=Exact()))
    solver = Arpack() if graph.num_nodes < 10_000 else solver
    theirs = purifier.purify(graph, place=InMemory(solver=solver, neighbors=Exact()))
    cosines = torch.linalg.svdvals(ours.spectrum.vectors.double().cpu().T @ theirs.spectrum.vectors.double())
    shared = int(contains(theirs.graph.edges, ours.graph.edges, graph.num_nodes).sum())
    either = ours.graph.num_edges + theirs.graph.num_edges - shared
    return {"least_cosine": float(cosines.min()), "edge_jaccard": shared / either}


def stages(graph: Graph, rank: int, k: int = 50) -> dict[str, Any]:
    """Seconds of the eigensolver and of both searches, on the GPU and on the CPU."""
    matrix = normalized_adjacency(graph)
    result: dict[str, Any] = {}
    for device in ("cuda", "cpu"):
        spectrum, embed = timed(lambda d=device: Chebyshev()(matrix, rank, end="magnitude", seed=0, device=d), device)
        points = spectrum.embedding
        found, cells = timed(lambda p=points: Cells()(p, k, seed=0), device)
        figures = {"embed": embed, "products": spectrum.products, "residual": float(spectrum.residuals.max())}
        figures |= {"cells": cells, "recall": recall(points, found)}
        if device == "cuda":
            figures["exact"] = timed(lambda p=points: Exact()(p, k, seed=0), device)[1]
            figures["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
        result[device] = figures
    return result


def timed(work: Any, device: str) -> tuple[Any, float]:
    """What the work gives, and the seconds it took; on a GPU the second time, as the first compiles its kernels."""
    if device == "cuda":
        work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
