"""What a benchmark leaves behind: its figures with the machine, the versions and the command that made them."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"


def data_folder() -> Path:
    """The folder with real graphs: `GARNET_DATA`, or the one that lies beside the checkout."""
    return Path(os.environ.get("GARNET_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def save(name: str, figures: dict[str, Any]) -> None:
    """Write one JSON file under `results/` and say where."""
    import torch

    packages = ("numpy", "scipy", "torch", "faiss-cpu", "hnswlib", "pygarnet")
    record = {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *map(_portable, sys.argv[1:])]),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in packages}},
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {path.relative_to(RESULTS.parent)}")


def _portable(argument: str) -> str:
    """A file by its name alone: where it lay means nothing on another machine."""
    return Path(argument).name if Path(argument).is_absolute() else argument


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
