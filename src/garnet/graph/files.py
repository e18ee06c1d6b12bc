"""Reading a graph from a file and writing one to it, in the format of the file's ending."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.io.atomic import atomic_path
from garnet.io.edge_list import read_edge_list, write_edge_list
from garnet.io.matrix_market import read_matrix_market, write_matrix_market
from garnet.io.npz import read_npz, write_npz
from garnet.io.ogb import is_ogb, read_ogb
from garnet.io.parquet import parts_of, read_parquet
from garnet.io.targets import require_file
from garnet.io.text import read_text, reading

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None, ".edges": None}
"""The endings of edge lists in text, and what is between their cells; None where the first row tells."""

OGB = "ogb"
"""Instead of an ending, the format of a folder in the layout of the Open Graph Benchmark."""

_ENDINGS = (".npz", ".mtx", *DELIMITERS)


def load_graph(path: str | Path, *, symmetrize: bool = False) -> Graph:
    """Read a graph from a file, whoever wrote it; its ending says how. A folder may hold a graph, too.

    * `.npz`: the layout of the gnn-benchmark collection (`adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`; features
      as `attr_*` alike or dense as `attr_matrix`; `labels`; `idx_train`, `idx_val`, `idx_test`; `names`), which alone
      keeps all that a `Graph` has; or an adjacency matrix written by SciPy's `save_npz` in csr, csc or coo format.
    * `.csv`, `.tsv`, `.txt`, `.edges`: an edge list, see below.
    * `.parquet`: an edge list in columns `source` and `target` (or any names of a header below), or else the first two,
      by names of integers or texts; weights are in `weight`, or the third of three. Where the metadata of its schema
      have the key `garnet:num_nodes`, names are nodes' numbers, and there may be nodes without edges.
    * `.mtx`: a square matrix in Matrix Market format.
    * `.pt`: a PyTorch Geometric `Data` written by `torch.save`, with its masks as split; see `read_pt`.

    Text may have `.gz` after the ending. Nothing in a file is ever run, nothing but a `.pt` file is unpickled, and that
    by PyTorch's restricted reader. A file that declares more than it holds, or more than this machine's memory, is
    refused before anything is allocated for it. So is one that is small but unfolds to far more than real graphs do: to
    over 256 MB and 50 times its size, as packed text over 16 MB and 20 times its size, or over 200,000 nodes and 100
    for each entry. The environment variable `GARNET_UNFOLD` multiplies these limits; `GARNET_UNFOLD=4` allows four
    times as much.

    An edge list has rows `u, v` or `u, v, weight` between commas (`.csv`), tabs (`.tsv`) or whichever of tabs, commas
    and blanks its first row has. Blank lines and those that begin with `#` or `%` are skipped. The first row is a
    header if its first two cells are no integers while those of all other rows are, or if they are, in capitals or not,
    one of source,target / src,dst / u,v / from,to / node1,node2. Names that are all integers are sorted as such, others
    as text, and nodes are numbered in that order. A list in which no pair is given in both directions is undirected,
    one row an edge; one that gives some pairs in both directions and others in one is directed.

    A folder with files that end in `.parquet`, as Dask and Spark write them, is one edge list; files that begin with _
    or a dot are no part of it. A folder with the file `raw/edge.csv.gz` is an unpacked archive of the Open Graph
    Benchmark, see `read_ogb`; its graphs are stored with one direction of each edge, so that most need `symmetrize`.

    Args:
        path: the file, or the folder.
        symmetrize: accept a directed graph and keep each of its edges in both directions.

    Returns:
        The graph, which has passed `as_graph`.

    Raises:
        GraphError: there is no such file, or it does not hold a graph; the message says why.
    """
    path = Path(path)
    ending = format_of(path, (*_ENDINGS, ".parquet", ".pt"))
    if ending == OGB:
        return read_ogb(path, symmetrize=symmetrize)
    if ending == ".parquet":
        return read_parquet(path, symmetrize)
    with reading(path):
        if ending == ".npz":
            return read_npz(path, symmetrize)
        if ending == ".pt":
            from garnet.io.pyg_file import read_pt

            return read_pt(path, symmetrize)
        if ending == ".mtx":
            return read_matrix_market(read_text(path), symmetrize)
        return read_edge_list(read_text(path), DELIMITERS[ending], symmetrize)


def save_graph(graph: Graph, path: str | Path) -> None:
    """Write a graph to a file, whole or not at all; its ending says how, as for `load_graph`.

    Only `.npz` keeps everything. An edge list keeps edges, weights and names, without the nodes that have no edge;
    names that are texts but all spell integers come back as integers. A Matrix Market file keeps edges and weights.
    Features, labels and split are in neither. Edge lists that end in `.txt` or `.edges` have tabs. The same graph gives
    the same bytes.

    Args:
        graph: the graph.
        path: the file, replaced if it exists; its folder must exist.

    Raises:
        GraphError: the ending is unknown, or a name of a node cannot be kept in an edge list.
        GarnetError: the file cannot be written.
    """
    path = Path(path)
    ending, packed = ending_of(path)
    with atomic_path(path) as unfinished:
        if ending == ".npz":
            write_npz(graph, unfinished)
            return
        with _writing(unfinished, packed) as stream:
            if ending == ".mtx":
                write_matrix_market(graph, stream)
            else:
                write_edge_list(graph, stream, DELIMITERS[ending] or "\t")


def left_out(graph: Graph, path: str | Path) -> list[str]:
    """What of a graph a file with this ending cannot hold, in words."""
    ending, _ = ending_of(Path(path))
    if ending == ".npz":
        return []
    missing = [part for part in ("features", "labels", "split") if getattr(graph, part) is not None]
    if ending == ".mtx":
        return missing + (["names"] if graph.names is not None else [])
    return missing + (["nodes without edges"] if (graph.degrees == 0).any() else [])


def require_writable(path: str | Path) -> None:
    """Say now, before hours of work, that a graph could not be written there."""
    ending_of(Path(path))
    require_file(path)


def require_archive(path: str | Path, what: str = "A result") -> None:
    """Say now, before hours of work, that what belongs into an .npz file could not be written there."""
    if Path(path).suffix.lower() != ".npz":
        raise GraphError(f"{what} is written to an .npz file. Got {str(path)!r} instead.")
    require_file(path)


def format_of(path: Path, known: tuple[str, ...]) -> str:
    """Which of the formats that are known by these endings a path has that is there, and is not empty.

    Returns:
        One of the endings; `.parquet` for a folder of such files, too; or `OGB`.

    Raises:
        GraphError: it has none of them, or cannot be read.
    """
    if is_ogb(path):
        return OGB
    with reading(path):
        if path.is_dir():
            if not parts_of(path):
                raise GraphError("it is a folder without .parquet files and without raw/edge.csv.gz.")
            return ".parquet"
    ending, _ = ending_of(path, known)
    with reading(path):
        _require_file(path)
    return ending


def ending_of(path: Path, known: tuple[str, ...] = _ENDINGS) -> tuple[str, bool]:
    """The ending that names a format, in small letters, and whether `.gz` comes after it.

    Args:
        path: of a file that need not be there.
        known: the endings to tell apart; if not given, those of files that `save_graph` writes.

    Raises:
        GraphError: it has none of them.
    """
    name = path.name.lower()
    packed = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz")).suffix
    if ending not in known or (packed and ending in (".npz", ".pt", ".parquet")):
        raise GraphError(f"Cannot tell the format of {path}; it must end in {', '.join(known)} (text also with .gz).")
    return ending, packed


def _require_file(path: Path) -> None:
    try:
        if not path.exists():
            raise GraphError("there is no such file.")
        if not path.is_file():
            raise GraphError("it is not a regular file.")
        if not path.stat().st_size:
            raise GraphError("it is empty.")
    except ValueError as error:  # a NUL in the name
        raise error if isinstance(error, GraphError) else GraphError(f"{error}.") from error


@contextmanager
def _writing(path: Path, packed: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as raw:
        if not packed:
            yield raw
            return
        # Neither name nor time in the header, so that the same graph gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as stream:
            yield cast(BinaryIO, stream)
