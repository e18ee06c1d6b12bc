"""Clean a graph that strangers could have written to, then train any GNN on it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from garnet.attacks.budget import Budget
    from garnet.datasets.files import load_graph
    from garnet.graph import Graph, Split, as_graph
    from garnet.perturbation import Perturbation
    from garnet.purification import Ledger, Purification
    from garnet.purify import GARNET
    from garnet.spectral import Spectrum

_HOME = {
    "Budget": "garnet.attacks.budget",
    "GARNET": "garnet.purify",
    "Graph": "garnet.graph",
    "Split": "garnet.graph",
    "as_graph": "garnet.graph",
    "load_graph": "garnet.datasets.files",
    "Ledger": "garnet.purification",
    "Perturbation": "garnet.perturbation",
    "Purification": "garnet.purification",
    "Spectrum": "garnet.spectral",
}

__all__ = [
    "GARNET",
    "Budget",
    "Graph",
    "Ledger",
    "Perturbation",
    "Purification",
    "Spectrum",
    "Split",
    "as_graph",
    "load_graph",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'garnet' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
