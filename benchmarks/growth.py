"""How the time of a purification grows with the graph, and how long the small real graphs take.

A degree-corrected block model with the same degrees at every size is purified with the default parameters; the slope of
log seconds against log nodes says how near to linear that is.

    python benchmarks/growth.py [--sizes 10000 30000 100000 300000]
"""

from __future__ import annotations

import argparse

import numpy as np
from record import data_folder, save

from garnet import GARNET, load_graph
from garnet.datasets import block_model, cora


def main() -> None:
    """Run the sizes and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000])
    sizes = options.parse_args().sizes
    GARNET(k=15).purify(block_model(2_000))  # the first call loads libraries
    rows = []
    for n in sizes:
        graph = block_model(n, classes=10, mean_degree=12.0, seed=0)
        result = GARNET(k=15).purify(graph)
        stages = {stage.name: stage.seconds for stage in result.stages}
        rows.append({"nodes": n, "edges": graph.num_edges, "seconds": result.seconds, **stages})
        print({key: round(value, 2) for key, value in rows[-1].items()})
    slope = float(np.polyfit(np.log(sizes), np.log([row["seconds"] for row in rows]), 1)[0])
    print(f"slope {slope:.2f}")
    figures = {"growth": rows, "slope": slope, "small": {"cora": median_seconds(cora())}}
    pubmed = data_folder() / "pubmed" / "pubmed.npz"
    if pubmed.exists():
        figures["small"]["pubmed"] = median_seconds(load_graph(pubmed, symmetrize=True))
    print(figures["small"])
    save("growth", figures)


def median_seconds(graph: object, runs: int = 5) -> float:
    """Median wall time of the default purification."""
    return float(np.median([GARNET().purify(graph).seconds for _ in range(runs)]))


if __name__ == "__main__":
    main()
