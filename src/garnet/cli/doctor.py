"""What this installation has and what it lacks."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

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
    findings.append(("processors", f"{os.cpu_count()}, of which torch uses {torch.get_num_threads()}"))
    findings.append(("BLAS threads", os.environ.get("OMP_NUM_THREADS") or "not limited (OMP_NUM_THREADS is not set)"))
    findings.append(("memory", f"{physical_memory() / 1e9:.1f} GB"))
    cards = [torch.cuda.get_device_name(card) for card in range(torch.cuda.device_count())]
    findings.append(("CUDA", ", ".join(cards) if cards else "no device; everything runs on the CPU"))
    folder = os.environ.get("GARNET_DATA")
    findings.append(("GARNET_DATA", folder or "not set; only the embedded graph is at hand"))
    return findings


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
