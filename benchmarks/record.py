"""What a benchmark leaves behind: its figures with the machine, the versions and the command that made them.

A record goes to the folder `.results`, which git ignores, and with GARNET_COMMIT_RECORDS=1 to `results`, whose records
the pages are made of:

    python benchmarks/growth.py                              # has a look
    GARNET_COMMIT_RECORDS=1 python benchmarks/growth.py      # changes what the pages say
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from garnet.datasets import load
from garnet.graph.graph import Graph
from garnet.io.atomic import atomic_path
from garnet.machine import machine, versions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
COMMIT = "GARNET_COMMIT_RECORDS"


def folder() -> Path:
    """Where records are written: a scratch folder, unless the environment says that they are to be committed."""
    return RESULTS if os.environ.get(COMMIT) == "1" else ROOT / ".results"


def so_far(file: str) -> Path:
    """The file of a record that more is added to; in the scratch folder it begins as a copy of the committed one."""
    path, committed = folder() / file, RESULTS / file
    path.parent.mkdir(exist_ok=True)
    if not path.exists() and committed.exists():
        with atomic_path(path) as unfinished:
            shutil.copyfile(committed, unfinished)
    return path


def data_folder() -> Path:
    """The folder with real graphs: `GARNET_DATA`, or the one that lies beside the checkout."""
    return Path(os.environ.get("GARNET_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def real_graph(name: str) -> Graph:
    """A graph with the split that its records have, also for processes that are started later."""
    os.environ["GARNET_DATA"] = str(data_folder())
    # Asked for by its name, this one is refused where its file is missing, instead of being replaced by a random one.
    return load(name, split="prognn" if name in ("cora", "citeseer", "pubmed") else None)


def save(name: str, figures: dict[str, Any]) -> None:
    """Write one JSON file into the folder of records and say where."""
    record = {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *map(portable, sys.argv[1:])]),
        "machine": machine(),
        "versions": versions(("numpy", "scipy", "torch", "hnswlib", "pygarnet")),
        "figures": figures,
    }
    path = folder() / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    with atomic_path(path) as unfinished:
        unfinished.write_text(json.dumps(record, indent=1) + "\n")
    hint = "" if folder() == RESULTS else f"; with {COMMIT}=1 it would be results/{path.name}"
    print(f"wrote {path.relative_to(ROOT)}{hint}")


def portable(argument: str) -> str:
    """A file by its name alone: where it lay means nothing on another machine."""
    return Path(argument).name if Path(argument).is_absolute() else argument
