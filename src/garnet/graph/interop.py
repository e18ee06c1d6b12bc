"""PyTorch Geometric and NetworkX, from and to the arrays of a graph; `garnet.io.pyg_file` reads a `Data`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from garnet.errors import MissingExtra
from garnet.io.arrays import as_array
from garnet.io.checks import checked_pairs
from garnet.io.edge_source import EdgeSource, GraphArrays

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data
    from numpy.typing import NDArray


def to_pyg(graph: GraphArrays) -> torch_geometric.data.Data:
    """A `Data` with every edge in both directions, sorted, and features made dense."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtra("torch_geometric", "A PyG Data", "torch_geometric") from error
    n = graph.adjacency.shape[0]
    edge_index, edge_weight = _directed_edges(graph.adjacency)
    data = Data(edge_index=torch.from_numpy(edge_index), edge_weight=torch.from_numpy(edge_weight), num_nodes=n)
    if graph.features is not None:
        # Copies: a Graph never changes, but transforms of PyG work in place.
        dense = graph.features.copy() if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        data.x = torch.from_numpy(dense)
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    if graph.split is not None:
        for part, nodes in zip(("train", "val", "test"), graph.split, strict=True):
            mask = torch.zeros(n, dtype=torch.bool)
            mask[torch.from_numpy(nodes)] = True
            data[f"{part}_mask"] = mask
    return data


def _directed_edges(matrix: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Every edge in both directions, (2, 2m), sorted by row, and the weights, (2m,)."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return np.stack([rows, matrix.indices.astype(np.int64)]), matrix.data.copy()


def networkx_source(graph: networkx.Graph) -> EdgeSource:
    """A NetworkX graph: `weight` of its edges (1 if absent), integer `label` of its nodes.

    Node names become `Graph.names`: integers if all are integers, otherwise their text.
    """
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    triples = [(position[u], position[v], w) for u, v, w in graph.edges(data="weight", default=1.0)]
    rows, cols = np.array([t[:2] for t in triples], dtype=np.int64).reshape(-1, 2).T
    pairs = checked_pairs(rows, cols, as_array([t[2] for t in triples], "Edge weights"), len(nodes))
    labels = [graph.nodes[node].get("label") for node in nodes]
    integers = all(isinstance(node, int | np.integer) and -(2**63) <= node < 2**63 for node in nodes)
    return EdgeSource(
        edges=lambda _: iter([pairs]),
        num_nodes=len(nodes),
        row_is="direction" if graph.is_directed() else "edge",
        labels=np.array(labels) if nodes and all(isinstance(x, int | np.integer) for x in labels) else None,
        names=np.array(nodes, dtype=np.int64) if integers else np.array([str(node) for node in nodes]),
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
    upper = sp.triu(graph.adjacency.tocoo(), k=1)
    triples = zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True)
    result.add_weighted_edges_from((names[u], names[v], w) for u, v, w in triples)
    return result


def with_adjacency(data: torch_geometric.data.Data, adjacency: sp.csr_array) -> torch_geometric.data.Data:
    """A copy of `data` with the edges of a graph, in both directions, as `edge_index` and `edge_weight`.

    Attributes that describe the old edges one by one, such as `edge_attr`, are left out: the edges they speak of may be
    gone. So is `adj_t`, the same edges in another form.
    """
    import torch

    result = copy.copy(data)
    for name in list(result.keys()):
        if name == "adj_t" or (name not in ("edge_index", "edge_weight") and result.is_edge_attr(name)):
            del result[name]
    edge_index, edge_weight = _directed_edges(adjacency)
    device = getattr(data.edge_index, "device", "cpu")
    result.num_nodes = adjacency.shape[0]
    result.edge_index = torch.from_numpy(edge_index).to(device)
    result.edge_weight = torch.from_numpy(edge_weight).to(device)
    return result
