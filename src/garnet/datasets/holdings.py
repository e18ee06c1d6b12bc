"""Which graphs of the catalogue are available locally, and downloading the others."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from garnet.datasets import download
from garnet.datasets.catalog import UNIT_TEST, names
from garnet.datasets.entries import ATTACKS, CATALOG, SIZES, Entry, absent, graph_file, split_file
from garnet.datasets.folders import find, roots
from garnet.datasets.unit_test_file import UNIT_TEST_FILE
from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.registry import known_name

_BUDGET = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class Holding:
    """What is available locally of a graph of the catalogue.

    Attributes:
        name: its name for `load`.
        nodes: how many it has; None if unknown.
        edges: likewise.
        is_here: whether `load` finds it without network access.
        path: the file it is read from; None if it is missing, or comes with the library or another package.
        split: its usual split, and whether that is available or a random one replaces it.
        attacks: for each attack whose published results are available, the budgets.
        source: where to get it.
    """

    name: str
    nodes: int | None
    edges: int | None
    is_here: bool
    path: Path | None
    split: str
    attacks: dict[str, str] = field(default_factory=dict)
    source: str = ""

    def facts(self) -> dict[str, Any]:
        """All fields as plain values."""
        return asdict(self) | {"path": None if self.path is None else str(self.path)}


@dataclass(frozen=True)
class Fetched:
    """A graph that was downloaded.

    Attributes:
        graph: the graph.
        path: the file it was saved to.
        note: how it differs from the graph of the catalogue; empty if it does not.
    """

    graph: Graph
    path: Path
    note: str


def holdings() -> tuple[Holding, ...]:
    """All graphs that `load` knows, each with what is available locally; no graph is read."""
    return tuple(holding(name) for name in names())


def holding(name: str) -> Holding:
    """What is available locally of one graph.

    Raises:
        ParameterError: there is none of this name.
    """
    name = known_name(name, names(), "graph")
    if name in UNIT_TEST:
        path = find(UNIT_TEST_FILE)
        source = "unit_test/unit_test.npz of github.com/LoadingByte/are-gnn-defenses-robust"
        return Holding(name, None, None, path is not None, path, "unit-test", source=source)
    if name not in CATALOG:
        return Holding(name, None, None, True, None, "its own", source="another package")
    entry = CATALOG[name]
    path = None if name == "cora" else graph_file(name, entry)
    split = entry.split
    if split not in ("random", "ogb") and find(f"{entry.folder}/{split_file(entry, split)}") is None:
        split = f"{split}, not here" + ("; a random one stands in" if entry.shares else "")
    here = name == "cora" or path is not None
    return Holding(name, *SIZES[name], here, path, split, _attacks(entry), _source(name, entry))


def fetched(name: str) -> Fetched:
    """Download a graph into the cache.

    Its numbers of nodes and edges are compared with the catalogue's: whoever hosts a graph may change it.

    Raises:
        ParameterError: there is none of this name.
        GraphError: it cannot be downloaded, there is no network, or the cache cannot be written.
    """
    name = known_name(name, names(), "graph")
    entry = CATALOG.get(name)
    if entry is None or not download.can_fetch(name):
        one = holding(name)
        if entry is not None and name != "cora":
            raise absent(name, entry)
        raise GraphError(f"The graph {name} is not one to be downloaded; it comes from {one.source}.")
    path = roots()["cache"] / entry.folder / entry.file
    try:
        graph = download.fetch(name, path)
    except GraphError as error:
        raise GraphError(
            f"The graph {name} was not downloaded: {str(error).rstrip('.')}; is there a network?"
        ) from error
    return Fetched(graph, path, _note(name, graph))


def _note(name: str, graph: Graph) -> str:
    nodes, edges = SIZES[name]
    if (graph.num_nodes, graph.num_edges) == (nodes, edges):
        return ""
    return (
        f"the catalogue's {name} has {nodes:,} nodes and {edges or 0:,} edges, so this is another version of it; "
        "published attacks and splits are of the catalogue's"
    )


def _attacks(entry: Entry) -> dict[str, str]:
    """The budgets of each attack whose files are in one of the folders."""
    found: dict[str, str] = {}
    for attack, pattern in zip(ATTACKS, entry.poisoned or (), strict=False):
        before, after = pattern.split("{}")
        there = {
            float(text)
            for root in roots().values()
            for path in (root / entry.folder).glob(f"{before}*{after}")
            if _BUDGET.fullmatch(text := path.name[len(before) : -len(after)])
            and (float(text) < 1) == (attack == "metattack")
        }
        if there:
            found[attack] = " ".join(f"{budget:g}" for budget in sorted(there))
    return found


def _source(name: str, entry: Entry) -> str:
    if name == "cora":
        return "part of the library"
    if entry.source:
        return entry.source
    if download.can_fetch(name):
        return f"garnet data fetch {name}" + (" (another version)" if name == "citeseer" else "")
    return "ogb.stanford.edu"
