"""On what a figure was measured: the machine and the versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from garnet import __version__
from garnet.memory import physical_memory

PACKAGES = ("numpy", "scipy", "torch", "pygarnet")
"""Those whose version can change a figure."""


def machine() -> dict[str, Any]:
    """Processor, cores, memory and GPU of this machine, ready for JSON."""
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(physical_memory() / 1e9, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str | None]:
    """Versions of Python and of packages; None for one that is not installed."""
    return {"python": platform.python_version(), **{package: _version(package) for package in packages}}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    if package == "pygarnet":  # it may run from a checkout that nobody has installed
        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return None
