"""The tables of an audit in tiles: the ranked edges and nodes, one file per piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.audit.tiled_doubts import joined, words_of
from garnet.audit.words import sentences
from garnet.errors import GarnetError, GraphError
from garnet.io.formats import format_of
from garnet.io.table_file import save_table
from garnet.places.column_file import Layout, read_columns
from garnet.places.tiles import TiledGraph

ENDINGS = (".csv", ".parquet")

Columns = dict[str, NDArray[Any]]


def ending_of(output: Path) -> str:
    """The format of the tables: .csv if the name of their folder ends so, and otherwise .parquet."""
    return ".csv" if output.suffix.lower() == ".csv" else ".parquet"


def require_folder_of_tables(output: Path) -> None:
    """Refuse a folder whose name has the suffix of another kind of file.

    Raises:
        GarnetError: it does.
    """
    if output.suffix.lower() in ENDINGS:
        return
    with suppress(GraphError):
        format_of(output, "write")
        raise GarnetError(
            f"The tables of an audit are .csv or .parquet files in a folder whose name says which. Got {output.name!r}."
        )


def edge_file(folder: Path, piece: int, ending: str) -> Path:
    """The file of a piece of the ranked edges."""
    return folder / f"part-{piece:05d}{ending}"


def node_file(folder: Path, piece: int, ending: str) -> Path:
    """The file of a piece of the ranked nodes; readers of tables skip names that begin with an underscore."""
    return folder / f"_nodes-{piece:05d}{ending}"


def write_edges(
    graph: TiledGraph,
    pieces: Sequence[tuple[int, int, Path, int, int]],
    layout: Layout,
    counting: Sequence[str],
    target: Path,
) -> None:
    """Write a piece of the ranked edges.

    Args:
        graph: the graph.
        pieces: for each tile, both parts, its file and the rows that belong here.
        layout: layout of these files.
        counting: names of the reasons with a weight.
        target: the file to write.
    """
    read = [
        (i, j, read_columns(file, layout, tuple(layout), begin=begin, end=end)) for i, j, file, begin, end in pieces
    ]
    save_table(shown(graph, joined(read, graph.bounds, layout), counting), target)


def shown(graph: TiledGraph, edges: Mapping[str, NDArray[Any]], counting: Sequence[str]) -> Columns:
    """Judged edges as `garnet.audit.Audit.edge_table` has them."""
    suspicion, seen = edges["suspicion"], list(edges)[3:-4]
    judged = np.zeros(len(suspicion), np.int8)
    return {
        "source": names_of(graph, edges["first"]),
        "target": names_of(graph, edges["second"]),
        "suspicion": suspicion,
        **{name: edges[name] for name in seen},
        # As objects, a few of which all edges share.
        "because": np.array(counting, dtype=object)[edges["because"]],
        "reason": sentences(words_of(edges), suspicion > 0.5, judged),
    }


def write_nodes(graph: TiledGraph, nodes: Columns, folder: Path, ending: str) -> None:
    """Write the nodes, the least stable first, in as many pieces as the graph has parts."""
    order = np.argsort(nodes["stability"], kind="stable")
    for piece, some in enumerate(np.array_split(order, graph.parts)):
        save_table(_chosen(graph, nodes, some), node_file(folder, piece, ending))


def ranked_nodes(graph: TiledGraph, nodes: Columns) -> Columns:
    """All nodes as `garnet.audit.Audit.node_table` has them."""
    return _chosen(graph, nodes, np.argsort(nodes["stability"], kind="stable"))


def _chosen(graph: TiledGraph, nodes: Columns, some: NDArray[np.int64]) -> Columns:
    return {"node": names_of(graph, some), **{name: column[some] for name, column in nodes.items()}}


def names_of(graph: TiledGraph, nodes: NDArray[np.int64]) -> NDArray[Any]:
    """Names of nodes: their numbers, if they have no names."""
    if graph.names(0) is None:
        return nodes
    found: list[NDArray[Any]] = []
    owner, places = np.searchsorted(graph.bounds[1:-1], nodes, side="right"), []
    for i in range(graph.parts):
        some = np.flatnonzero(owner == i)
        names = graph.names(i) if len(some) else None
        if names is not None:
            found.append(names[nodes[some] - graph.bounds[i]])
            places.append(some)
    back = np.argsort(np.concatenate([np.zeros(0, np.int64), *places]))
    return np.concatenate(found)[back] if found else np.zeros(0, np.int64)
