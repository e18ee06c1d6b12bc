"""The rows of a table whose edges a purification kept, as they were: in their order, with all their columns."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import MissingExtra
from garnet.graph.graph import Graph
from garnet.io.atomic import atomic_path
from garnet.io.edge_list import TEXT_MARKS, filter_rows
from garnet.io.parquet import layout_of_parquet
from garnet.io.table_layout import TableOptions
from garnet.purify.result import Purification

PARQUET = ".parquet"


def keeps_rows(source: Path, output: Path) -> bool:
    """Whether rows of one file can be written to the other as they are: texts to a text, Parquet to Parquet."""
    first, second = (_ending(path) for path in (source, output))
    return source.is_file() and ((first in TEXT_MARKS and second in TEXT_MARKS) or first == second == PARQUET)


def write_kept_rows(
    source: Path, options: TableOptions, graph: Graph, result: Purification, output: Path
) -> tuple[int, int]:
    """Write the rows whose edges were not dropped; gives how many were kept, and how many there were.

    Rows that are no edges, as loops, stay too: nothing was said against them.

    Args:
        source: the table that was read.
        options: how it was read.
        graph: what it held.
        result: what came of the graph, with nothing added.
        output: the file; its ending says how.
    """
    kept = _judge(graph, result)
    if _ending(source) == PARQUET:
        return _parquet(source, options, kept, output)
    return filter_rows(source, options, TEXT_MARKS[_ending(source)], kept, output)


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _judge(graph: Graph, result: Purification) -> Callable[[list[Any], list[Any]], NDArray[np.bool_]]:
    """Which rows, by both ends, are not of an edge that was dropped."""
    n, dropped = graph.num_nodes, result.ledger.dropped
    keys = np.sort(dropped[0] * n + dropped[1])
    names = np.arange(n) if graph.names is None else graph.names
    whole = names.dtype.kind != "U"
    place = {name: i for i, name in enumerate(names.tolist())}

    def kept(heads: list[Any], tails: list[Any]) -> NDArray[np.bool_]:
        ends = [
            np.array([place[int(name) if whole else str(name)] for name in column], np.int64)
            for column in (heads, tails)
        ]
        asked = np.minimum(*ends) * n + np.maximum(*ends)
        if not len(keys):
            return np.ones(len(asked), bool)
        at = np.clip(np.searchsorted(keys, asked), 0, len(keys) - 1)
        return np.asarray(keys[at] != asked)

    return kept


def _parquet(
    source: Path, options: TableOptions, kept: Callable[[list[Any], list[Any]], NDArray[np.bool_]], output: Path
) -> tuple[int, int]:
    layout = layout_of_parquet(source, options)
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "A Parquet file", "pygarnet[parquet]") from error
    stayed = every = 0
    with (
        parquet.ParquetFile(source, pre_buffer=False) as file,
        atomic_path(output) as unfinished,
        parquet.ParquetWriter(unfinished, file.schema_arrow) as writer,
    ):
        for batch in file.iter_batches(use_threads=False):
            heads, tails = (batch.column(layout.called(place)).to_pylist() for place in layout.ends)
            mask = kept(heads, tails)
            writer.write_batch(batch.filter(arrow.array(mask)))
            stayed, every = stayed + int(mask.sum()), every + len(mask)
    return stayed, every
