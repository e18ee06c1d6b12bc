"""The formats of graphs: one table that gives every file its reader and writer."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, cast

from garnet.errors import GraphError, ParameterError
from garnet.io.atomic import atomic_path
from garnet.io.edge_list import TEXT_MARKS, open_edge_list, write_edge_list
from garnet.io.edge_source import EdgeSource, GraphArrays
from garnet.io.gexf import open_gexf, write_gexf
from garnet.io.gml import open_gml
from garnet.io.graphml import open_graphml, write_graphml
from garnet.io.matrix_market import open_matrix_market, write_matrix_market
from garnet.io.node_link import open_node_link
from garnet.io.npz import open_npz, write_npz
from garnet.io.ogb import is_ogb, open_ogb
from garnet.io.parquet import open_parquet, parts_of
from garnet.io.pyg_file import open_pt
from garnet.io.table_layout import TableOptions
from garnet.io.text import reading

Use = Literal["read", "stream", "write"]
"""The use of a file: reading, reading piece by piece, or writing."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format.

    Attributes:
        ending: its extension, in lower case.
        open: reads such a file.
        write: writes such a file; None if graphs are not written in this format.
        holds: what it can hold besides edges and weights.
        streams: whether it can be read piece by piece, within a memory limit.
        is_text: whether it is text, and may be compressed, with `.gz` after the extension.
        is_table: whether it is a table, and takes options on how to read it.
    """

    ending: str
    open: Callable[..., EdgeSource]
    write: Callable[[GraphArrays, BinaryIO], None] | None = None
    holds: tuple[str, ...] = ()
    streams: bool = False
    is_text: bool = False
    is_table: bool = False

    def serves(self, use: Use) -> bool:
        """Whether a file of this format can be used in this way."""
        return {"read": True, "stream": self.streams, "write": self.write is not None}[use]


NODE_FACTS = ("features", "labels", "split", "names", "sides")
"""Node data that a graph may have."""

LONELY = "nodes without edges"
"""Node data that an edge list cannot hold."""


def _edge_list(ending: str, *candidates: str) -> Format:
    """A text whose cells are separated by one of some characters; the first is used for writing."""
    return Format(
        ending=ending,
        open=partial(open_edge_list, candidates=candidates),
        write=partial(write_edge_list, delimiter=candidates[0]),
        holds=("names",),
        streams=True,
        is_text=True,
        is_table=True,
    )


FORMATS = (
    Format(ending=".npz", open=open_npz, write=write_npz, holds=(*NODE_FACTS, LONELY), streams=True),
    Format(ending=".mtx", open=open_matrix_market, write=write_matrix_market, holds=(LONELY,), is_text=True),
    *(_edge_list(ending, *marks) for ending, marks in TEXT_MARKS.items()),
    Format(ending=".parquet", open=open_parquet, holds=("names",), streams=True, is_table=True),
    Format(ending=".graphml", open=open_graphml, write=write_graphml, holds=("labels", "names", LONELY), is_text=True),
    Format(ending=".gexf", open=open_gexf, write=write_gexf, holds=("labels", "names", LONELY), is_text=True),
    Format(ending=".gml", open=open_gml, holds=("names", LONELY), is_text=True),
    Format(ending=".json", open=open_node_link, holds=("labels", "names", LONELY), is_text=True),
    Format(ending=".pt", open=open_pt, holds=("features", "labels", "split", LONELY)),
)
"""The formats of single files. A folder holds an OGB graph, or an edge list in several Parquet files."""


def open_path(
    path: Path,
    use: Literal["read", "stream"] = "read",
    options: TableOptions = TableOptions(),  # noqa: B008
) -> EdgeSource:
    """The contents of a file or a folder, as its reader returns them.

    Args:
        path: the file, or the folder.
        use: the purpose of reading it.
        options: how to read it, if it is a table.

    Raises:
        GraphError: there is no such file, its format is unknown, or what is read of it now does not belong to a graph.
            Errors in its edges are raised as these are read.
        ParameterError: it is not a table, and an option for tables is given.
    """
    if is_ogb(path):
        _require_table(False, path, options)
        return open_ogb(path)
    with reading(path):
        if path.is_dir():
            if not parts_of(path):
                raise GraphError("it is a folder without .parquet files and without raw/edge.csv.gz.")
            return open_parquet(path, options)
    found = format_of(path, use)
    with reading(path):
        _require_file(path)
        _require_table(found.is_table, path, options)
        return found.open(path, options) if found.is_table else found.open(path)


def _require_table(is_table: bool, path: Path, options: TableOptions) -> None:
    if not is_table and (said := options.said):
        raise ParameterError(f"{path.name} is no table of edges, so it has no {said[0]} to choose; leave that out.")


def format_of(path: Path, use: Use) -> Format:
    """The format named by the extension of a file, which need not exist.

    Raises:
        GraphError: it names none that can be used in this way.
    """
    name = path.name.lower()
    packed = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz")).suffix
    known = {one.ending: one for one in FORMATS if one.serves(use)}
    if ending not in known or (packed and not known[ending].is_text):
        raise GraphError(f"Cannot tell the format of {path}; it must end in {', '.join(known)} (text also with .gz).")
    return known[ending]


def save_arrays(graph: GraphArrays, path: Path) -> None:
    """Write a graph in the format of the file's extension, whole or not at all.

    Raises:
        GraphError: the extension names no format, or a node name cannot be kept in it.
        GarnetError: the file cannot be written.
    """
    write = format_of(path, "write").write
    if write is None:
        raise GraphError(f"Cannot write {path}: its format is only read; choose another ending.")
    with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
        if not path.name.lower().endswith(".gz"):
            write(graph, stream)
            return
        # Neither name nor time in the header, so the same graph gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0, compresslevel=6) as packed:
            write(graph, cast(BinaryIO, packed))


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
