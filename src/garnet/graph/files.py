"""Reading a graph from a file and writing one to it, in the format of the file's ending."""

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
    """Read a graph from a file, whoever wrote it; its ending says how. A folder may hold a graph, too.

    * `.npz`: the layout of the gnn-benchmark collection (`adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`; features
      as `attr_*` alike or dense as `attr_matrix`; `labels`; `idx_train`, `idx_val`, `idx_test`; `names`; `sides`;
      `label_names`),
      which alone keeps all that a `Graph` has; or an adjacency matrix written by SciPy's `save_npz` in csr, csc or coo
      format.
    * `.csv`, `.tsv`, `.txt`, `.edges`, `.parquet`: a table with a row for each edge, see below.
    * `.mtx`: a square matrix in Matrix Market format.
    * `.graphml`, `.gexf`: the `weight` of edges, ids of nodes (or in GraphML a `name` that each has for itself), and as
      labels an attribute of nodes in integers, `class` or else `label`.
    * `.gml`: the `weight` of edges; nodes by their `label` or else `name` if each has one of its own, or else by `id`.
    * `.json`: lists `nodes`, and `links` or `edges`, as NetworkX and D3 write them. Nodes have an `id`, and perhaps an
      integer `label`; without ids, edges have the positions of nodes in `source` and `target`, from 0.
    * `.pt`: a PyTorch Geometric `Data` written by `torch.save`, with its masks as split.

    Text may have `.gz` after the ending. Nothing in a file is ever run, nothing but a `.pt` file is unpickled, and that
    by PyTorch's restricted reader. A file that declares more than it holds, or more than this machine's memory, is
    refused before anything is allocated for it. So is one that is small but unfolds to far more than real graphs do: to
    over 256 MB and 50 times its size, as packed text over 16 MB and 20 times its size, or over 200,000 nodes and 100
    for each entry. The environment variable `GARNET_UNFOLD` multiplies these limits; `GARNET_UNFOLD=4` allows four
    times as much.

    **Tables of edges.** Any two columns can be the ends: `source` and `target` name them, or have their numbers from 1
    on. Without that the columns are taken only where there is no doubt: two columns; three, of which the last is called
    weight (or has no name, and numbers); or two that are called source and target, src and dst, from and to, u and v,
    sender and receiver and so on. Otherwise the table is refused with its columns and what to say. Columns that are
    called weight, weights or w are weights, others only if `weight` names them.

    In a text the cells of a row stand between commas, semicolons, tabs or bars, in `.txt` and `.edges` also between
    blanks; what divides all rows alike is found out, and refused if that is true of two. Blank lines and those that
    begin with `#` or `%` are skipped. The first row is a header if it says source and target, or if it has no number
    where other rows have; and if a table has nothing but texts, and neither end of the first row turns up again,
    `header` has to say what it is. Names that are all integers are sorted as such, others as text, and nodes are
    numbered in that order. A table in which no pair is given in both directions is undirected, one row an edge; one
    that gives some pairs in both directions and others in one is directed. In Parquet, where the metadata of
    the schema have the key `garnet:num_nodes`, names are nodes' numbers, and there may be nodes without edges. A folder
    with files that end in `.parquet`, as Dask and Spark write them, is one table; files that begin with _ or a dot are
    no part of it.

    A folder with the file `raw/edge.csv.gz` is an unpacked archive of the Open Graph Benchmark, such as `arxiv` or
    `products`. It has `raw/num-node-list.csv.gz`, too, and if they are known `raw/node-feat.csv.gz`,
    `raw/node-label.csv.gz` and a folder in `split`, such as `time`, with `train.csv.gz`, `valid.csv.gz` and
    `test.csv.gz`; the first in alphabetic order if there are several. Labels that are missing, `nan`, become -1. Its
    graphs are stored with one direction of each edge, so that most need `symmetrize`.

    Args:
        path: the file, or the folder.
        source: of a table, the column of the first ends.
        target: of a table, the column of the second ends.
        weight: of a table, the column of the weights.
        time: of a table, the column of times, which `before` needs.
        before: leave out rows with this time or a later one: a number, or a date such as 2024-05-31 or
            2024-05-31T18:00; those without a time zone are in UTC.
        header: whether the first row of a text is a header.
        delimiter: what stands between the cells of a text; a blank for any number of blanks.
        decimal: what stands before the fraction of a number in a text: a point or a comma.
        encoding: of a text, such as latin-1 or utf-16.
        duplicates: of a table, what becomes of several rows for one edge: the largest weight (`max`), the `sum`, the
            number of rows (`count`) or the `first` weight.
        nodes: a table of the nodes.
        symmetrize: accept a directed graph and keep each of its edges in both directions.

    Returns:
        The graph, which has passed `as_graph`.

    Raises:
        GraphError: there is no such file, or it does not hold a graph; the message says why.
        ParameterError: the file is no table, and something was said of one.
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
    """A graph that will be read piece by piece, by the rules of `load_graph`.

    Args:
        source: a `Graph`; a file that ends in .npz, .parquet, .csv, .tsv, .txt or .edges (text also with .gz), where
            the names in lists of edges must be integers; or a folder of Parquet files or of OGB.

    Raises:
        GraphError: there is no such file, or what is read of it now does not belong to a graph. What is wrong with its
            edges is said when these are read.
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
    """A graph in memory, each of its edges once."""
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
    """What of a graph a file with this ending cannot hold, in words."""
    holds = format_of(Path(path), "write").holds
    missing = [fact for fact in NODE_FACTS if getattr(graph, fact) is not None and fact not in holds]
    lonely = LONELY not in holds and bool((graph.degrees == 0).any())
    return [*missing, LONELY] if lonely else missing


def require_writable(path: str | Path) -> None:
    """Say now, before hours of work, that a graph could not be written there."""
    format_of(Path(path), "write")
    require_file(path)


def require_archive(path: str | Path, what: str = "A result") -> None:
    """Say now, before hours of work, that what belongs into an .npz file could not be written there."""
    if Path(path).suffix.lower() != ".npz":
        raise GraphError(f"{what} is written to an .npz file. Got {str(path)!r} instead.")
    require_file(path)
