"""What a purification did, as readable tables: one row per edge or node, under the user's names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.graph.graph import Edges, Graph
from garnet.purify.fates import Columns, ends, fate_columns, found
from garnet.purify.result import Purification


def ledger_table(graph: Graph, result: Purification, times: NDArray[Any] | None = None) -> Columns:
    """Every edge of the input and of the purified graph: both endpoints, what became of it, and why.

    `status` is kept, dropped or new; `original` its weight in the input and `weight` its weight now, each NaN where it
    has none; `trust`, from 0 to 1, how far it is believed, NaN where planted edges did not determine it; `score` how
    critical it is to the graph.

    Args:
        graph: the graph that was purified.
        result: the purification, in memory.
        times: times of the input's edges, for a column `time` that is empty for new edges.
    """
    ledger = result.ledger
    edges, columns = fate_columns(ledger.fates, graph.num_nodes)
    return {
        **ends(edges, graph.names),
        "status": columns["status"],
        "original": _weights(graph, edges),
        "weight": _weights(result.graph, edges),
        **_times(graph, times, edges),
        "trust": ledger.trust_of(edges),
        "score": columns["score"],
        "reason": columns["reason"],
    }


def edge_table(graph: Graph, result: Purification, times: NDArray[Any] | None = None) -> Columns:
    """The edges of the purified graph: endpoints, weight, new or kept, and their weight and time in the input."""
    edges = result.graph.edges
    original = _weights(graph, edges)
    status = np.where(np.isnan(original), "new", "kept")
    columns = {**ends(edges, graph.names), "weight": result.graph.weights, "status": status, "original": original}
    return columns | _times(graph, times, edges)


def node_table(graph: Graph, result: Purification) -> Columns:
    """Every node, with edges or without: its name, its edges before and after, and how many were dropped and added."""
    ledger, n = result.ledger, graph.num_nodes

    def counted(edges: Edges) -> NDArray[np.int64]:
        return np.bincount(edges.ravel(), minlength=n)

    kept, dropped, added = map(counted, (ledger.kept, ledger.dropped, ledger.added))
    names = np.arange(n) if graph.names is None else graph.names
    return {"node": names, "before": kept + dropped, "after": kept + added, "dropped": dropped, "new": added}


def _weights(graph: Graph, edges: Edges) -> NDArray[np.float32]:
    """The weights of some edges (2, m); NaN for those that the graph does not have."""
    return found(graph.edges, graph.weights, edges, graph.num_nodes)


def _times(graph: Graph, times: NDArray[Any] | None, edges: Edges) -> Columns:
    if times is None:
        return {}
    known, wanted = (one[0] * graph.num_nodes + one[1] for one in (graph.edges, edges))
    at = np.clip(np.searchsorted(known, wanted), 0, len(known) - 1)
    return {"time": np.ma.masked_array(times[at], known[at] != wanted)}
