"""Peak resident memory of a whole purification of ogbn-arxiv, by stage; nothing else runs in this process.

python benchmarks/memory.py [--rank 50] [--k 50]
"""

from __future__ import annotations

import argparse

from record import data_folder, save

from garnet import GARNET, load_graph
from garnet.machine import peak_memory


def main() -> None:
    """Purify once and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rank", type=int, default=50)
    options.add_argument("--k", type=int, default=50)
    chosen = options.parse_args()
    graph = load_graph(data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz", symmetrize=True)
    read = peak_memory()
    result = GARNET(rank=chosen.rank, k=chosen.k).purify(graph)
    stages = {stage.name: {"seconds": stage.seconds, "peak_gb": stage.peak_bytes / 1e9} for stage in result.stages}
    figures = {"graph": repr(graph), "purified": repr(result.graph), "after_reading_gb": read / 1e9, "stages": stages}
    print(figures)
    save(f"memory-r{chosen.rank}", figures)


if __name__ == "__main__":
    main()
