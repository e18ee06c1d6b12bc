"""A purified graph as an edge table: a folder of Parquet files, as Dask and Spark write them, one per task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, MissingExtra
from garnet.graph.files import load_graph
from garnet.graph.graph import Graph
from garnet.io.atomic import atomic_path
from garnet.io.parquet import NUM_NODES
from garnet.places.row_store import RowStore
from garnet.places.tiled_scores import kept_of
from garnet.places.tiles import SPLIT_FILES, TiledGraph
from garnet.purify.scores import Choice

NEEDED = ("pyarrow", "A Parquet table", "pygarnet[parquet]")
"""What `MissingExtra` says without it."""

TABLE_MANIFEST = "_garnet.json"
"""What a table's folder holds, and which run made it; readers of tables pass over what begins with a low line."""

_ROWS = 1 << 20  # edges written at once


@dataclass(frozen=True)
class EdgeTable:
    """A graph as a folder of Parquet files with the columns source, target and weight; each undirected edge once.

    Source and target are the user's own node names, or node numbers if there are no names.

    Attributes:
        folder: where the files are.
        num_nodes: number of nodes, n.
        num_edges: undirected edges, m.
        left_out: node data of the input that an edge table cannot hold.
    """

    folder: Path
    num_nodes: int
    num_edges: int
    left_out: tuple[str, ...]

    def to_graph(self) -> Graph:
        """The whole graph in memory; if nodes have names, only those with edges."""
        return load_graph(self.folder, symmetrize=True)


def write_table(
    graph: TiledGraph, store: RowStore, rows: Sequence[Sequence[Path]], choice: Choice, output: Path
) -> None:
    """Write the edges that stay, one file per row of tiles; an existing file is not written again.

    Args:
        graph: the input.
        store: does the work.
        rows: for each part i, the files of scored edges of the tiles (i, i), (i, i + 1) and so on.
        choice: which edges stay.
        output: folder of the table, which must exist; its contents belong to this table.

    Raises:
        GarnetError: a file cannot be read or written.
    """
    places = [output / f"part-{i:05d}.parquet" for i in range(len(rows))]
    tasks = [
        (graph, i, files, choice, place)
        for i, (files, place) in enumerate(zip(rows, places, strict=True))
        if not place.exists()
    ]
    store.do("write", _write_part, tasks)


def table_of(graph: TiledGraph, output: Path, edges: int) -> EdgeTable:
    """The table in a folder, made from a tiled graph, with this many edges."""
    files = {"features": "node-features-0.bin", "labels": "node-labels.npy", "split": SPLIT_FILES[0]}
    left_out = tuple(part for part, file in files.items() if file in graph.sizes)
    return EdgeTable(output, graph.num_nodes, edges, left_out)


def is_table(output: Path) -> bool:
    """Whether the name of a folder asks for an edge table instead of tiles."""
    return output.suffix.lower() == ".parquet"


def require_writable_table(names: NDArray[Any] | None) -> None:
    """Fail now, before hours of work, if no table with these node names can be written.

    Raises:
        MissingExtra: pyarrow is not installed.
        GraphError: a name cannot be encoded as UTF-8.
    """
    _pyarrow()
    if names is not None and names.dtype.kind == "U" and len(names):
        letters = np.ascontiguousarray(names).view(np.uint32).reshape(len(names), -1)
        bad = ((letters >= 0xD800) & (letters <= 0xDFFF)).any(axis=1)
        if bad.any():
            raise GraphError(f"The node name {str(names[bad.argmax()])!r} cannot be kept in Parquet; rename it.")


def _write_part(graph: TiledGraph, i: int, files: Sequence[Path], choice: Choice, target: Path) -> None:
    """Write the edges that stay of the tiles (i, i), (i, i + 1) and so on, tile by tile."""
    arrow, parquet = _pyarrow()
    left = _names(graph, i)
    name = arrow.string() if left.dtype.kind == "U" else arrow.int64()
    # An edge list has no nodes without edges, except through its metadata.
    facts = {NUM_NODES: str(graph.num_nodes).encode()} if graph.names(i) is None else {}
    schema = arrow.schema([("source", name), ("target", name), ("weight", arrow.float32())], metadata=facts)
    with (
        atomic_path(target) as unfinished,
        unfinished.open("wb") as stream,
        parquet.ParquetWriter(stream, schema) as writer,
    ):
        for j, file in zip(count(i), files, strict=False):
            first, second, weight = kept_of(file, choice)
            right = left if i == j else _names(graph, j)
            for begin in range(0, len(weight), _ROWS):
                some = slice(begin, begin + _ROWS)
                columns = left[first[some]], right[second[some]], weight[some]
                arrays = [arrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                writer.write_table(arrow.table(arrays, schema=schema))


def _names(graph: TiledGraph, i: int) -> NDArray[Any]:
    """The names of the nodes of part i, or their numbers if they have no names."""
    names = graph.names(i)
    return np.arange(graph.bounds[i], graph.bounds[i + 1]) if names is None else names


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra(*NEEDED) from error
