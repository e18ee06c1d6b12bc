"""What lies within two edges of a node, before and after: the data of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import ParameterError
from garnet.graph import Edges
from garnet.report.placing import place

KEPT, DROPPED, ADDED = 0, 1, 2
"""What became of an edge."""

MOST_NODES = 100
"""As many nodes a picture still tells apart."""

MOST_CHANGED = 20
"""Nodes that are shown if none are asked for."""

_SCALE = 1000
_WHOLE = 30_000  # edges of a graph that is in the page as a whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Ties:
    """Edges with what is known of each, and of their ends.

    Attributes:
        edges: (2, m).
        kinds: (m,) each KEPT, DROPPED or ADDED.
        marked: (m,) which are adversarial or suspicious.
        scores: (m,) of each; the larger, the more it is believed, or the other way round in an audit.
        num_nodes: n.
        labels: (n,) classes, -1 where unknown; or None.
        names: n texts; None where numbers do.
    """

    edges: Edges
    kinds: NDArray[np.int8]
    marked: NDArray[np.bool_]
    scores: NDArray[np.floating[Any]]
    num_nodes: int
    labels: NDArray[np.int64] | None = None
    names: Sequence[str] | None = None

    @cached_property
    def _by_node(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the edges of each node begin in a list of edges, and that list."""
        ends = self.edges.ravel()
        starts = np.zeros(self.num_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(ends, minlength=self.num_nodes), out=starts[1:])
        return starts, np.argsort(ends, kind="stable") % max(self.edges.shape[1], 1)

    def touching(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The edges of some nodes, one after the other, and the other end of each."""
        starts, listed = self._by_node
        counts = starts[nodes + 1] - starts[nodes]
        offsets = np.repeat(starts[nodes] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        edges = listed[offsets + np.arange(counts.sum())]
        return edges, self.edges[:, edges].sum(axis=0) - np.repeat(nodes, counts)

    def name(self, node: int) -> str:
        """What a node is called."""
        return str(node) if self.names is None else str(self.names[node])


def most_changed(ties: Ties, count: int = MOST_CHANGED) -> list[int]:
    """The nodes that lost the most edges, and of equal ones those that got the most.

    Where no edge changed, as in an audit, they are the nodes with the most marked edges.
    """
    changed = ties.kinds != KEPT
    first, second = (ties.kinds == DROPPED, ties.kinds == ADDED) if changed.any() else (ties.marked, changed)
    lost, got = (np.bincount(ties.edges[:, some].ravel(), minlength=ties.num_nodes) for some in (first, second))
    order = np.lexsort((-got, -lost))[:count]
    return [int(node) for node in order if lost[node] or got[node]]


def make_views(ties: Ties, nodes: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """The views of the nodes asked for, then of those most changed.

    Raises:
        ParameterError: a node that is asked for is not one of the graph.
    """
    asked = list(dict.fromkeys(nodes or ()))
    for node in asked:
        if isinstance(node, bool) or not isinstance(node, int | np.integer) or not 0 <= node < ties.num_nodes:
            raise ParameterError(f"A node to show must be one of 0 to {ties.num_nodes - 1}. Got {node!r} instead.")
    chosen = dict.fromkeys([*map(int, asked), *most_changed(ties)])
    return [make_view(ties, node) for node in chosen]


def whole_graph(ties: Ties) -> dict[str, Any] | None:
    """All edges, ready for JSON, so that any node can be looked at; None of a graph that would make the page large."""
    if ties.edges.shape[1] > _WHOLE:
        return None
    return {
        "nodes": ties.num_nodes,
        "first": ties.edges[0].tolist(),
        "second": ties.edges[1].tolist(),
        "kinds": "".join(map(str, ties.kinds.tolist())),
        "marked": "".join(str(int(one)) for one in ties.marked.tolist()),
        "scores": [_finite(float(f"{score:.3g}")) for score in ties.scores.tolist()],
        "labels": None if ties.labels is None else ties.labels.tolist(),
        "names": None if ties.names is None else [str(name) for name in ties.names],
        "most": MOST_NODES,
    }


def make_view(ties: Ties, node: int, most: int = MOST_NODES) -> dict[str, Any]:
    """What lies within two edges of a node, before or after, ready for JSON.

    The edges are those on a path of at most two edges from the node; those between two nodes that are both two edges
    away are left out, and so are nodes beyond the nearest `most`.

    Returns:
        `id`, `name`, `label`, `left_out`, the number of nodes that are not shown; `nodes`, each `[id, name, x, y, ring,
        label]` with x and y from -1000 to 1000; and `edges`, each `[first, second, kind, marked, score]` by places in
        `nodes`, the score None where it is infinite.
    """
    near, rings = _within_two(ties, node)
    nodes, rings, left_out = near[:most], rings[:most], max(0, len(near) - most)
    inner = nodes[rings < 2]
    edges, others = ties.touching(inner)
    edges = np.unique(edges[np.isin(others, nodes)])
    order = np.argsort(nodes)
    ends = order[np.searchsorted(nodes, ties.edges[:, edges], sorter=order)]
    labels = np.full(len(nodes), -1) if ties.labels is None else ties.labels[nodes]
    x, y = np.rint(_SCALE * place(rings, ends, labels)).astype(int).T
    return {
        "id": node,
        "name": ties.name(node),
        "label": int(labels[0]),
        "left_out": left_out,
        "nodes": [
            [int(one), ties.name(one), int(a), int(b), int(ring), int(label)]
            for one, a, b, ring, label in zip(nodes.tolist(), x, y, rings, labels, strict=True)
        ],
        "edges": [
            [int(first), int(second), int(kind), int(marked), _finite(float(score))]
            for first, second, kind, marked, score in zip(
                *ends, ties.kinds[edges], ties.marked[edges], ties.scores[edges], strict=True
            )
        ],
    }


def _within_two(ties: Ties, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nodes within two edges, before or after, and how far each is; the node itself first, then the nearest.

    Of a crowd at one distance any first part has kept, dropped and added edges in the shares of the whole, so that a
    picture of it shows neither graph emptier than it is; of one kind, marked edges come first, then high scores.
    """
    rows: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
    for absent in (ADDED, DROPPED):
        inner = np.array([node], dtype=np.int64)
        for ring in (1, 2):
            edges, others = ties.touching(inner)
            there = ties.kinds[edges] != absent
            rows.append((edges[there], others[there], ring))
            inner = np.unique(others[there])
    edges, others = (np.concatenate([row[part] for row in rows]) for part in (0, 1))
    rings = np.repeat([row[2] for row in rows], [len(row[0]) for row in rows])
    order = np.lexsort((others, -ties.scores[edges], ~ties.marked[edges], rings))
    order = order[others[order] != node]
    _, first = np.unique(others[order], return_index=True)
    order = order[np.sort(first)]
    order = order[np.lexsort((_progress(3 * rings[order] + ties.kinds[edges[order]]), rings[order]))]
    return np.concatenate([[node], others[order]]), np.concatenate([[0], rings[order]])


def _progress(groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """How far each is in the queue of its own group, from 0 to 1."""
    sizes = np.bincount(groups)
    order = np.argsort(groups, kind="stable")
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    progress = np.empty(len(groups))
    progress[order] = (np.arange(len(groups)) - starts + 0.5) / np.repeat(sizes, sizes)
    return progress


def _finite(score: float) -> float | None:
    return float(f"{score:.4g}") if math.isfinite(score) else None
