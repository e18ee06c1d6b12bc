"""A graph of the size of ogbn-products on one GPU: purification stage by stage, then a GCN trained on the result.

The graph is drawn: 2,449,029 nodes in 47 classes, about 65 M edges, degrees by a power law (`nested_block_model`). The
paper has 4 hours for ogbn-products and 40 minutes for ogbn-arxiv, end to end.

    python benchmarks/products.py [--rank 500] [--k 50] [--nodes 2449029] [--sizes 313 640] [--skip-training]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from record import save

from garnet import GARNET, Graph
from garnet.backbones import GCN
from garnet.datasets import block_model, class_features, nested_block_model, random_split
from garnet.graph import as_graph
from garnet.neighbors import Cells, recall
from garnet.training import Training, train

MEAN_DEGREE = 70.0


def main() -> None:
    """Run the stages and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rank", type=int, default=500)
    options.add_argument("--k", type=int, default=50)
    options.add_argument("--nodes", type=int, default=2_449_029)
    options.add_argument("--sizes", type=int, nargs="*", default=[], help="sizes of cells to try before")
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--skip-training", action="store_true")
    options.add_argument("--device", default="cuda")
    chosen = options.parse_args()
    start = time.perf_counter()
    graph = nested_block_model(chosen.nodes, mean_degree=MEAN_DEGREE, seed=0)
    print(graph, f"drawn in {time.perf_counter() - start:.0f} s", flush=True)
    purifier = GARNET(rank=chosen.rank, k=chosen.k, support=None, features="none", device=chosen.device)
    GARNET(rank=8, k=5, device=chosen.device).purify(block_model(60_000, seed=1))  # the first call loads libraries
    figures: dict[str, Any] = {"graph": repr(graph), "rank": chosen.rank, "k": chosen.k, "runs": []}
    for _ in range(chosen.repeats):
        result, seconds = timed(lambda: purifier.purify(graph))
        run = {"seconds": seconds, **{stage.name: stage.seconds for stage in result.stages}}
        run |= {"products": result.spectrum.products, "residual": float(result.spectrum.residuals.max())}
        run |= {"base edges": int(result.near.sum()), "peak_gb": peak(chosen.device)}
        figures["runs"].append(run)
        print(run, flush=True)
    points = unit(result.spectrum.embedding)
    for size in (None, *chosen.sizes):
        search = Cells(size=size)
        found, seconds = timed(lambda s=search: s(points, chosen.k, seed=0))
        entry = {"seconds": seconds, "recall": recall(points, found, sample=10_000, seed=1)}
        figures[f"cells of {size or 'default'}"] = entry
        print(size, entry, flush=True)
    if not chosen.skip_training:
        figures["training"] = trained(result.graph, graph, chosen.device)
        print(figures["training"], flush=True)
    save("products", figures)


def trained(purified: Graph, graph: Graph, device: str) -> dict[str, Any]:
    """Seconds and accuracy of a GCN of two layers on the whole graph."""
    features = class_features(graph.labels, dim=100, signal=1.5, seed=0)
    split = random_split(graph.labels, train=0.08, val=0.02, seed=0)
    ready = as_graph(purified, features=features, labels=graph.labels, split=split)
    training = Training(epochs=200, lr=0.01, patience=None)
    (model,), seconds = timed(lambda: train(GCN(), ready, training=training, device=device))
    return {"seconds": seconds, "accuracy": 100 * model.accuracy(), "peak_gb": peak(device)}


def unit(points: Any) -> Any:
    """Rows of length one."""
    return points / points.norm(dim=1, keepdim=True).clamp_min(np.finfo(np.float32).tiny)


def peak(device: str) -> float:
    """Largest memory of the GPU so far, in GB."""
    return torch.cuda.max_memory_allocated() / 1e9 if device != "cpu" else 0.0


def timed(work: Any) -> tuple[Any, float]:
    """What the work gives, and the seconds it took."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
