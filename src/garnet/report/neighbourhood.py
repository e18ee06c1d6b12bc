"""What lies within two edges of a node, before and after: the data of a picture, which the page itself draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import ParameterError
from garnet.graph.graph import Edges
from garnet.report.sections import Section, embedded, fragment

KEPT, DROPPED, ADDED = 0, 1, 2
"""What became of an edge."""

MOST_NODES = 100
"""Nodes of one picture; more could not be told apart."""

MOST_LISTED = 20
"""Nodes that are listed if none are asked for."""

FEW = (12, 6)
"""Of a picture of a node's few edges that matter: marked ones, and others that are believed the most."""

_WHOLE = 30_000  # nodes, and edges, of a graph that is in the page as a whole


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
        names: n of them; None where numbers do.
    """

    edges: Edges
    kinds: NDArray[np.int8]
    marked: NDArray[np.bool_]
    scores: NDArray[np.floating[Any]]
    num_nodes: int
    labels: NDArray[np.int64] | None = None
    names: Sequence[Any] | NDArray[Any] | None = None

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


Orders = Sequence[tuple[str, NDArray[Any]]]
"""What nodes may have the most of, in words, and what each edge (m,) counts for it at both of its ends."""


def worth_seeing(ties: Ties, orders: Orders, count: int = MOST_LISTED) -> tuple[list[int], str]:
    """The nodes to look at first, and why, in words.

    Args:
        ties: the edges.
        orders: the first that counts anything decides; the next ones do where nodes are equal in it.
        count: how many nodes at most; nodes without edges are left out.
    """
    while len(orders) > 1 and not orders[0][1].any():
        orders = orders[1:]
    ends = ties.edges.ravel()
    sums = [np.bincount(ends, weights=np.tile(each, 2), minlength=ties.num_nodes) for _, each in orders]
    first = np.lexsort([-one for one in reversed(sums)])[:count]
    return [int(node) for node in first if any(one[node] for one in sums)], orders[0][0]


def require_nodes(num_nodes: int, nodes: Sequence[int]) -> list[int]:
    """The nodes of a graph that are asked for, each once.

    Raises:
        ParameterError: one is not of the graph.
    """
    for node in nodes:
        if isinstance(node, bool) or not isinstance(node, int | np.integer) or not 0 <= node < num_nodes:
            raise ParameterError(f"A node to show must be one of 0 to {num_nodes - 1}. Got {node!r} instead.")
    return [int(node) for node in dict.fromkeys(nodes)]


def whole_graph(ties: Ties) -> dict[str, Any] | None:
    """All nodes and edges, in the form of `around`; None for a graph that would make the page too large."""
    if max(ties.edges.shape[1], ties.num_nodes) > _WHOLE:
        return None
    return _part(ties, np.arange(ties.num_nodes), np.arange(ties.edges.shape[1]))


def around(ties: Ties, node: int, most: int = MOST_NODES) -> dict[str, Any]:
    """What a picture of a node shows, ready for JSON: what lies within two edges of it, before or after.

    The edges are those on a path of at most two edges from the node; those between two nodes that are both two edges
    away are left out, and so are nodes beyond the nearest `most`. Of a crowd at one distance the kept, dropped and
    added edges take turns, so that neither picture lacks what matters; of one kind, marked edges come first, then high
    scores. The page chooses alike from a whole graph.

    Returns:
        `ids`, the node itself first; their `names` and `labels`, or None; of each edge its ends `first` and `second`
        by places in `ids`, its kind in `kinds`, whether it is `marked`, and its score in `scores`, None where it is
        infinite; and `left_out`, the number of nodes that are not shown.
    """
    near, rings = _within_two(ties, node)
    nodes, rings = near[:most], rings[:most]
    edges, others = ties.touching(nodes[rings < 2])
    edges = np.unique(edges[np.isin(others, nodes)])
    return _part(ties, nodes, edges) | {"left_out": len(near) - len(nodes)}


def few_around(ties: Ties, node: int) -> dict[str, Any]:
    """What a picture of the few edges that matter shows of a node, as `around` gives it.

    These are its marked edges of the highest scores and its others of the lowest, at most `FEW` of both, and the edges
    between the neighbours that they lead to. The page chooses alike from a whole graph.

    Returns:
        as `around`, and in `totals` how many marked and other edges the node has.
    """
    edges, others = ties.touching(np.array([node], dtype=np.int64))
    marked, scores = ties.marked[edges], _told(ties.scores[edges])
    worst, best = np.lexsort((others, -scores)), np.lexsort((others, scores))
    chosen = np.concatenate([worst[marked[worst]][: FEW[0]], best[~marked[best]][: FEW[1]]])
    nodes = np.concatenate([[node], others[chosen]])
    between, far = ties.touching(nodes)
    return _part(ties, nodes, np.unique(between[np.isin(far, nodes)])) | {
        "totals": [int(marked.sum()), int((~marked).sum())]
    }


def _part(ties: Ties, nodes: NDArray[np.int64], edges: NDArray[np.int64]) -> dict[str, Any]:
    order = np.argsort(nodes)
    first, second = order[np.searchsorted(nodes, ties.edges[:, edges], sorter=order)].tolist()
    return {
        "ids": nodes.tolist(),
        "first": first,
        "second": second,
        "kinds": "".join(map(str, ties.kinds[edges].tolist())),
        "marked": "".join(str(int(one)) for one in ties.marked[edges].tolist()),
        "scores": [float(f"{one:.4g}") if math.isfinite(one) else None for one in ties.scores[edges].tolist()],
        "labels": None if ties.labels is None else ties.labels[nodes].tolist(),
        "names": None if ties.names is None else [ties.name(node) for node in nodes.tolist()],
        "left_out": 0,
    }


def _within_two(ties: Ties, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nodes within two edges, before or after, and how far each is; the node itself first, then the nearest."""
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
    order = np.lexsort((ties.kinds[edges], others, -_told(ties.scores[edges]), ~ties.marked[edges], rings))
    order = order[others[order] != node]
    _, first = np.unique(others[order], return_index=True)
    order = order[np.sort(first)]
    kinds, rings = ties.kinds[edges[order]], rings[order]
    turn = np.lexsort((kinds, _queued(3 * rings + kinds), rings))
    return np.concatenate([[node], others[order][turn]]), np.concatenate([[0], rings[turn]])


def _told(scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The scores to the four digits that the page is told, so that it puts edges in the same order."""
    exact = scores.astype(np.float64)
    known = np.isfinite(exact) & (exact != 0)
    size = 10.0 ** (3 - np.floor(np.log10(np.abs(np.where(known, exact, 1.0)))))
    return np.where(known, np.rint(exact * size) / size, exact)


def _queued(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of its own group come before each."""
    sizes = np.bincount(groups)
    before = np.empty(len(groups), dtype=np.int64)
    before[np.argsort(groups, kind="stable")] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return before


def neighbourhood_section(
    ties: Ties,
    nodes: Sequence[int] | None,
    *,
    orders: Orders,
    panels: Sequence[tuple[str, int]],
    words: Mapping[str, Any],
    text: str,
    few: bool = False,
    first: tuple[Sequence[int], str] = ((), ""),
) -> list[Section]:
    """The section with the neighbourhoods of nodes; none where there is nothing to see.

    Args:
        ties: the edges.
        nodes: those to show besides the ones that are worth seeing.
        orders: by which these are found; see `worth_seeing`.
        panels: of each picture its name, and the kind of edges that it lacks.
        words: `kinds`, three names; `marked`, what such an edge is; `score`, what its number is.
        text: what is said above.
        few: whether a picture shows no more than the edges of a node that matter; see `few_around`.
        first: nodes to show before those that are worth seeing, and which these are, in words.
    """
    found, why = worth_seeing(ties, orders)
    listed = list(dict.fromkeys([*require_nodes(ties.num_nodes, nodes or ()), *first[0], *found]))
    if not listed:
        return []
    whole = whole_graph(ties)
    words = {**words, "single": len(panels) == 1, "labelled": ties.labels is not None}
    data = {"panels": panels, "words": words, "listed": listed, "most": MOST_NODES, "graph": whole}
    data |= {"few": FEW if few else None, "parts": []}
    if whole is None:
        data["parts"] = [few_around(ties, node) if few else around(ties, node) for node in listed]
    names = [(node, ties.name(node)) for node in listed]
    body = fragment(
        "neighbourhood.html", data=embedded(data), listed=names, panels=panels, words=words, whole=whole is not None
    )
    groups = ["those asked for"] * bool(nodes) + [first[1]] * bool(first[0]) + [f"the nodes that {why}"]
    begins = f"The list begins with {', then with '.join(groups)}."
    return [Section("Neighbourhoods", f"{text} {begins}", body, wide=True)]
