"""Clean a graph that strangers could have written to, then train any GNN on it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from garnet.machine import __version__ as __version__

if TYPE_CHECKING:
    from garnet.graph.budget import Budget
    from garnet.graph.files import load_graph
    from garnet.graph.graph import Graph, Split, as_graph
    from garnet.graph.node_table import NodeTable
    from garnet.graph.perturbation import Perturbation
    from garnet.places.on_disk import OnCluster, OnDisk
    from garnet.purify.garnet import GARNET
    from garnet.purify.memory import InMemory
    from garnet.purify.result import Ledger, Purification
    from garnet.purify.settings import Settings
    from garnet.report.page import write_report
    from garnet.spectral.spectrum import Spectrum

_HOME = {
    "Budget": "garnet.graph.budget",
    "GARNET": "garnet.purify.garnet",
    "InMemory": "garnet.purify.memory",
    "OnCluster": "garnet.places.on_disk",
    "OnDisk": "garnet.places.on_disk",
    "Settings": "garnet.purify.settings",
    "Graph": "garnet.graph.graph",
    "NodeTable": "garnet.graph.node_table",
    "Split": "garnet.graph.graph",
    "as_graph": "garnet.graph.graph",
    "load_graph": "garnet.graph.files",
    "write_report": "garnet.report.page",
    "Ledger": "garnet.purify.result",
    "Perturbation": "garnet.graph.perturbation",
    "Purification": "garnet.purify.result",
    "Spectrum": "garnet.spectral.spectrum",
}

__all__ = [
    "GARNET",
    "Budget",
    "Graph",
    "InMemory",
    "Ledger",
    "NodeTable",
    "OnCluster",
    "OnDisk",
    "Perturbation",
    "Purification",
    "Settings",
    "Spectrum",
    "Split",
    "as_graph",
    "load_graph",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'garnet' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
