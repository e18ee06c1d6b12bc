"""Conversion between igraph and the arrays of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from garnet.errors import MissingExtra
from garnet.io.arrays import as_array
from garnet.io.checks import checked_features, checked_pairs
from garnet.io.edge_source import EdgeSource, GraphArrays, rows_of
from garnet.io.node_facts import classes_of, names_of, vectors_of


def igraph_source(graph: Any) -> EdgeSource:
    """An igraph `Graph`: `weight` of the edges; `name`, integer `label` and vectors `x` of the vertices."""
    n, known = int(graph.vcount()), set(graph.vs.attributes())
    ends = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    weights = as_array(graph.es["weight"], "Edge weights") if "weight" in graph.es.attributes() else None
    pairs = checked_pairs(ends[:, 0], ends[:, 1], weights, n)
    features = vectors_of(graph.vs["x"]) if "x" in known else None
    return EdgeSource(
        edges=lambda _: iter([pairs]),
        num_nodes=n,
        row_is="direction" if graph.is_directed() else "edge",
        features=None if features is None else rows_of(checked_features(features, n)),
        labels=classes_of(graph.vs["label"]) if "label" in known else None,
        names=names_of(graph.vs["name"]) if "name" in known else None,
    )


def to_igraph(graph: GraphArrays) -> Any:
    """An igraph `Graph` with `weight` on the edges, and `name` and `label` on the vertices."""
    try:
        import igraph
    except ImportError as error:
        raise MissingExtra("igraph", "An igraph Graph", "igraph") from error
    n, upper = graph.adjacency.shape[0], sp.triu(graph.adjacency.tocoo(), k=1)
    result = igraph.Graph(n=n, edges=list(zip(upper.row.tolist(), upper.col.tolist(), strict=True)))
    result.es["weight"] = upper.data.tolist()
    if graph.names is not None:
        result.vs["name"] = graph.names.tolist()
    if graph.labels is not None:
        result.vs["label"] = graph.labels.tolist()
    if graph.sides is not None:  # as in igraph's own bipartite graphs
        result.vs["type"] = graph.sides.tolist()
    return result
