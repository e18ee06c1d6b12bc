"""Files and graphs as streams of edges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from garnet.errors import GraphError
from garnet.graph.files import DELIMITERS, OGB, format_of
from garnet.graph.graph import Graph
from garnet.io.edge_source import Chunk, EdgeSource, FeatureRows, bare_graph, rows_between
from garnet.io.limits import require_plausible
from garnet.io.list_source import parquet_source, text_source
from garnet.io.npz_source import npz_source
from garnet.io.ogb import (
    blocks,
    read_labels,
    read_num_nodes,
    read_split,
    require_nodes,
    require_room,
    require_rows,
)
from garnet.io.text import reading
from garnet.places.tiles import Rows

_SHORTEST_ROW = 4


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
    path = Path(source)
    ending = format_of(path, (".npz", ".parquet", *DELIMITERS))
    if ending == OGB:
        return _ogb_source(path)
    if ending == ".npz":
        return npz_source(path)
    return parquet_source(path) if ending == ".parquet" else text_source(path, DELIMITERS[ending])


def _graph_source(graph: Graph) -> EdgeSource:
    """A graph in memory, each of its edges once."""
    matrix = graph.adjacency

    def edges(at_once: int) -> Iterator[Chunk]:
        for begin in range(0, matrix.nnz, at_once):
            end = min(begin + at_once, matrix.nnz)
            heads, tails = rows_between(matrix.indptr, begin, end), matrix.indices[begin:end].astype(np.int64)
            once = heads < tails
            yield heads[once], tails[once], matrix.data[begin:end][once]

    return EdgeSource(edges=edges, nodes=graph, one_row_an_edge=True, features=_feature_rows(graph))


def _feature_rows(graph: Graph) -> FeatureRows | None:
    """The features of a graph in memory."""
    features = graph.features
    if features is None:
        return None
    sparse, (n, width) = sp.issparse(features), features.shape

    def rows(at_once: int) -> Iterator[Rows]:
        step = max(1, at_once // max(1, width))
        for begin in range(0, n, step):
            yield features[begin : begin + step]

    nbytes = 8 * sp.csr_array(features).nnz + 4 * n if sparse else 4 * n * width
    return FeatureRows(width=width, sparse=sparse, nbytes=nbytes, rows=rows)


def _ogb_source(folder: Path) -> EdgeSource:
    """A folder in the layout that `read_ogb` reads."""
    raw = folder / "raw"
    n = read_num_nodes(folder)
    labels = read_labels(raw / "node-label.csv.gz", n) if (raw / "node-label.csv.gz").exists() else None
    split = read_split(folder / "split", n)
    with reading(folder):
        nodes = bare_graph(n, labels=labels, split=split)

    def edges(at_once: int) -> Iterator[Chunk]:
        path, count = raw / "edge.csv.gz", 0
        with reading(path):
            for line, block in blocks(path, "i8", 2, _SHORTEST_ROW * at_once):
                require_nodes(block, line, n)
                count += len(block)
                yield block[:, 0], block[:, 1], None
            require_plausible(n, count, "nodes")

    features = _ogb_features(raw / "node-feat.csv.gz", n) if (raw / "node-feat.csv.gz").exists() else None
    return EdgeSource(edges=edges, nodes=nodes, one_row_an_edge=False, features=features, path=folder)


def _ogb_features(path: Path, n: int) -> FeatureRows:
    with reading(path):
        width = next((block.shape[1] for _, block in blocks(path, "f4", chunk=1 << 16)), 0)

    def rows(at_once: int) -> Iterator[Rows]:
        count = 0
        with reading(path):
            for line, block in blocks(path, "f4", width, 2 * at_once):
                finite = np.isfinite(block).all(axis=1)
                if not finite.all():
                    raise GraphError(f"line {line + finite.argmin()} has a feature that is NaN or infinite.")
                require_room(count + len(block), n)
                count += len(block)
                yield block
            require_rows(count, n)

    return FeatureRows(width=width, sparse=False, nbytes=4 * n * width, rows=rows)
