"""What a benchmark leaves behind: its figures with the machine, the versions and the command that made them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from garnet.datasets import load
from garnet.graph.graph import Graph
from garnet.io.atomic import atomic_path
from garnet.machine import machine, versions

RESULTS = Path(__file__).resolve().parents[1] / "results"


def data_folder() -> Path:
    """The folder with real graphs: `GARNET_DATA`, or the one that lies beside the checkout."""
    return Path(os.environ.get("GARNET_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def real_graph(name: str) -> Graph:
    """A graph with the split that its records have, also for processes that are started later."""
    os.environ["GARNET_DATA"] = str(data_folder())
    # Asked for by its name, this one is refused where its file is missing, instead of being replaced by a random one.
    return load(name, split="prognn" if name in ("cora", "citeseer", "pubmed") else None)


def save(name: str, figures: dict[str, Any]) -> None:
    """Write one JSON file under `results/` and say where."""
    record = {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *map(portable, sys.argv[1:])]),
        "machine": machine(),
        "versions": versions(("numpy", "scipy", "torch", "hnswlib", "pygarnet")),
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    with atomic_path(path) as unfinished:
        unfinished.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {path.relative_to(RESULTS.parent)}")


def portable(argument: str) -> str:
    """A file by its name alone: where it lay means nothing on another machine."""
    return Path(argument).name if Path(argument).is_absolute() else argument
