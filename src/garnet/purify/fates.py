"""What became of edges, as readable columns: under the user's names, in node order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.graph.graph import Edges

Columns = dict[str, NDArray[Any]]
Fates = Mapping[str, tuple[Edges, NDArray[np.float32]]]
"""The edges, (2, m), and scores, (m,), of those `kept`, `dropped` and `added`."""

_REASONS = {
    "kept": "agrees with the graph around it",
    "dropped": "does not agree with the graph around it, as made-up edges do not",
    "added": "joins near neighbours, by the graph and by features",
}
_WORDS = {"kept": "kept", "dropped": "dropped", "added": "new"}


def fate_columns(fates: Fates, n: int) -> tuple[Edges, Columns]:
    """All edges in node order, and their columns `status`, `score` and `reason`.

    `status` is kept, dropped or new.

    Args:
        fates: the edges.
        n: the number of nodes.
    """
    edges = np.concatenate([edges for edges, _ in fates.values()], axis=1)
    scores = np.concatenate([scores for _, scores in fates.values()])
    states = np.repeat(np.arange(len(fates)), [found.shape[1] for found, _ in fates.values()])
    order = np.argsort(edges[0] * n + edges[1], kind="stable")
    words, reasons = (np.array([said[state] for state in fates]) for said in (_WORDS, _REASONS))
    states = states[order]
    return edges[:, order], {"status": words[states], "score": scores[order], "reason": reasons[states]}


def ends(edges: Edges, names: NDArray[Any] | None) -> Columns:
    """The columns `source` and `target` of edges: the names of their nodes, or numbers if they have none."""
    first, second = edges if names is None else names[edges]
    return {"source": first, "target": second}


def found(known: Edges, values: NDArray[Any], edges: Edges, n: int) -> NDArray[np.float32]:
    """What is known about edges (2, m), NaN where nothing is.

    Args:
        known: edges in node order.
        values: their values.
        edges: the edges to look up.
        n: the number of nodes.
    """
    answer = np.full(edges.shape[1], np.nan, np.float32)
    if not known.shape[1]:
        return answer
    keys, wanted = known[0] * n + known[1], edges[0] * n + edges[1]
    at = np.clip(np.searchsorted(keys, wanted), 0, len(keys) - 1)
    there = keys[at] == wanted
    answer[there] = values[at[there]]
    return answer
