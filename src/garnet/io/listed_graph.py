"""Nodes and edges as markup lists them, one by one, until they make a graph."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np

from garnet.errors import GraphError, brief
from garnet.io.checks import RowIs, checked_pairs
from garnet.io.edge_source import EdgeSource
from garnet.io.limits import require_memory
from garnet.io.node_facts import classes_of
from garnet.io.text_rows import LONGEST_NAME

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


class ListedGraph:
    """A graph built up node by node and edge by edge."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.labels: list[int | None] = []
        self.titles: list[str | None] = []
        self._position: dict[str, int] = {}
        self._ends: tuple[array[int], array[int]] = array("q"), array("q")
        self._missing: dict[str, int] = {}
        self._weights = array("d")
        self._directed = array("b")

    def add_node(self, name: str, label: int | None = None, title: str | None = None) -> None:
        """Add a node, which edges know by its name; it may have a class, and a title that is a better name."""
        if not 0 < len(name) <= LONGEST_NAME:
            raise GraphError(f"a node has a name that is empty or longer than {LONGEST_NAME} characters.")
        if name in self._position:
            raise GraphError(f"two of its nodes are called {brief(name)}; names must be distinct.")
        self._position[name] = len(self.names)
        self.names.append(name)
        self.labels.append(label)
        self.titles.append(title)

    def add_edge(self, source: Any, target: Any, weight: Any = 1.0, *, directed: bool = False) -> None:
        """Add an edge between nodes with these names, which may be added later."""
        for end, name in zip(self._ends, (source, target), strict=True):
            if not isinstance(name, str):
                raise GraphError(f"its edge number {len(self._weights) + 1} does not name the nodes that it joins.")
            place = self._position.get(name)
            if place is None:  # a number below all others, until the node is added
                place = -1 - self._missing.setdefault(name, len(self._missing))
            end.append(place)
        self._weights.append(number_of(weight, "the weight of an edge"))
        self._directed.append(directed)

    def source(self, path: Path, *, either: bool = False) -> EdgeSource:
        """The graph, once everything has been added. Its names are the nodes' titles if these are unique.

        Args:
            path: the file.
            either: it is not stated whether edges are directed; see `RowIs`.

        Raises:
            GraphError: an edge joins a node that does not exist.
        """
        heads, tails = (np.array(end, np.int64) for end in self._ends)
        found = np.array([self._position.get(name, -1) for name in self._missing], np.int64)
        if found.min(initial=0) < 0:
            name = next(name for name in self._missing if name not in self._position)
            raise GraphError(f"one of its edges joins {brief(name)}, which is not among its {len(self.names)} nodes.")
        for end in (heads, tails):
            end[end < 0] = found[-1 - end[end < 0]]
        weights, one_way = np.array(self._weights, np.float64), np.array(self._directed, bool)
        row_is: RowIs = "either" if either else "edge"
        if one_way.any():
            row_is, back = "direction", ~one_way
            heads, tails = np.append(heads, tails[back]), np.append(tails, heads[back])
            weights = np.append(weights, weights[back])
        n = len(self.names)
        pairs = checked_pairs(heads, tails, weights, n)
        return EdgeSource(
            edges=lambda _: iter([pairs]),
            num_nodes=n,
            row_is=row_is,
            labels=classes_of(self.labels),
            names=_as_names(self._best_names()),
            path=path,
        )

    def _best_names(self) -> list[str]:
        titles = [title for title in self.titles if title and len(title) <= LONGEST_NAME]
        return titles if len(titles) == len(self.names) == len(set(titles)) else self.names


def number_of(value: Any, what: str) -> float:
    """A number, or the text of one.

    Raises:
        GraphError: it is not a number; the sentence begins with `what`.
    """
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool) and "_" not in str(value):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise GraphError(f"{what} is {brief(value)}, which is not a number.")


def integer_of(value: str, what: str) -> int:
    """The integer of a text.

    Raises:
        GraphError: it is not an integer, or has more than 64 bits.
    """
    if not _INTEGER.fullmatch(value.strip()):
        raise GraphError(f"{what} is {brief(value)}, which is not an integer.")
    return int(value)


def _as_names(names: list[str]) -> Any:
    """Names as integers if all of them are, otherwise as texts."""
    if all(map(_INTEGER.fullmatch, names)):
        return np.array([int(name) for name in names], np.int64)
    require_memory(4 * len(names) * max(map(len, names)), "the table of its node names")
    return np.array(names)
