"""The values that flow through the library, and `as_graph`, its only entrance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from garnet.errors import GraphError, ParameterError
from garnet.graph.adjacency import build_adjacency
from garnet.graph.collect import collect
from garnet.graph.dgl_graph import dgl_source
from garnet.graph.fingerprint import fingerprint_of
from garnet.graph.html import html_table
from garnet.graph.igraph_graph import igraph_source, to_igraph
from garnet.graph.networkx_graph import networkx_source, to_networkx
from garnet.graph.node_table import NodeTable
from garnet.graph.pyg_graph import to_pyg
from garnet.graph.read_report import ReadReport
from garnet.graph.sides import told_sides
from garnet.io.arrays import as_array, sound_matrix
from garnet.io.checks import (
    checked_features,
    checked_labels,
    checked_names,
    checked_sides,
    checked_split,
    require_across,
)
from garnet.io.edge_source import EdgeSource, GraphArrays
from garnet.io.formats import open_path, save_arrays
from garnet.io.frames import frame_source, is_frame, is_list_of_pairs, pairs_source
from garnet.io.pyg_data import are_graphs, is_pyg, pyg_source
from garnet.io.table_layout import Column, Duplicates, TableOptions

if TYPE_CHECKING:
    import igraph
    import networkx
    import torch_geometric.data

Edges = NDArray[np.int64]
"""Undirected edges, shape (2, m), each once with the smaller node first, in lexicographic order."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which nodes are for training, validation and testing: three disjoint arrays of node numbers."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that depend on the three parts alone."""
        return fingerprint_of(*((len(part), [part], "<i8") for part in (self.train, self.val, self.test)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and all(
            np.array_equal(getattr(self, part), getattr(other, part)) for part in ("train", "val", "test")
        )


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph whose invariants `as_graph` has checked; build it there, never by hand.

    Attributes:
        adjacency: (n, n) float32 CSR; symmetric, finite, positive entries, no self-loops, sorted indices.
        features: (n, d) float32, dense or CSR, finite; or None.
        labels: (n,) int64 classes, -1 where unknown; or None.
        split: nodes for training, validation and testing; or None.
        names: (n,) the user's own node names, integers or text; None if they are 0 .. n-1.
        sides: (n,) for a bipartite graph, true for the nodes of the second side; None for other graphs. No edge of the
            input joins two nodes of one side, and no purifier adds such an edge.
        label_names: (c,) names of the classes, by number; None if they are numbers.
    """

    adjacency: sp.csr_array
    features: sp.csr_array | NDArray[np.float32] | None = None
    labels: NDArray[np.int64] | None = None
    split: Split | None = None
    names: NDArray[Any] | None = None
    sides: NDArray[np.bool_] | None = None
    label_names: NDArray[np.str_] | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges, m."""
        return int(self.adjacency.nnz // 2)

    @property
    def num_features(self) -> int:
        """Number of features, d; 0 if there are none."""
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def edges(self) -> Edges:
        """The undirected edges, shape (2, m)."""
        upper = sp.triu(self.adjacency, k=1, format="csr")
        rows = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(upper.indptr))
        return np.stack([rows, upper.indices.astype(np.int64)])

    @property
    def weights(self) -> NDArray[np.float32]:
        """The weight of each of `edges`, shape (m,)."""
        return np.asarray(sp.triu(self.adjacency, k=1, format="csr").data, dtype=np.float32)

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Weighted degree of each node, shape (n,)."""
        return np.asarray(self.adjacency.astype(np.float64).sum(axis=1)).ravel()

    @property
    def homophily(self) -> float | None:
        """Share of the edges between two labelled nodes that join equal labels; None if there are no such edges."""
        if self.labels is None:
            return None
        first, second = self.labels[self.edges]
        known = (first >= 0) & (second >= 0)
        return float((first == second)[known].mean()) if known.any() else None

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that depend on the number of nodes, the edges and their weights alone."""
        matrix = self.adjacency
        arrays = ((matrix.indptr, "<i8"), (matrix.indices, "<i8"), (matrix.data, "<f4"))
        return fingerprint_of(*((len(array), [array], kind) for array, kind in arrays))

    def with_edges(self, edges: Edges, weights: ArrayLike | None = None) -> Graph:
        """The same nodes joined by other edges: each column of (2, m) is one undirected edge."""
        weights = np.ones(edges.shape[1]) if weights is None else np.asarray(weights)
        return replace(self, adjacency=build_adjacency(edges[0], edges[1], weights, self.num_nodes, True))

    def save(self, path: str | Path) -> None:
        """Write the graph to a file, whole or not at all, in the format of its extension, as for `load_graph`.

        Only `.npz` keeps everything. An edge list keeps edges, weights and names, but loses nodes without edges; text
        names that all spell integers come back as integers. A Matrix Market file keeps edges and weights. Neither keeps
        features, labels or split. Edge lists that end in `.txt` or `.edges` are separated by tabs. The same graph gives
        the same bytes.

        Args:
            path: the file, replaced if it exists; its folder must exist.

        Raises:
            GraphError: the extension is unknown, or a node name cannot be kept in an edge list.
            GarnetError: the file cannot be written.
        """
        save_arrays(self.to_arrays(), Path(path))

    @classmethod
    def of(cls, arrays: GraphArrays) -> Graph:
        """A graph from arrays that have been checked."""
        split = None if arrays.split is None else Split(*arrays.split)
        said = arrays.names, arrays.sides, arrays.label_names
        return cls(arrays.adjacency, arrays.features, arrays.labels, split, *said)

    def to_arrays(self) -> GraphArrays:
        """The graph as plain arrays, which share its memory."""
        parts = None if self.split is None else (self.split.train, self.split.val, self.split.test)
        said = self.names, self.sides, self.label_names
        return GraphArrays(self.adjacency, self.features, self.labels, parts, *said)

    def to_scipy(self) -> sp.csr_array:
        """A copy of the adjacency matrix."""
        return self.adjacency.copy()

    def to_pyg(self) -> torch_geometric.data.Data:
        """A PyTorch Geometric `Data`; weights, features, labels and split become its usual fields."""
        return to_pyg(self.to_arrays())

    def to_networkx(self) -> networkx.Graph:
        """A NetworkX graph with `weight` on the edges and `label` on the nodes."""
        return to_networkx(self.to_arrays())

    def to_igraph(self) -> igraph.Graph:
        """An igraph `Graph` with `weight` on the edges, and `name` and `label` on the vertices."""
        return to_igraph(self.to_arrays())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Graph)
            and _same(self.adjacency, other.adjacency)
            and _same(self.features, other.features)
            and _same(self.labels, other.labels)
            and self.split == other.split
            and _same(self.names, other.names)
            and _same(self.sides, other.sides)
            and _same(self.label_names, other.label_names)
        )

    def __repr__(self) -> str:
        parts = [f"{self.num_nodes} nodes", f"{self.num_edges} edges"]
        if self.features is not None:
            parts.append(f"{self.features.shape[1]} features")
        if self.labels is not None:
            parts.append(f"{self.labels.max(initial=-1) + 1} classes")
        if self.sides is not None:
            parts.append(f"bipartite: {(~self.sides).sum()} and {self.sides.sum()}")
        return f"Graph({', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = {"nodes": f"{self.num_nodes:,}", "edges": f"{self.num_edges:,}"}
        if self.num_nodes:
            rows["edges a node"] = f"{2 * self.num_edges / self.num_nodes:.2f}"
        if self.names is not None and self.num_nodes:
            rows["names"] = ", ".join(map(str, self.names[:3])) + (" …" if self.num_nodes > 3 else "")
        if self.features is not None:
            rows["features"] = f"{self.features.shape[1]:,}"
        if self.labels is not None:
            rows["classes"] = f"{self.labels.max(initial=-1) + 1:,}"
        if self.homophily is not None:
            rows["edges within a class"] = f"{self.homophily:.1%}"
        if self.sides is not None:
            rows["sides"] = f"{(~self.sides).sum():,} and {self.sides.sum():,}"
        if self.split is not None:
            parts = (self.split.train, self.split.val, self.split.test)
            rows["training, validation and test nodes"] = ", ".join(f"{len(part):,}" for part in parts)
        return html_table("Graph", rows)


def as_graph(
    data: Any,
    /,
    *,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | None = None,
    time: Column | None = None,
    before: Any = None,
    duplicates: Duplicates = "max",
    nodes: Any = None,
    id: str | None = None,  # noqa: A002
    features: Any = None,
    labels: ArrayLike | str | None = None,
    split: Split | str | None = None,
    names: ArrayLike | None = None,
    symmetrize: bool = False,
    relation: Any = None,
    bipartite: int | ArrayLike | None = None,
) -> Graph:
    """Turn anything that holds a graph into a `Graph`, or say in one sentence why it cannot.

    The rules are the same for every kind of input: self-loops and zero weights are dropped; of several weights for the
    same ordered pair the largest counts, unless `duplicates` says otherwise; a graph that is not symmetric is refused
    unless `symmetrize` is set, and then an edge gets the larger of its two weights, or what `duplicates` makes of them.

    Args:
        data: a `Graph`; a path (see `load_graph`); a SciPy sparse matrix or array in any format; a square NumPy array;
            a PyTorch Geometric `Data`; a NetworkX, igraph or DGL graph; a pandas or polars DataFrame, or an Arrow
            table, with one row per edge; a list of pairs, with or without weights; or a pair `(edge_index, n)` with
            `edge_index` (2, m).
        source: for a table, the column of the source nodes. Without it the column names must leave no doubt; see
            `load_graph`.
        target: for a table, the column of the target nodes.
        weight: for a table, the column of the weights.
        time: for a table, the column of times, which `before` needs.
        before: leave out rows with this time or a later one: a number, or a date as text, such as 2024-05-31.
        duplicates: for a table, how several rows for one edge are merged: `max`, `sum`, `count` or `first`.
        nodes: a table of nodes: a DataFrame, the path of a .csv, .tsv, .txt or .parquet file, or a `garnet.NodeTable`,
            which says how its columns are read. Nodes that only it names have no edges.
        id: in the table of nodes, the column of their names; by default one called id, node, node_id or name.
        features: (n, d) dense, or sparse in SciPy or torch; overrides the data's own. With a table of nodes, the names
            of its feature columns.
        labels: (n,) integers, negative where unknown; overrides the data's own. With a table of nodes, the name of a
            column, of any type.
        split: training, validation and test nodes; overrides the data's own. With a table of nodes, the name of a
            column with `train`, `val` and `test`.
        names: (n,) integers or text; overrides the data's own.
        symmetrize: accept a directed graph and keep each of its edges in both directions.
        relation: of a `HeteroData`, such as `("user", "buys", "item")`. One within a node type gives a graph of these
            nodes; one between two types gives a bipartite graph, with the nodes of the first type first; pass its
            features as `features`.
        bipartite: says that the graph has two sides and no edge within either, such as users and what they buy: the
            number of nodes on the first side, which come before those of the second; or (n,) booleans, true for the
            second; or true, if the edges determine the sides. A purifier then adds no edge within a side either.

    Returns:
        The graph; later changes to the data cannot reach its adjacency.

    Raises:
        GraphError: the data are no graph, or a part of them is malformed.

    Example:
        >>> import numpy as np
        >>> as_graph((np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), 4))
        Graph(4 nodes, 2 edges)
        >>> as_graph([("ann", "bob"), ("bob", "cy")]).names.tolist()
        ['ann', 'bob', 'cy']
    """
    said = features, labels, split, names, nodes, relation, bipartite
    if isinstance(data, Graph) and all(part is None for part in said):
        return data
    options = TableOptions(source=source, target=target, weight=weight, time=time, before=before, duplicates=duplicates)
    table: NodeTable | None = None
    if nodes is not None:
        named: dict[str, Any] = {"id": id, "features": features, "labels": labels, "split": split}
        table = nodes if isinstance(nodes, NodeTable) else NodeTable(nodes, **named)
        beside = next((name for name, value in named.items() if value is not None), None)
        if table is nodes and beside is not None:
            raise GraphError(f"A NodeTable says itself which of its columns are what; give {beside} to it.")
        features = labels = split = None
    elif id is not None:
        raise GraphError(f"There is no table of nodes that could have the column {id!r}; give it as nodes.")
    graph, _ = read_graph(data, options, nodes=table, symmetrize=symmetrize, relation=relation)
    n = graph.num_nodes
    for column in (labels, split):
        if isinstance(column, str):
            raise GraphError(f"There is no table of nodes that could have the column {column!r}; give it as nodes.")
    if split is not None and not isinstance(split, Split):
        raise GraphError(f"A split must be a Split. Got {type(split).__name__} instead.")
    sides = graph.sides if bipartite is None or bipartite is False else _sides(bipartite, graph)
    return Graph(
        graph.adjacency,
        features=graph.features if features is None else checked_features(features, n),
        labels=graph.labels if labels is None else checked_labels(labels, n),
        split=graph.split if split is None else Split(*checked_split((split.train, split.val, split.test), n)),
        names=graph.names if names is None else checked_names(names, n),
        sides=sides,
        label_names=graph.label_names if labels is None else None,
    )


def _sides(bipartite: Any, graph: Graph) -> NDArray[np.bool_]:
    """The sides of a bipartite graph, as given or, for true, as its edges determine them."""
    if bipartite is True:
        return told_sides(graph.adjacency)
    sides = checked_sides(bipartite, graph.num_nodes)
    require_across(sides, *graph.edges)
    return sides


def read_graph(
    data: Any,
    options: TableOptions = TableOptions(),  # noqa: B008
    *,
    nodes: NodeTable | None = None,
    symmetrize: bool = False,
    relation: Any = None,
) -> tuple[Graph, ReadReport | None]:
    """The graph of anything that `as_graph` reads, and a report in words if something had to be guessed.

    Args:
        data: what holds the graph.
        options: how to read it, if it is a table of edges.
        nodes: a table of the nodes.
        symmetrize: accept a directed graph and keep each of its edges in both directions.
        relation: of a `HeteroData`.

    Raises:
        GraphError: the data are no graph, or a part of them is malformed.
        ParameterError: an option applies to tables only.
    """
    opened = _opened(data, options, symmetrize, relation)
    if isinstance(opened, GraphArrays):
        arrays, report = opened, None
        if nodes is not None:
            arrays, notes = nodes.joined(arrays)
            report = ReadReport(pairs=0, nodes=arrays.adjacency.shape[0], edges=arrays.adjacency.nnz // 2, notes=notes)
        return Graph.of(arrays), report
    arrays, report = collect(opened, symmetrize=symmetrize, also=None if nodes is None else nodes.names)
    if nodes is not None:
        arrays, notes = nodes.joined(arrays)
        report = replace(report, notes=notes)
    return Graph.of(arrays), report


def _opened(data: Any, options: TableOptions, symmetrize: bool, relation: Any) -> GraphArrays | EdgeSource:
    """What any kind of input gives: pairs to be assembled, or an adjacency matrix."""
    if relation is not None and not is_pyg(data):
        raise GraphError(f"A relation is one of a HeteroData. Got {type(data).__name__} beside a relation.")
    if isinstance(data, str | Path):
        return open_path(Path(data), options=options)
    if is_frame(data):
        return frame_source(data, options)
    if is_list_of_pairs(data):
        return pairs_source(data, options)
    if said := options.said:
        raise ParameterError(f"{type(data).__name__} is no table of edges, so it has no {said[0]} to choose.")
    if isinstance(data, Graph):
        return data.to_arrays()
    if (isinstance(data, np.ndarray) and data.ndim == 2) or sp.issparse(data):
        if data.ndim != 2 or data.shape[0] != data.shape[1]:
            raise GraphError(f"An adjacency matrix must be square. Got shape {data.shape} instead.")
        if sp.issparse(data):
            entries = sound_matrix(data, "The adjacency matrix").tocoo()
            rows, cols, weights = entries.row, entries.col, entries.data
        else:
            data = as_array(data, "The adjacency matrix")  # a np.matrix would stay two-dimensional below
            if data.dtype.kind not in "biuf":
                raise GraphError(f"Edge weights must be numbers. Got dtype {data.dtype} instead.")
            rows, cols = np.nonzero(data)
            weights = data[rows, cols]
        return GraphArrays(build_adjacency(rows, cols, weights, data.shape[0], symmetrize))
    if isinstance(data, tuple) and len(data) == 2:
        edge_index = as_array(data[0], "An edge_index")
        if edge_index.ndim != 2 or edge_index.shape[0] != 2:
            raise GraphError(f"An edge_index must have shape (2, m). Got {edge_index.shape} instead.")
        weights = np.ones(edge_index.shape[1], dtype=np.float32)
        return GraphArrays(build_adjacency(edge_index[0], edge_index[1], weights, data[1], symmetrize))
    if is_pyg(data) or are_graphs(data):
        return pyg_source(data, relation)
    library = type(data).__module__.partition(".")[0]
    if library == "dgl" and hasattr(data, "is_homogeneous"):
        return dgl_source(data)
    if library == "igraph" and hasattr(data, "vcount"):
        return igraph_source(data)
    if hasattr(data, "nodes") and hasattr(data, "is_directed"):
        return networkx_source(data)
    raise GraphError(
        f"Cannot read a graph from {type(data).__name__}; give a path, a SciPy sparse or square NumPy matrix, a PyG "
        "Data, a NetworkX, igraph or DGL graph, a DataFrame, a list of pairs, or (edge_index, n)."
    )


def _same(one: Any, other: Any) -> bool:
    if sp.issparse(one) and sp.issparse(other):
        return bool(one.shape == other.shape and (one != other).nnz == 0)
    if one is None or other is None or sp.issparse(one) or sp.issparse(other):
        return one is other
    return bool(np.array_equal(one, other))
