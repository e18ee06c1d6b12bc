"""What a purification did, as tables for people: a row for each edge, or for each node, under their own names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.graph.graph import Edges, Graph
from garnet.linalg.sparse import to_host
from garnet.purify.result import Ledger, Purification

Columns = dict[str, NDArray[Any]]

_REASONS = {
    "kept": "agrees with the graph around it",
    "dropped": "does not agree with the graph around it, as made-up edges do not",
    "added": "joins near neighbours, by the graph and by features",
}
_WORDS = {"kept": "kept", "dropped": "dropped", "added": "new"}


def ledger_table(graph: Graph, result: Purification, times: NDArray[Any] | None = None) -> Columns:
    """Every edge of the input and of the purified graph: both ends, what became of it, and why.

    `status` is kept, dropped or new; `original` the weight that the input gave it and `weight` what it has now, each
    NaN where it has none; `trust`, from 0 to 1, how far it is believed, NaN where planted edges did not tell; `score`
    how critical it is to the graph.

    Args:
        graph: that was purified.
        result: what came of it, in memory.
        times: of the input's edges; a column `time` has them, empty for new edges.
    """
    ledger = result.ledger
    parts = [
        (status, getattr(ledger, status), getattr(ledger, f"{status}_scores"))
        for status in ("kept", "dropped", "added")
    ]
    edges = np.concatenate([edges for _, edges, _ in parts], axis=1)
    states = np.concatenate([np.full(edges.shape[1], status) for status, edges, _ in parts])
    scores = np.concatenate([scores for *_, scores in parts])
    order = np.argsort(edges[0] * graph.num_nodes + edges[1], kind="stable")
    edges, states, scores = edges[:, order], states[order], scores[order]
    return {
        **_ends(graph, edges),
        "status": _spelt(_WORDS, states),
        "original": _weights(graph, edges),
        "weight": _weights(result.graph, edges),
        **_times(graph, times, edges),
        "trust": _trust(ledger, edges, graph.num_nodes),
        "score": scores,
        "reason": _spelt(_REASONS, states),
    }


def edge_table(graph: Graph, result: Purification, times: NDArray[Any] | None = None) -> Columns:
    """The edges of the purified graph: both ends, weight, new or kept, and the weight and time they came with."""
    edges = result.graph.edges
    original = _weights(graph, edges)
    status = np.where(np.isnan(original), "new", "kept")
    return {**_ends(graph, edges), "weight": result.graph.weights, "status": status, "original": original} | _times(
        graph, times, edges
    )


def node_table(graph: Graph, result: Purification) -> Columns:
    """Every node, with edges or without: its name, its edges before and after, and how many were dropped and added."""
    ledger, n = result.ledger, graph.num_nodes

    def counted(edges: Edges) -> NDArray[np.int64]:
        return np.bincount(edges.ravel(), minlength=n)

    kept, dropped, added = map(counted, (ledger.kept, ledger.dropped, ledger.added))
    names = np.arange(n) if graph.names is None else graph.names
    return {"node": names, "before": kept + dropped, "after": kept + added, "dropped": dropped, "new": added}


def _ends(graph: Graph, edges: Edges) -> Columns:
    names = np.arange(graph.num_nodes) if graph.names is None else graph.names
    return {"source": names[edges[0]], "target": names[edges[1]]}


def _spelt(words: dict[str, str], states: NDArray[Any]) -> NDArray[Any]:
    spelt = np.array([*words.values()])
    place = {state: i for i, state in enumerate(words)}
    return spelt[[place[state] for state in states.tolist()]] if len(states) else spelt[:0]


def _weights(graph: Graph, edges: Edges) -> NDArray[np.float32]:
    """The weights of some edges (2, m); NaN of those that the graph does not have."""
    return _found(graph.edges, graph.weights, edges, graph.num_nodes)


def _times(graph: Graph, times: NDArray[Any] | None, edges: Edges) -> Columns:
    if times is None:
        return {}
    known, wanted = (one[0] * graph.num_nodes + one[1] for one in (graph.edges, edges))
    at = np.clip(np.searchsorted(known, wanted), 0, len(known) - 1)
    return {"time": np.ma.masked_array(times[at], known[at] != wanted)}


def _trust(ledger: Any, edges: Edges, n: int) -> NDArray[np.float32]:
    if not isinstance(ledger, Ledger) or ledger.trust is None:
        return np.full(edges.shape[1], np.nan, np.float32)
    given = to_host(ledger.given).numpy()
    return _found(to_host(ledger.edges).numpy()[:, given], to_host(ledger.trust).numpy()[given], edges, n)


def _found(known: Edges, values: NDArray[Any], edges: Edges, n: int) -> NDArray[np.float32]:
    found = np.full(edges.shape[1], np.nan, np.float32)
    if not known.shape[1]:
        return found
    keys, wanted = known[0] * n + known[1], edges[0] * n + edges[1]
    at = np.clip(np.searchsorted(keys, wanted), 0, len(keys) - 1)
    there = keys[at] == wanted
    found[there] = values[at[there]]
    return found
