"""Conversion between NetworkX and the arrays of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from garnet.errors import MissingExtra
from garnet.io.arrays import as_array
from garnet.io.checks import checked_features, checked_pairs
from garnet.io.edge_source import EdgeSource, GraphArrays, rows_of
from garnet.io.node_facts import classes_of, names_of, vectors_of

if TYPE_CHECKING:
    import networkx


def networkx_source(graph: networkx.Graph) -> EdgeSource:
    """A NetworkX graph: `weight` of the edges (1 if absent), integer `label` and vectors `x` of the nodes.

    Node names become `Graph.names`: integers if all are integers, otherwise their text. Of parallel edges the heaviest
    counts, as everywhere.
    """
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    triples = [(position[u], position[v], w) for u, v, w in graph.edges(data="weight", default=1.0)]
    rows, cols = np.array([t[:2] for t in triples], dtype=np.int64).reshape(-1, 2).T
    pairs = checked_pairs(rows, cols, as_array([t[2] for t in triples], "Edge weights"), len(nodes))
    features = vectors_of([graph.nodes[node].get("x") for node in nodes])
    return EdgeSource(
        edges=lambda _: iter([pairs]),
        num_nodes=len(nodes),
        row_is="direction" if graph.is_directed() else "edge",
        features=None if features is None else rows_of(checked_features(features, len(nodes))),
        labels=classes_of([graph.nodes[node].get("label") for node in nodes]),
        names=names_of(nodes),
    )


def to_networkx(graph: GraphArrays) -> networkx.Graph:
    """A NetworkX graph whose nodes carry the graph's names."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("networkx", "A NetworkX graph", "pygarnet[networkx]") from error
    names = (np.arange(graph.adjacency.shape[0]) if graph.names is None else graph.names).tolist()
    result = networkx.Graph()
    result.add_nodes_from(names)
    if graph.labels is not None:
        networkx.set_node_attributes(result, dict(zip(names, graph.labels.tolist(), strict=True)), "label")
    if graph.sides is not None:  # as in networkx.bipartite
        sides = dict(zip(names, graph.sides.astype(int).tolist(), strict=True))
        networkx.set_node_attributes(result, sides, "bipartite")
    upper = sp.triu(graph.adjacency.tocoo(), k=1)
    triples = zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True)
    result.add_weighted_edges_from((names[u], names[v], w) for u, v, w in triples)
    return result
