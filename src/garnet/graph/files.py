"""Reading and writing graphs, in the format that the file's extension names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from garnet.errors import GraphError
from garnet.graph.graph import Graph, read_graph
from garnet.graph.node_table import NodeTable
from garnet.io.checks import Pairs
from garnet.io.edge_source import EdgeSource, rows_between, rows_of
from garnet.io.formats import LONELY, NODE_FACTS, format_of, open_path
from garnet.io.table_layout import Column, Duplicates, TableOptions
from garnet.io.targets import require_file

_SIDES = "is bipartite, which is purified in memory only; leave the memory limit out."


def load_graph(
    path: str | Path,
    *,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | None = None,
    time: Column | None = None,
    before: Any = None,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    duplicates: Duplicates = "max",
    nodes: NodeTable | None = None,
    symmetrize: bool = False,
) -> Graph:
    """Read a graph from a file, whoever wrote it, in the format of its extension; or from a folder.

    * `.npz`: the layout of the gnn-benchmark collection (`adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`; features
      as `attr_*` alike or dense as `attr_matrix`; `labels`; `idx_train`, `idx_val`, `idx_test`; `names`; `sides`;
      `label_names`),
      the only format that keeps everything in a `Graph`; or an adjacency matrix written by SciPy's `save_npz` in csr,
      csc or coo format.
    * `.csv`, `.tsv`, `.txt`, `.edges`, `.parquet`: a table with one row per edge; see below.
    * `.mtx`: a square matrix in Matrix Market format.
    * `.graphml`, `.gexf`: the edges' `weight`, node ids (or in GraphML a unique `name`), and as labels an integer node
      attribute, `class` or else `label`.
    * `.gml`: the edges' `weight`; nodes by their `label` or else `name` if these are unique, or else by `id`.
    * `.json`: lists `nodes`, and `links` or `edges`, as NetworkX and D3 write them. Nodes have an `id`, and perhaps an
      integer `label`; without ids, `source` and `target` of an edge are node positions from 0.
    * `.pt`: a PyTorch Geometric `Data` written by `torch.save`, with its masks as the split.

    Text files may also end in `.gz`. Nothing in a file is ever run, and only `.pt` files are unpickled, by PyTorch's
    restricted reader. A file that declares more than it holds, or more than this machine's memory, is refused before
    anything is allocated for it. So is a small file that unpacks to far more than real graphs do: to over 256 MB and 50
    times its size, for compressed text over 16 MB and 20 times its size, or over 200,000 nodes and 100 for each entry.
    The environment variable `GARNET_UNFOLD` multiplies these limits; `GARNET_UNFOLD=4` allows four times as much.

    **Tables of edges.** Any two columns can be the endpoints: `source` and `target` give their names, or their numbers
    from 1. Without these the columns are chosen only where there is no doubt: two columns; three, the last called
    weight (or unnamed and numeric); or two called source and target, src and dst, from and to, u and v, sender and
    receiver and so on. Otherwise the table is refused, with a list of its columns and what to specify. Columns called
    weight, weights or w are weights, others only if `weight` names them.

    In text files cells are separated by commas, semicolons, tabs or bars, in `.txt` and `.edges` also by blanks; the
    delimiter that divides all rows alike is detected, and the file is refused if two do. Blank lines and those that
    begin with `#` or `%` are skipped. The first row is a header if it says source and target, or has text where other
    rows have numbers; if a table holds only text, and neither end of the first row appears again, `header` must say
    which it is. Names that are all integers are sorted as integers, others as text, and nodes are numbered in that
    order. A table in which no pair is given in both directions is undirected, one row per edge; one that gives some
    pairs in both directions and others in one is directed. In Parquet, where the schema's metadata have the key
    `garnet:num_nodes`, names are node numbers, and there may be nodes without edges. A folder with files that end in
    `.parquet`, as Dask and Spark write them, is one table; files whose names begin with _ or a dot are ignored.

    A folder with the file `raw/edge.csv.gz` is an unpacked archive of the Open Graph Benchmark, such as `arxiv` or
    `products`. It also has `raw/num-node-list.csv.gz` and, where available, `raw/node-feat.csv.gz`,
    `raw/node-label.csv.gz` and a folder in `split`, such as `time`, with `train.csv.gz`, `valid.csv.gz` and
    `test.csv.gz`; the first in alphabetical order if there are several. Missing labels, `nan`, become -1. These graphs
    are stored with one direction of each edge, so most need `symmetrize`.

    Args:
        path: the file, or the folder.
        source: for a table, the column of the source nodes.
        target: for a table, the column of the target nodes.
        weight: for a table, the column of the weights.
        time: for a table, the column of times, which `before` needs.
        before: leave out rows with this time or a later one: a number, or a date such as 2024-05-31 or
            2024-05-31T18:00, in UTC unless it names a time zone.
        header: whether the first row of a text file is a header.
        delimiter: what separates the cells of a text file; a blank stands for any number of blanks.
        decimal: the decimal mark in a text file: a point or a comma.
        encoding: of a text file, such as latin-1 or utf-16.
        duplicates: for a table, how several rows for one edge are merged: the largest weight (`max`), the `sum`, the
            number of rows (`count`) or the `first` weight.
        nodes: a table of the nodes.
        symmetrize: accept a directed graph and make each of its edges undirected.

    Returns:
        The graph, which has passed `as_graph`.

    Raises:
        GraphError: there is no such file, or it does not hold a graph; the message says why.
        ParameterError: an option for tables was given, and the file is not a table.
    """
    options = TableOptions(
        source=source,
        target=target,
        weight=weight,
        time=time,
        before=before,
        header=header,
        delimiter=delimiter,
        decimal=decimal,
        encoding=encoding,
        duplicates=duplicates,
    )
    return read_graph(Path(path), options, nodes=nodes, symmetrize=symmetrize)[0]


def open_source(source: str | Path | Graph) -> EdgeSource:
    """Open a graph to be read piece by piece, by the rules of `load_graph`.

    Args:
        source: a `Graph`; a file that ends in .npz, .parquet, .csv, .tsv, .txt or .edges (text also with .gz), where
            the names in lists of edges must be integers; or a folder of Parquet files or of OGB.

    Raises:
        GraphError: there is no such file, or what is read of it now does not belong to a graph. Errors in its edges are
            raised as these are read.
    """
    if isinstance(source, Graph):
        return _graph_source(source)
    opened = open_path(Path(source), "stream")
    with opened.reading():
        if opened.sides is not None:
            raise GraphError(f"it {_SIDES}")
        if opened.features is not None and opened.features.by_columns:
            raise GraphError("its array 'attr_matrix' lies column by column; with a memory limit, save it row by row.")
    return opened


def _graph_source(graph: Graph) -> EdgeSource:
    """A graph in memory, with each of its edges once."""
    if graph.sides is not None:
        raise GraphError(f"The graph {_SIDES}")
    matrix = graph.adjacency

    def edges(at_once: int | None) -> Iterator[Pairs]:
        step = at_once or max(1, matrix.nnz)
        for begin in range(0, matrix.nnz, step):
            end = min(begin + step, matrix.nnz)
            heads, tails = rows_between(matrix.indptr, begin, end), matrix.indices[begin:end]
            once = heads < tails
            yield heads[once], tails[once], matrix.data[begin:end][once]

    arrays = graph.to_arrays()
    return EdgeSource(
        edges=edges,
        num_nodes=graph.num_nodes,
        row_is="edge",
        features=None if arrays.features is None else rows_of(arrays.features),
        labels=arrays.labels,
        split=arrays.split,
        names=arrays.names,
        count=lambda: graph.num_edges,
    )


def left_out(graph: Graph, path: str | Path) -> list[str]:
    """What a file with this extension cannot keep of a graph, in words."""
    holds = format_of(Path(path), "write").holds
    missing = [fact for fact in NODE_FACTS if getattr(graph, fact) is not None and fact not in holds]
    lonely = LONELY not in holds and bool((graph.degrees == 0).any())
    return [*missing, LONELY] if lonely else missing


def require_writable(path: str | Path) -> None:
    """Fail now, before hours of work, if a graph could not be written there."""
    format_of(Path(path), "write")
    require_file(path)


def require_archive(path: str | Path, what: str = "A result") -> None:
    """Fail now, before hours of work, if an .npz file could not be written there."""
    if Path(path).suffix.lower() != ".npz":
        raise GraphError(f"{what} is written to an .npz file. Got {str(path)!r} instead.")
    require_file(path)
