"""A purifier as a PyTorch Geometric transform: which parts of a `Data` are new, carried over or unchanged."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.errors import GraphError, ParameterError, brief
from garnet.graph.collect import collect
from garnet.graph.graph import Graph, Split
from garnet.io.pyg_data import data_source, graph_numbers, pairs_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

Fill = Literal["zeros", "mean"]
"""How to fill edge attributes for new edges."""

GIVEN, ADDED = "edge_weight_given", "edge_added"
"""Under which the weights that edges had are kept, and which edges are new is said."""

_SUPERVISION = ("edge_label", "edge_label_index")  # these belong to the pairs that a model predicts, not to the edges


class Directed(NamedTuple):
    """The sorted edges of a `Data`, most of them in both directions.

    Attributes:
        edge_index: (2, s).
        weight: (s,).
        row: (s,) the input edge that each one is, or -1 if it is new.
    """

    edge_index: NDArray[np.int64]
    weight: NDArray[np.float32]
    row: NDArray[np.int64]


def purified_data(data: Data, purify: Callable[[Graph], Graph], *, fill: Fill = "zeros") -> Data:
    """A purified copy of a `Data`, or of a batch of graphs, each purified separately.

    A graph without edges has nothing to purify, and stays as it is. A kept edge has its original directions, and new
    ones have both. Of parallel edges the heaviest is kept, with its attributes; loops are dropped.

    Args:
        data: the `Data`, which is not changed.
        purify: the purifier.
        fill: how to fill the attributes of new edges.

    Raises:
        GraphError: it is not a graph, or lacks what the purifier needs.
        ParameterError: there is no such fill, or a graph rules out a parameter.
    """
    if fill not in ("zeros", "mean"):
        raise ParameterError(f"The 'fill' of a transform must be 'zeros' or 'mean'. Got {brief(fill)} instead.")
    graph = Graph.of(collect(data_source(data), symmetrize=True)[0])
    owners = graph_numbers(data, graph.num_nodes)
    only_matrix = getattr(data, "edge_index", None) is None
    several = owners is not None and len(owners) > 0 and owners.min() != owners.max()
    if owners is None or not several:
        cleaned = purify(graph).adjacency if graph.num_edges else graph.adjacency
    elif only_matrix:
        raise GraphError("A batch with an adj_t and no edge_index cannot be taken apart; put the purifier before it.")
    else:
        cleaned = _each(graph, owners, purify)
    fields = {name: getattr(data, name, None) for name in ("edge_index", "edge_weight", "adj_t")}
    edges = directions(*pairs_of(fields, type(data).__name__), cleaned)
    if only_matrix:  # whose rows are the targets
        order = np.lexsort(edges.edge_index)
        edges = Directed(edges.edge_index[:, order], edges.weight[order], edges.row[order])
    result, names = _with_edges(data, edges, fill)
    if only_matrix:
        _give_matrix(result, edges, graph.num_nodes)
    elif owners is None:
        result.num_nodes = graph.num_nodes
    if hasattr(data, "_slice_dict"):
        _cut_anew(result, names, edges, owners)
    return result


def _each(graph: Graph, owners: NDArray[np.int64], purify: Callable[[Graph], Graph]) -> sp.csr_array:
    """The adjacency of all graphs of a batch, each purified separately."""
    heads, tails = graph.edges
    across = np.flatnonzero(owners[heads] != owners[tails])
    if len(across):
        one, other = int(heads[across[0]]), int(tails[across[0]])
        raise GraphError(
            f"An edge joins nodes {one} and {other}, which are of different graphs of the batch, {owners[one]} and "
            f"{owners[other]}; correct its edge_index or its batch."
        )
    order = np.argsort(owners, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(owners[order]) != 0, True)) + 1
    parts: list[sp.csr_array] = []
    for nodes in np.split(order, ends[:-1]):
        part = _part(graph, nodes)
        if part.num_edges:
            try:
                part = replace(part, adjacency=purify(part).adjacency)
            except (GraphError, ParameterError) as error:
                raise type(error)(
                    f"Graph {owners[nodes[0]]} of the batch, with {len(nodes)} nodes, cannot be purified: {error}"
                ) from error
        parts.append(part.adjacency)
    whole = sp.csr_array(sp.block_diag(parts, format="csr"))
    if not np.array_equal(order, np.arange(len(order))):
        back = np.argsort(order)
        whole = whole[back][:, back]
        whole.sort_indices()
    return whole


def _part(graph: Graph, nodes: NDArray[np.int64]) -> Graph:
    """The graph of some nodes, in this order; no edge leaves them."""
    place = slice(nodes[0], nodes[-1] + 1) if nodes[-1] - nodes[0] == len(nodes) - 1 else nodes
    split = graph.split
    if split is not None:
        number = np.full(graph.num_nodes, -1)
        number[nodes] = np.arange(len(nodes))
        parts = (number[part] for part in (split.train, split.val, split.test))
        split = Split(*(part[part >= 0] for part in parts))
    return Graph(
        adjacency=graph.adjacency[place][:, place],
        features=None if graph.features is None else graph.features[place],
        labels=None if graph.labels is None else graph.labels[place],
        label_names=graph.label_names,
        split=split,
    )


def directions(
    heads: NDArray[Any], tails: NDArray[Any], weights: NDArray[Any] | None, cleaned: sp.csr_array
) -> Directed:
    """The purified edges in their original directions, or in both if they are new.

    Where the directions of an edge had different weights, each keeps its part of the larger one.
    """
    n = cleaned.shape[0]
    given = np.ones(len(heads), np.float32) if weights is None else weights.astype(np.float32)
    keys = heads.astype(np.int64) * n + tails
    known = np.flatnonzero((heads != tails) & (given > 0))
    if (np.diff(keys[known]) <= 0).any():
        known = known[np.lexsort((-given[known], keys[known]))]
        known = known[np.append(True, np.diff(keys[known]) > 0)[: len(known)]]  # the heaviest of parallel ones
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(cleaned.indptr))
    columns = cleaned.indices.astype(np.int64)
    row, back = (_looked_up(keys[known], known, wanted) for wanted in (rows * n + columns, columns * n + rows))
    weight = cleaned.data.astype(np.float32)
    two_ways = (row >= 0) & (back >= 0)
    own, other = given[row[two_ways]], given[back[two_ways]]
    weight[two_ways] *= own / np.maximum(own, other)
    stays = (row >= 0) | (back < 0)
    return Directed(np.stack([rows[stays], columns[stays]]), weight[stays], row[stays])


def _looked_up(keys: NDArray[np.int64], values: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The value of each wanted key, -1 where it is not among the sorted ones."""
    if not len(keys):
        return np.full(len(wanted), -1)
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], -1)


def _with_edges(data: Data, edges: Directed, fill: Fill) -> tuple[Data, list[str]]:
    """A copy of a `Data` with other edges, which its edge attributes follow; and the names of these attributes."""
    result = copy.copy(data)
    apart = ("edge_index", "edge_weight", "adj_t", ADDED, *_SUPERVISION)
    names = [name for name in list(data.keys()) if name not in apart and data.is_edge_attr(name)]
    for name in names:
        result[name] = carried(name, data[name], edges.row, data.__cat_dim__(name, data[name]), fill)
    weight = getattr(data, "edge_weight", None)
    if weight is not None and GIVEN not in names:
        result[GIVEN] = carried(GIVEN, torch.as_tensor(weight).reshape(-1), edges.row, 0, "zeros")
        names.append(GIVEN)
    device = getattr(data.edge_index, "device", "cpu")
    result.edge_index = torch.from_numpy(edges.edge_index).to(device)
    result.edge_weight = torch.from_numpy(edges.weight).to(device)
    result[ADDED] = torch.from_numpy(edges.row < 0).to(device)
    if "adj_t" in result:
        del result["adj_t"]
    return result, [*names, "edge_index", "edge_weight", ADDED]


def carried(name: str, values: Any, row: NDArray[np.int64], dimension: Any, fill: Fill) -> Any:
    """An attribute of the input's edges, carried over to the new edges.

    Args:
        name: the attribute's name.
        values: its values for the input's edges: a tensor, an array, a list or a tuple.
        row: (s,) which input edge each one is, or -1 if it is new.
        dimension: for a tensor, the dimension of the edges.
        fill: for new edges; the mean only for floats. In a list they have None.
    """
    if isinstance(values, np.ndarray):
        return carried(name, torch.from_numpy(values), row, dimension, fill).numpy()
    if isinstance(values, list | tuple):
        return type(values)([None if one < 0 else values[one] for one in row.tolist()])
    if not isinstance(values, torch.Tensor) or values.layout != torch.strided:
        raise GraphError(
            f"The attribute {name!r} of the edges is a {type(values).__name__}, which cannot go along with them; leave "
            "it out, or make it a dense tensor."
        )
    # New edges take the value appended after all others.
    if fill == "mean" and (values.is_floating_point() or values.is_complex()):
        last = values.mean(dim=dimension, keepdim=True)
    else:
        last = torch.zeros_like(values.narrow(dimension, 0, 1)) if values.shape[dimension] else values
    place = torch.from_numpy(np.where(row < 0, values.shape[dimension], row)).to(values.device)
    return torch.cat([values, last], dim=dimension).index_select(dimension, place)


def _give_matrix(data: Data, edges: Directed, n: int) -> None:
    """Give a `Data` that had only an `adj_t` its edges as one, as `ToSparseTensor` does."""
    rows, columns = (torch.from_numpy(end) for end in edges.edge_index[::-1])
    starts = torch.zeros(n + 1, dtype=torch.long)
    starts[1:] = torch.bincount(rows, minlength=n).cumsum(0)
    values = torch.from_numpy(edges.weight)
    data.adj_t = torch.sparse_csr_tensor(starts, columns, values, size=(n, n), check_invariants=False)
    for name in ("edge_index", "edge_weight", ADDED, GIVEN):
        if name in data:
            del data[name]


def _cut_anew(batch: Data, names: list[str], edges: Directed, owners: NDArray[np.int64] | None) -> None:
    """Record in a `Batch` where each graph's edges begin in these attributes, for `batch[i]` and `to_data_list()`."""
    count = int(batch.num_graphs)
    if owners is None or (np.diff(owners) < 0).any() or (len(owners) and owners.max() >= count):
        batch._slice_dict = batch._inc_dict = None
        return
    slices, steps = dict(batch._slice_dict), dict(batch._inc_dict)
    cuts = torch.from_numpy(np.append(0, np.bincount(owners[edges.edge_index[0]], minlength=count).cumsum()))
    for name in names:
        slices[name] = cuts
        steps.setdefault(name, torch.zeros(count, dtype=torch.long))
    slices.pop("adj_t", None)
    batch._slice_dict, batch._inc_dict = slices, steps
