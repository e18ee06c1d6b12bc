"""The audit on a GPU: the same as on the CPU, how well it finds GR-BCD's edges in ogbn-arxiv, and at what size.

ogbn-arxiv has features drawn about its classes, as in `benchmarks/arxiv.py`; a quarter of its edges are GR-BCD's. The
largest graph is drawn, of the size of ogbn-products, without features.

    python benchmarks/audit_cuda.py [--nodes 2449029] [--device cuda] [--cpu-nodes 200000]
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
import torch
from arxiv import SIGNAL, attacked
from audit import area, precision
from record import data_folder, save

from garnet.audit import Audit, audit
from garnet.datasets import class_features, cora, load, nested_block_model
from garnet.graph.edges import contains
from garnet.graph.graph import Graph, as_graph


def main() -> None:
    """Audit three graphs and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=2_449_029)
    options.add_argument("--device", default="cuda")
    options.add_argument("--cpu-nodes", type=int, default=200_000, help="graphs up to this size are compared")
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    plain = load("ogbn-arxiv")
    clean = as_graph(plain, features=class_features(plain.labels, dim=128, signal=SIGNAL, seed=0))
    poisoned = attacked(clean, "25%", chosen.device)
    figures: dict[str, Any] = {}
    for name, graph in (("cora", cora()), ("ogbn-arxiv", clean), ("ogbn-arxiv, GRBCD 25%", poisoned)):
        audited(graph, chosen.device)  # the first call compiles kernels
        ours, figures[name] = audited(graph, chosen.device)
        theirs, there = audited(graph, "cpu") if graph.num_nodes <= chosen.cpu_nodes else (None, {})
        figures[name] |= {} if theirs is None else {
            "seconds on the CPU": there["seconds"], "power on the CPU": theirs.power,
            "correlation": float(np.corrcoef(ours.suspicion, theirs.suspicion)[0, 1]),
            "same verdict": float((ours.doubted == theirs.doubted).mean()),
        }  # fmt: skip
        if graph is poisoned:
            false = ~contains(clean.edges, graph.edges, graph.num_nodes)
            figures[name] |= {
                "false": float(false.mean()),
                "auc": area(ours.suspicion, false),
                "ap": precision(ours.suspicion, false),
                "doubted of false": float(ours.doubted[false].mean()),
                "doubted of true": float(ours.doubted[~false].mean()),
            }  # fmt: skip
        print(name, figures[name], flush=True)
        save("audit-cuda", figures)
    large = nested_block_model(chosen.nodes, mean_degree=70.0, seed=0)
    figures["drawn"] = audited(large, chosen.device)[1]
    print("drawn", figures["drawn"], flush=True)
    save("audit-cuda", figures)


def audited(graph: Graph, device: str) -> tuple[Audit, dict[str, Any]]:
    """An audit, and what it cost."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    found = audit(graph, device=device)
    seconds = time.perf_counter() - start
    figures = {"graph": repr(graph), "seconds": seconds} | {stage.name: stage.seconds for stage in found.stages}
    figures |= {"peak_gb": 0.0 if device == "cpu" else torch.cuda.max_memory_allocated() / 1e9}
    return found, figures | {"doubted": float(found.doubted.mean()), "share": found.share, "power": found.power}


if __name__ == "__main__":
    main()
