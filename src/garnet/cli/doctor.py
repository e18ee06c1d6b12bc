"""What this installation has and what it lacks."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version

_LOOK = 0.3  # seconds to watch other programs
_NEEDED = ("numpy", "scipy", "torch", "typer", "rich", "jinja2")
_OPTIONAL = {
    "torch_geometric": "PyG Data in and out",
    "networkx": "NetworkX graphs in and out",
}


def diagnose() -> list[tuple[str, str]]:
    """Names and findings, in the order a person would ask for them."""
    import torch

    from garnet.machine import __version__, physical_memory

    findings = [("garnet", __version__), ("python", f"{platform.python_version()} on {platform.platform()}")]
    for package in _NEEDED:
        findings.append((package, _version(package) or f"missing: pip install {package}"))
    for package, purpose in _OPTIONAL.items():
        findings.append((package, _version(package) or f"missing, needed for {purpose}: pip install {package}"))
    findings += _processors(torch.get_num_threads())
    findings.append(("memory", f"{physical_memory() / 1e9:.1f} GB"))
    cards = [torch.cuda.get_device_name(card) for card in range(torch.cuda.device_count())]
    findings.append(("CUDA", ", ".join(cards) if cards else "no device; everything runs on the CPU"))
    folder = os.environ.get("GARNET_DATA")
    findings.append(("GARNET_DATA", folder or "not set; only the embedded graph is at hand"))
    return findings


def _processors(threads: int) -> list[tuple[str, str]]:
    """Processors, what limits them, and how many threads calls use now."""
    from garnet.processors import Load, allowed

    able, load = allowed(), Load()
    load.left()
    time.sleep(_LOOK)
    left = load.left()
    limits = f"{len(able.numbers)} may be used" if len(able.numbers) < (os.cpu_count() or 1) else "all may be used"
    if able.quota is not None:
        limits += f", with a quota of {able.quota:g}"
    said = os.environ.get("OMP_NUM_THREADS")
    if said is not None:
        works = f"{threads}, as OMP_NUM_THREADS={said} says, whatever other programs do"
    elif left < min(threads, able.count):
        works = f"{left} now, as other programs want processors too; {min(threads, able.count)} when they do not"
    else:
        works = f"{min(threads, left)}, fewer while other programs want processors too; 1 on small graphs"
    return [("processors", f"{os.cpu_count()}; {limits}"), ("threads", works)]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
