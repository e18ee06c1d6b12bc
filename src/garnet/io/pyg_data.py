"""PyTorch Geometric objects as graphs: a `Data`, or one relation of a `HeteroData`; several graphs are refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.errors import GraphError, brief
from garnet.io.arrays import as_array, sound_matrix
from garnet.io.checks import Parts, are_classes, checked_features, checked_pairs, checked_size
from garnet.io.edge_source import EdgeSource, rows_of

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

_OF_NODES = ("x", "y", "train_mask", "val_mask", "test_mask")
_OF_EDGES = ("edge_index", "edge_weight", "adj_t")


def is_pyg(value: Any) -> bool:
    """Whether something is a PyTorch Geometric object, without importing that."""
    return any(kind.__module__.partition(".")[0] == "torch_geometric" for kind in type(value).__mro__)


def are_graphs(value: Any) -> bool:
    """Whether something is a PyTorch Geometric dataset, or a list or a tuple of its graphs."""
    if isinstance(value, list | tuple):
        return bool(value) and is_pyg(value[0]) and not isinstance(value[0], torch.Tensor)
    return is_pyg(value) and isinstance(value, Sequence | torch.utils.data.Dataset)


def pyg_source(value: Any, relation: Any = None) -> EdgeSource:
    """A `Data`, a dataset or batch of a single graph, or one relation of a `HeteroData`.

    Raises:
        GraphError: it holds several graphs or relations and none is named, or it is malformed.
    """
    kind = type(value).__name__
    if hasattr(value, "edge_types"):
        return relation_source(value, relation)
    if relation is not None:
        raise GraphError(f"A relation is one of a HeteroData. Got {kind} beside relation={brief(relation)}.")
    if are_graphs(value):
        if len(value) != 1:
            raise GraphError(
                f"The {kind} holds {len(value)} graphs, not one; take one of them, such as dataset[0], or purify each: "
                "GARNET()(dataset) gives a list."
            )
        return pyg_source(value[0])
    found = data_source(value)
    owners = graph_numbers(value, found.num_nodes or 0)
    graphs = 1 if owners is None else len(np.unique(owners))
    if graphs > 1:
        raise GraphError(
            f"The {kind} holds {graphs} graphs, not one; take one of them, such as batch[0], or purify "
            "each: GARNET()(batch) gives a Batch."
        )
    return found


def relation_source(data: HeteroData, relation: Any) -> EdgeSource:
    """One relation of a `HeteroData`, by its three words or the middle one.

    Within a node type it is a graph of these nodes, with their features, labels and masks. Between two types it is a
    bipartite graph: the nodes of the first type come first, and each pair is one undirected edge. The two types have
    different features and labels, which are left out.
    """
    several = int(getattr(data, "num_graphs", 1))
    if several > 1:
        raise GraphError(f"The {type(data).__name__} holds {several} graphs, not one; take one, such as batch[0].")
    known = list(data.edge_types)
    wanted = tuple(relation) if isinstance(relation, list) else relation
    found = [one for one in known if wanted in (one, one[1])]
    if len(found) != 1:
        of = ", ".join(map(repr, known[:8])) or "none"
        got = "" if relation is None else f" Got relation={brief(relation)} instead."
        name = f"relation={known[0]!r}" if known else "relation=..."
        raise GraphError(
            f"A {type(data).__name__} has no edge_index of its own but relations: {of}. Name one, such as "
            f"as_graph(data, {name}).{got}"
        )
    first, _, second = found[0]
    edges = {name: data[found[0]][name] for name in _OF_EDGES if name in data[found[0]]}
    if first == second:
        from torch_geometric.data import Data

        fields = {name: data[first][name] for name in _OF_NODES if name in data[first]}
        return data_source(Data.from_dict({**edges, **fields, "num_nodes": nodes_of(data[first])}))
    sizes = [checked_size(nodes_of(data[kind])) for kind in (first, second)]
    heads, tails, weights = pairs_of(edges, type(data).__name__)
    checked_pairs(heads, heads, None, sizes[0])
    _, _, checked = checked_pairs(tails, tails, weights, sizes[1])
    pairs = heads.astype(np.int64), tails.astype(np.int64) + sizes[0], checked
    n = sum(sizes)
    return EdgeSource(edges=lambda _: iter([pairs]), num_nodes=n, row_is="edge", sides=np.arange(n) >= sizes[0])


def data_source(data: Data) -> EdgeSource:
    """The `edge_index` or else `adj_t`, `edge_weight`, `x`, `y` and the three masks of a homogeneous `Data`.

    A `y` that is not one integer per node, and masks that hold several splits or overlap, do not fit in a `Graph` and
    are left out; the `Data` a purifier returns still has them. A part without a mask has no nodes. If a `batch` says
    that these are several graphs, they are read as one.
    """
    heads, tails, weights = pairs_of({name: getattr(data, name, None) for name in _OF_EDGES}, type(data).__name__)
    n = checked_size(nodes_of(data))
    pairs = checked_pairs(heads, tails, weights, n)
    x = getattr(data, "x", None)
    return EdgeSource(
        edges=lambda _: iter([pairs]),
        num_nodes=n,
        row_is="direction",
        features=None if x is None else rows_of(checked_features(x, n)),
        labels=_class_labels(getattr(data, "y", None), n),
        split=_split_of(data, n),
    )


def graph_numbers(data: Data, n: int) -> NDArray[np.int64] | None:
    """The number of each node's graph, (n,), if a `Data` has a `batch`.

    Raises:
        GraphError: its `batch` does not give it.
    """
    batch = getattr(data, "batch", None)
    if batch is None:
        return None
    numbers = as_array(batch, "A batch")
    if numbers.shape != (n,) or (n and (numbers.dtype.kind not in "iu" or numbers.min() < 0)):
        raise GraphError(
            f"The batch of a Data must number the graph of each of its {n} nodes from 0. Got shape {numbers.shape}, "
            f"dtype {numbers.dtype} instead."
        )
    return numbers.astype(np.int64)


def pairs_of(fields: dict[str, Any], kind: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Both endpoints of each directed edge, and the weights, from an `edge_index` or else from an `adj_t`."""
    if fields.get("edge_index") is None:
        if fields.get("adj_t") is None:
            raise GraphError(f"The {kind} has no edge_index and no adj_t; convert it to a homogeneous Data with one.")
        return _pairs_of_matrix(fields["adj_t"])
    edges = as_array(fields["edge_index"], "An edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"An edge_index must have shape (2, m). Got {edges.shape} instead.")
    if edges.size and edges.dtype.kind not in "iu":
        raise GraphError(f"An edge_index must hold integers. Got dtype {edges.dtype} instead.")
    weight = fields.get("edge_weight")
    weights = None if weight is None else as_array(weight, "An edge_weight").reshape(-1)
    if weights is not None and len(weights) != edges.shape[1]:
        raise GraphError(f"The Data has {edges.shape[1]} edges but {len(weights)} edge weights; give one for each.")
    return edges[0], edges[1], weights


def _pairs_of_matrix(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """The same from the transposed adjacency: row i, column j is the edge from j to i."""
    what = "An adj_t"
    if not isinstance(matrix, torch.Tensor) and callable(getattr(matrix, "coo", None)):
        rows, columns, values = matrix.coo()  # a SparseTensor of torch-sparse
        weights = None if values is None else as_array(values, what)
        rows, columns = as_array(rows, what), as_array(columns, what)
    elif isinstance(matrix, torch.Tensor) and matrix.layout != torch.strided:
        if matrix.dim() != 2 or matrix.dense_dim():
            raise GraphError(f"{what} must be a matrix with one number for each edge. Got {tuple(matrix.shape)}.")
        if matrix.layout == torch.sparse_csc:
            parts = (matrix.values(), matrix.row_indices(), matrix.ccol_indices())
            matrix = sp.csc_array(tuple(as_array(part, what) for part in parts), shape=tuple(matrix.shape))
        entries = sound_matrix(matrix, what).tocoo()
        rows, columns, weights = entries.row, entries.col, entries.data
    else:
        raise GraphError(f"{what} must be a sparse tensor. Got {type(matrix).__name__} instead.")
    if weights is not None and weights.shape != rows.shape:
        raise GraphError(f"{what} must have one number for each edge. Got numbers of shape {weights.shape} instead.")
    return columns, rows, weights


def nodes_of(data: Any) -> Any:
    """The number of nodes of a `Data`, stated or inferred from its parts."""
    try:
        with warnings.catch_warnings():
            # PyG warns where it can only guess, and then takes it from the largest node of an edge.
            warnings.simplefilter("ignore")
            return data.num_nodes
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise GraphError("The Data does not tell how many nodes it has; set its num_nodes.") from error


def _class_labels(y: Any, n: int) -> NDArray[Any] | None:
    values = np.zeros(0) if y is None else as_array(y, "A y")
    return values.reshape(-1) if values.dtype.kind in "iu" and values.size == n and are_classes(values) else None


def _split_of(data: Data, n: int) -> Parts | None:
    found = [getattr(data, f"{part}_mask", None) for part in ("train", "val", "test")]
    if found[0] is None:
        return None
    masks = [np.zeros(n, dtype=bool) if mask is None else as_array(mask, "A mask") for mask in found]
    if any(mask.shape != (n,) or mask.dtype.kind not in "biu" for mask in masks):
        return None
    train, val, test = map(np.flatnonzero, masks)
    disjoint = len(np.unique(np.concatenate([train, val, test]))) == len(train) + len(val) + len(test)
    return (train, val, test) if disjoint else None
