"""Graphs larger than the memory that is allowed: time of each stage, and the memory that the process held at most.

    python benchmarks/disk.py products [--memory 8GB] [--rank 128] [--k 50] [--folder F]
    python benchmarks/disk.py arxiv [--memory 4GB] [--rank 500] [--k 50]
    python benchmarks/disk.py products --default

`products` is drawn (`nested_block_model`): 2,449,029 nodes in 47 classes, about 65 M edges, degrees by a power law; it
is made once, as .npz, in the folder. Every run is a process of its own, so that its memory is counted from nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from record import data_folder, save

GRAPHS = {"products": {"memory": "8GB", "rank": 128}, "arxiv": {"memory": "4GB", "rank": 500}}

DRAW = """
import sys
import numpy as np
from garnet.datasets import nested_block_model
adjacency = nested_block_model(2_449_029, mean_degree=70.0, seed=0).adjacency
np.savez(sys.argv[1], format=b"csr", shape=np.array(adjacency.shape), data=adjacency.data,
         indices=adjacency.indices, indptr=adjacency.indptr)
"""

PURIFY = """
import json, sys
from garnet import GARNET, OnDisk
from garnet.machine import peak_memory
options = json.loads(sys.argv[1])
papers = {"rank": options["rank"], "k": options["k"], "support": None}
purifier = GARNET(features="none", **({} if options["default"] else papers))
place = OnDisk(memory=options["memory"], output=options["output"])
result = purifier.purify(options["source"], place=place, symmetrize=True,
                         progress=lambda step: step.detail or print(step, file=sys.stderr, flush=True))
print(json.dumps({**result.summary(), "peak_bytes": peak_memory()}))
"""


def main() -> None:
    """Purify one graph and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graph", choices=GRAPHS)
    options.add_argument("--memory")
    options.add_argument("--rank", type=int)
    options.add_argument("--k", type=int, default=50)
    options.add_argument("--default", action="store_true", help="the default of GARNET instead of the paper's way")
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "garnet-disk")
    chosen = options.parse_args()
    chosen.folder.mkdir(exist_ok=True)
    source = data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz"
    if chosen.graph == "products":
        source = chosen.folder / "products.npz"
        if not source.exists():
            unfinished = chosen.folder / "unfinished.npz"
            subprocess.run([sys.executable, "-c", DRAW, str(unfinished)], check=True)
            unfinished.rename(source)
    output = chosen.folder / f"purified-{chosen.graph}"
    shutil.rmtree(output, ignore_errors=True)
    defaults = GRAPHS[chosen.graph]
    asked = {"memory": chosen.memory or defaults["memory"], "rank": chosen.rank or defaults["rank"], "k": chosen.k}
    asked |= {"source": str(source), "output": str(output), "default": chosen.default}
    done = subprocess.run([sys.executable, "-c", PURIFY, json.dumps(asked)], check=True, stdout=subprocess.PIPE)
    figures = json.loads(done.stdout)
    print(json.dumps({name: figures[name] for name in ("seconds", "peak_bytes", "parts", "edges_after")}))
    for stage in figures["stages"]:
        print(stage)
    save(f"disk-{chosen.graph}{'-default' if chosen.default else ''}", {"memory": asked["memory"], **figures})
    shutil.rmtree(output, ignore_errors=True)


if __name__ == "__main__":
    main()
