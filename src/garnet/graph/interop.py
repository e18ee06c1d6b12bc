"""PyTorch Geometric and NetworkX, to and from `Graph`."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from garnet.errors import GraphError, MissingExtra
from garnet.graph.adjacency import build_adjacency
from garnet.graph.graph import Edges, Graph, Split, are_classes
from garnet.io.arrays import as_array

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data
    from numpy.typing import NDArray


def from_pyg(data: torch_geometric.data.Data, *, symmetrize: bool = False) -> Graph:
    """Read `edge_index`, `edge_weight`, `x`, `y` and the three masks of a homogeneous `Data`.

    A `y` that is not one integer a node, and masks that hold several splits or overlap, say nothing a `Graph` can hold
    and are left out; the `Data` a purifier gives back still has them. A part that has no mask has no nodes.
    """
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise GraphError(f"The {type(data).__name__} has no edge_index; convert it to a homogeneous Data with one.")
    edges = as_array(edge_index, "An edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"An edge_index must have shape (2, m). Got {edges.shape} instead.")
    if edges.size and edges.dtype.kind not in "iu":
        raise GraphError(f"An edge_index must hold integers. Got dtype {edges.dtype} instead.")
    n = num_nodes_of(data)
    weight = getattr(data, "edge_weight", None)
    weights = np.ones(edges.shape[1], np.float32) if weight is None else as_array(weight, "An edge_weight").reshape(-1)
    if len(weights) != edges.shape[1]:
        raise GraphError(f"The Data has {edges.shape[1]} edges but {len(weights)} edge weights; give one for each.")
    return Graph(
        build_adjacency(edges[0], edges[1], weights, n, symmetrize),
        features=getattr(data, "x", None),
        labels=_class_labels(getattr(data, "y", None), n),
        split=_masks_to_split(data, n),
    )


def num_nodes_of(data: Any) -> Any:
    """What a `Data` says, or lets be told from its parts, of its number of nodes."""
    try:
        with warnings.catch_warnings():
            # PyG warns where it can only guess, and then the largest node of an edge tells.
            warnings.simplefilter("ignore")
            return data.num_nodes
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise GraphError("The Data does not tell how many nodes it has; set its num_nodes.") from error


def _class_labels(y: Any, n: int) -> NDArray[Any] | None:
    values = np.zeros(0) if y is None else as_array(y, "A y")
    return values.reshape(-1) if values.dtype.kind in "iu" and values.size == n and are_classes(values) else None


def _masks_to_split(data: Any, n: int) -> Split | None:
    found = [getattr(data, f"{part}_mask", None) for part in ("train", "val", "test")]
    if found[0] is None:
        return None
    masks = [np.zeros(n, dtype=bool) if mask is None else as_array(mask, "A mask") for mask in found]
    if any(mask.shape != (n,) or mask.dtype.kind not in "biu" for mask in masks):
        return None
    parts = [np.flatnonzero(mask) for mask in masks]
    disjoint = len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
    return Split(*parts) if disjoint else None


def to_pyg(graph: Graph) -> torch_geometric.data.Data:
    """A `Data` with every edge in both directions, sorted, and features made dense."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtra("torch_geometric", "A PyG Data", "torch_geometric") from error
    edge_index, edge_weight = directed_edges(graph)
    data = Data(
        edge_index=torch.from_numpy(edge_index),
        edge_weight=torch.from_numpy(edge_weight),
        num_nodes=graph.num_nodes,
    )
    if graph.features is not None:
        dense = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        # Copies: a Graph never changes, but transforms of PyG work in place.
        data.x = torch.from_numpy(dense.copy() if dense is graph.features else dense)
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    if graph.split is not None:
        for part in ("train", "val", "test"):
            mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
            mask[torch.from_numpy(getattr(graph.split, part))] = True
            data[f"{part}_mask"] = mask
    return data


def directed_edges(graph: Graph) -> tuple[Edges, NDArray[np.float32]]:
    """Every edge in both directions, (2, 2m), sorted by row, and the weights, (2m,)."""
    matrix = graph.adjacency
    rows = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(matrix.indptr))
    return np.stack([rows, matrix.indices.astype(np.int64)]), matrix.data.copy()


def from_networkx(source: networkx.Graph, *, symmetrize: bool = False) -> Graph:
    """Read a NetworkX graph: `weight` of its edges (1 if absent), integer `label` of its nodes.

    Node names become `Graph.names`: integers if all are integers, otherwise their text.
    """
    nodes = list(source.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    triples = [(position[u], position[v], w) for u, v, w in source.edges(data="weight", default=1.0)]
    rows, cols = np.array([t[:2] for t in triples], dtype=np.int64).reshape(-1, 2).T
    weights = as_array([t[2] for t in triples], "Edge weights")
    labels = [source.nodes[node].get("label") for node in nodes]
    integers = all(isinstance(node, int | np.integer) and -(2**63) <= node < 2**63 for node in nodes)
    return Graph(
        build_adjacency(rows, cols, weights, len(nodes), symmetrize or not source.is_directed()),
        labels=np.array(labels) if nodes and all(isinstance(x, int | np.integer) for x in labels) else None,
        names=np.array(nodes, dtype=np.int64) if integers else np.array([str(node) for node in nodes]),
    )


def to_networkx(graph: Graph) -> networkx.Graph:
    """A NetworkX graph whose nodes carry the graph's names."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("networkx", "A NetworkX graph", "pygarnet[networkx]") from error
    names = (np.arange(graph.num_nodes) if graph.names is None else graph.names).tolist()
    result = networkx.Graph()
    result.add_nodes_from(names)
    if graph.labels is not None:
        networkx.set_node_attributes(result, dict(zip(names, graph.labels.tolist(), strict=True)), "label")
    (first, second), weights = graph.edges, graph.weights
    result.add_weighted_edges_from(
        (names[u], names[v], w) for u, v, w in zip(first.tolist(), second.tolist(), weights.tolist(), strict=True)
    )
    return result


def with_edges_of(graph: Graph, data: torch_geometric.data.Data) -> torch_geometric.data.Data:
    """A copy of `data` with the graph's edges, in both directions, as `edge_index` and `edge_weight`.

    Attributes that describe the old edges one by one, such as `edge_attr`, are left out: the edges they speak of may be
    gone. So is `adj_t`, the same edges in another form.
    """
    import torch

    result = copy.copy(data)
    for name in list(result.keys()):
        if name == "adj_t" or (name not in ("edge_index", "edge_weight") and result.is_edge_attr(name)):
            del result[name]
    edge_index, edge_weight = directed_edges(graph)
    device = getattr(data.edge_index, "device", "cpu")
    result.num_nodes = graph.num_nodes
    result.edge_index = torch.from_numpy(edge_index).to(device)
    result.edge_weight = torch.from_numpy(edge_weight).to(device)
    return result
