"""The edges that a person confirmed or refuted: pairs of names, from Python or from a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.errors import GarnetError, GraphError, ParameterError, brief
from garnet.graph.edges import numbers
from garnet.graph.graph import Graph
from garnet.io.text import read_text, reading

Judged = NDArray[np.int8]
"""(m,) for each edge `REFUTED`, `CONFIRMED`, or 0 if it was not judged."""

REFUTED, CONFIRMED = 1, -1

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def judgement(graph: Graph, confirmed: Iterable[Any] | None, refuted: Iterable[Any] | None) -> Judged:
    """The judgement on each edge of the graph, (m,).

    Raises:
        ParameterError: a pair is not two names of nodes, not an edge of the graph, or in both lists.
    """
    edges, n = graph.edges, graph.num_nodes
    judged = np.zeros(edges.shape[1], dtype=np.int8)
    keys = numbers(torch.from_numpy(edges[0]), torch.from_numpy(edges[1]), n).numpy()
    for name, given, verdict in (("confirmed", confirmed, CONFIRMED), ("refuted", refuted, REFUTED)):
        if given is None:
            continue
        for first, second, said in _pairs(graph, given, name):
            key = min(first, second) * n + max(first, second)
            place = int(np.searchsorted(keys, key))
            if place == len(keys) or keys[place] != key:
                raise ParameterError(f"The '{name}' edges of audit must be edges of the graph. It has none of {said}.")
            if judged[place] == -verdict:
                raise ParameterError(f"An edge is confirmed or refuted, not both. Got {said} in both lists.")
            judged[place] = verdict
    return judged


def _pairs(graph: Graph, given: Iterable[Any], name: str) -> Iterable[tuple[int, int, str]]:
    """The numbers of both ends of each pair, and the pair as a message shows it."""
    wanted = f"The '{name}' edges of audit must be pairs of two names of nodes, such as [('a', 'b'), ('c', 'd')]."
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ParameterError(f"{wanted} Got {brief(given)} instead.")
    shape = getattr(given, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[1] != 2):
        cure = " Give its .T." if len(shape) == 2 and shape[0] == 2 else ""
        raise ParameterError(f"{wanted} Got an array of shape {tuple(shape)} instead.{cure}")
    known = {} if graph.names is None else {str(one): place for place, one in enumerate(graph.names.tolist())}
    for pair in given:
        try:
            ends = [one.item() if isinstance(one, np.generic) else one for one in pair]
        except TypeError:
            ends = []
        if len(ends) != 2 or isinstance(pair, str | bytes):
            raise ParameterError(f"{wanted} Got {brief(pair)} instead.")
        said = " – ".join(brief(one) for one in ends)
        found = [_node(one, known, graph) for one in ends]
        for one, place in zip(ends, found, strict=True):
            if place is None:
                raise ParameterError(f"The '{name}' edges of audit have {said}, but no node is called {brief(one)}.")
        yield found[0] or 0, found[1] or 0, said


def _node(name: Any, known: Mapping[str, int], graph: Graph) -> int | None:
    """The node of that name, or of that number if nodes have no names."""
    text = str(name)
    if graph.names is not None:
        return known.get(text)
    return int(text) if text.isascii() and text.isdigit() and int(text) < graph.num_nodes else None


def require_pairs(path: Path) -> None:
    """Refuse, before any work is done, a file that cannot be a list of edges."""
    if path.suffix.lower() not in _DELIMITERS:
        raise GarnetError(f"A list of judged edges is a .csv or a .tsv file. Got {path.name!r} instead.")


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The pairs of names in a text file: its columns `source` and `target` or, without that header, its only two.

    The table from `garnet audit -o` is such a file once its other rows are deleted.

    Raises:
        GraphError: it cannot be read, or a line holds no pair; the message says which.
    """
    require_pairs(path)
    with reading(path):
        try:
            text = read_text(path).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise GraphError("it is not UTF-8 text; save it as UTF-8.") from None
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=_DELIMITERS[path.suffix.lower()])
        try:
            lines = [(rows.line_num, row) for row in rows if row]
        except csv.Error as error:
            raise GraphError(f"its line {rows.line_num} is no row of a table: {error}.") from None
        if not lines:
            return []
        head, first, second = lines[0][1], 0, 1
        if {"source", "target"} <= set(head):
            (first, second), lines = (head.index("source"), head.index("target")), lines[1:]
        elif len(head) != 2:
            raise GraphError(
                f"it has {len(head)} columns, none of which are called source and target; say so in its first line."
            )
        for number, row in lines:
            if len(row) != len(head):
                raise GraphError(f"its line {number} has {len(row)} columns, and its first {len(head)}.")
        return [(row[first], row[second]) for _, row in lines]
