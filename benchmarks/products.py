"""A graph of the size of ogbn-products on one GPU: purification stage by stage, then a GCN trained on the result.

The graph is drawn: 2,449,029 nodes in 47 classes, 65 M edges, degrees by a power law (`nested_block_model`). A line of
the paper's source that is not printed has 4 hours for ogbn-products and 40 minutes for ogbn-arxiv, end to end;
ogbn-arxiv is run too where its file is.

The first of the runs compiles the kernels. `parts` is one more run in which every part waits for the GPU before and
after, with the bytes that it must read or the operations that it must do.

    python benchmarks/products.py [--rank 500] [--k 50] [--nodes 2449029] [--device cuda]
    python benchmarks/products.py --family rmat line knn     other graphs of that size, drawn on the device
    python benchmarks/products.py --family rmat --nodes 33554432 --edges 1060000000 --only-default --name billion
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import families
import numpy as np
import torch
from families import FAMILIES
from record import data_folder, save

import garnet.linalg.device_graph
import garnet.neighbors.cell_index
import garnet.neighbors.search
import garnet.purify.memory
import garnet.purify.scores
from garnet import GARNET, Graph
from garnet.backbones import GCN
from garnet.datasets import block_model, class_features, load_graph, nested_block_model, random_split
from garnet.graph.graph import as_graph
from garnet.neighbors.quantizer import Quantizer
from garnet.neighbors.search import choose_neighbors, recall
from garnet.spectral.chebyshev import _Projection
from garnet.spectral.operator import Columns, Operator
from garnet.training.loop import Training, train

MEAN_DEGREE = 70.0


def main() -> None:
    """Run the stages and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rank", type=int, default=500)
    options.add_argument("--k", type=int, default=50)
    options.add_argument("--nodes", type=int, default=2_449_029)
    options.add_argument("--repeats", type=int, default=4)
    options.add_argument("--device", default="cuda")
    options.add_argument(
        "--family", nargs="+", choices=FAMILIES, help="only graphs of these families, with no training"
    )
    options.add_argument("--edges", type=int, default=50_000_000, help="of a graph of a family")
    options.add_argument("--only-default", action="store_true", help="of a graph of a family: only `GARNET()`")
    options.add_argument("--name", default="products-families", help="of the record of families")
    chosen = options.parse_args()
    device = chosen.device
    GARNET(rank=8, k=5).purify(block_model(60_000, seed=1), device=device)  # the first call loads libraries
    purifier = GARNET(rank=chosen.rank, k=chosen.k, support=None, features="none")
    if chosen.family:
        figures: dict[str, Any] = {} if chosen.only_default else {"rank": chosen.rank, "k": chosen.k}
        for family in chosen.family:
            graph, seconds = timed(lambda name=family: families.drawn(name, chosen.nodes, chosen.edges, device=device))
            print(graph, f"drawn in {seconds:.0f} s", flush=True)
            torch.cuda.empty_cache()
            figures[family] = (
                {"graph": repr(graph)} if chosen.only_default else runs(purifier, graph, chosen.repeats, device)[1]
            )
            figures[family]["default"] = defaults(graph, device)
            save(chosen.name, figures)
        return
    start = time.perf_counter()
    graph = nested_block_model(chosen.nodes, mean_degree=MEAN_DEGREE, seed=0)
    print(graph, f"drawn in {time.perf_counter() - start:.0f} s", flush=True)
    cleaned, figures = runs(purifier, graph, chosen.repeats, device)
    figures |= {"rank": chosen.rank, "k": chosen.k}
    file = data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz"
    if file.exists():
        figures["arxiv"] = arxiv(load_graph(file, symmetrize=True), purifier, device)
        print("arxiv", figures["arxiv"], flush=True)
    figures["default"] = defaults(graph, device)
    figures["parts"] = parts(purifier, graph, device)
    print(figures["parts"], flush=True)
    save("products", figures)
    figures["training"] = trained(cleaned, graph, device)
    print(figures["training"], flush=True)
    save("products", figures)


def runs(purifier: GARNET, graph: Graph, repeats: int, device: str) -> tuple[Graph, dict[str, Any]]:
    """The purified graph, and what several purifications cost; with the recall of the search."""
    figures: dict[str, Any] = {"graph": repr(graph), "runs": []}
    for _ in range(repeats):
        result, run = purified(purifier, graph, device)
        figures["runs"].append(run)
        print(run, flush=True)
    points = unit(result.spectrum.embedding)
    points = points[points.abs().amax(dim=1) > 0]  # others have no neighbours
    assert purifier.k
    found = choose_neighbors(len(points), device)(points, purifier.k, seed=0)
    figures["recall of 10,000"] = recall(points, found, sample=10_000, seed=1)
    print("recall", figures["recall of 10,000"], flush=True)
    return result.graph, figures


def defaults(graph: Graph, device: str) -> list[dict[str, float]]:
    """What `GARNET()` costs, twice: the first compiles what is not yet."""
    found = []
    for _ in range(2):
        found.append(purified(GARNET(features="none"), graph, device)[1])
        print("default", found[-1], flush=True)
    return found


def purified(purifier: GARNET, graph: Graph, device: str) -> tuple[Any, dict[str, float]]:
    """A purification, and what it cost."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    result, seconds = timed(lambda: purifier.purify(graph, device=device))
    run = {"seconds": seconds, **{stage.name: stage.seconds for stage in result.stages}}
    run |= {"columns": result.spectrum.products, "residual": float(result.spectrum.residuals.max())}
    run |= {"base edges": result.ledger.base_edges, "edges": result.graph.num_edges, "peak_gb": peak(device)}
    return result, run


def arxiv(graph: Graph, purifier: GARNET, device: str) -> dict[str, Any]:
    """The whole way on ogbn-arxiv, whose words are not public: features are drawn about its classes."""
    purified(purifier, graph, device)  # kernels for points of this many coordinates
    result, run = purified(purifier, graph, device)
    return run | {"training": trained(result.graph, graph, device)}


def trained(cleaned: Graph, graph: Graph, device: str) -> dict[str, Any]:
    """Seconds and accuracy of a GCN of two layers on the whole graph."""
    features = class_features(graph.labels, dim=100, signal=1.5, seed=0)
    split = graph.split or random_split(graph.labels, train=0.08, val=0.02, seed=0)
    ready = as_graph(cleaned, features=features, labels=graph.labels, split=split)
    training = Training(epochs=200, lr=0.01, patience=None)
    (model,), seconds = timed(lambda: train(GCN(), ready, training=training, device=device))
    return {"seconds": seconds, "accuracy": 100 * model.accuracy(), "peak_gb": peak(device)}


def parts(purifier: GARNET, graph: Graph, device: str) -> dict[str, dict[str, float]]:
    """Seconds, calls, and what had to be read or computed, of the parts of one purification."""
    meter, entries, n = Meter(), 2 * graph.num_edges, graph.num_nodes
    meter.watch(Operator, "product", bytes=lambda _, block, **__: 4 * entries * (block.shape[1] + 2))
    meter.watch(Columns, "dot", operations=lambda basis, block: 2 * n * basis.size * block.shape[1])
    meter.watch(Columns, "less", operations=lambda basis, block, _: 2 * n * basis.size * block.shape[1])
    meter.watch(Columns, "rotate", operations=lambda basis, rotation: 2 * n * basis.size * rotation.shape[1])
    meter.watch(_Projection, "ritz_values")
    meter.watch(_Projection, "ritz")
    meter.watch(garnet.neighbors.search, "fit_quantizer")
    meter.watch(Quantizer, "assign")
    meter.watch(garnet.neighbors.cell_index, "nearest", operations=pairs_compared)
    meter.watch(garnet.purify.scores, "squared_distances", bytes=rows_read)
    meter.watch(garnet.purify.scores, "inner_products", bytes=rows_read)
    meter.watch(garnet.purify.memory, "joined")
    purifier.purify(graph, device=device)
    return meter.figures


def rows_read(left: Any, _: Any, edges: Any) -> float:
    """Bytes of the two rows that are read for every edge."""
    return 8 * left.shape[1] * edges.shape[1]


def pairs_compared(points: Any, sizes: Any, ranked: Any, _: int, probes: int) -> float:
    """Operations of three products in half precision for every pair that is compared."""
    return 6 * points.shape[1] * float((sizes.double() * sizes[ranked[:, :probes]].sum(dim=1)).sum())


class Meter:
    """Puts a clock around functions; they stay so."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, float]] = {}

    def watch(self, owner: Any, name: str, **costs: Callable[..., float]) -> None:
        """Time every call of a function, and add up what it must read or compute."""
        work = getattr(owner, name)
        entry = self.figures.setdefault(name, {"seconds": 0.0, "calls": 0, **dict.fromkeys(costs, 0.0)})

        def clocked(*arguments: Any, **named: Any) -> Any:
            for kind, cost in costs.items():
                entry[kind] += cost(*arguments, **named)
            result, seconds = timed(lambda: work(*arguments, **named))
            entry["seconds"] += seconds
            entry["calls"] += 1
            return result

        setattr(owner, name, clocked)


def unit(points: Any) -> Any:
    """Rows of length one."""
    return points / points.norm(dim=1, keepdim=True).clamp_min(np.finfo(np.float32).tiny)


def peak(device: str) -> float:
    """Largest memory of the GPU so far, in GB."""
    return torch.cuda.max_memory_allocated() / 1e9 if device != "cpu" else 0.0


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
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
