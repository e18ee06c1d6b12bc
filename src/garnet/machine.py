"""What this machine is, how much memory it has, and what is installed on it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

PACKAGES = ("numpy", "scipy", "torch", "pygarnet")
"""Packages whose version can change a figure."""


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
    if package == "pygarnet":  # it may run from a checkout that is not installed
        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def physical_memory() -> int:
    """Bytes of memory in this machine; 64 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 64 << 30


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes; 0 where the system does not say."""
    # On Linux a process inherits the other figure from its parent.
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
