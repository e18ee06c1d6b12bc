"""The unchanged rows of a table whose edges a purification kept, and the times of its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from garnet.graph.graph import Graph
from garnet.io.atomic import atomic_path
from garnet.io.edge_list import TEXT_MARKS, filter_rows, timed_rows
from garnet.io.parquet import counted, layout_of_parquet, opened_parquet
from garnet.io.table_layout import TableOptions
from garnet.purify.result import Purification

PARQUET = ".parquet"

Times = NDArray[Any]
Judge: TypeAlias = "Callable[[Sequence[Any], Sequence[Any]], NDArray[np.bool_]]"
"""Says which rows to write, given both endpoints."""


def keeps_rows(source: Path, output: Path) -> bool:
    """Whether rows of one file can be written unchanged to the other: text to text, Parquet to Parquet."""
    first, second = (_ending(path) for path in (source, output))
    return source.is_file() and ((first in TEXT_MARKS and second in TEXT_MARKS) or first == second == PARQUET)


def write_kept_rows(
    source: Path, options: TableOptions, graph: Graph, result: Purification, output: Path
) -> tuple[int, int]:
    """Write the rows whose edges were not dropped; returns how many were kept, and how many there were.

    Rows that are not edges, such as loops, stay too: nothing speaks against them.

    Args:
        source: the table that was read.
        options: how it was read.
        graph: the graph it held.
        result: of purifying the graph, with nothing added.
        output: the file to write; its extension gives the format.
    """
    kept = _judge(graph, result)
    if _ending(source) == PARQUET:
        return _parquet(source, options, kept, output)
    return filter_rows(source, options, TEXT_MARKS[_ending(source)], kept, output)


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def edge_times(source: Path, options: TableOptions, graph: Graph) -> Times:
    """The time of each edge of a graph, in the order of `Graph.edges`: the time of its first row.

    Args:
        source: the table that was read.
        options: how it was read, with the column of times.
        graph: what it held.
    """
    rows = (
        _rows_of_parquet(source, options)
        if _ending(source) == PARQUET
        else timed_rows(source, options, TEXT_MARKS[_ending(source)])
    )
    key, keys, times = _keys(graph), list[NDArray[np.int64]](), list[Times]()
    for heads, tails, when in rows:
        keys.append(key(heads, tails))
        times.append(np.asarray(when))
    found, first = np.unique(np.concatenate(keys), return_index=True)
    edges = graph.edges[0] * graph.num_nodes + graph.edges[1]
    of_edges: Times = np.concatenate(times)[first[np.searchsorted(found, edges)]]
    return of_edges


def _judge(graph: Graph, result: Purification) -> Judge:
    """Which rows, by both endpoints, are not those of a dropped edge."""
    key, dropped = _keys(graph), result.ledger.dropped
    gone = dropped[0] * graph.num_nodes + dropped[1]
    return lambda heads, tails: ~np.isin(key(heads, tails), gone)


def _keys(graph: Graph) -> Callable[[Sequence[Any], Sequence[Any]], NDArray[np.int64]]:
    """A number for the edge of each row, in either direction, by the names of its endpoints."""
    names = np.arange(graph.num_nodes) if graph.names is None else graph.names
    whole = names.dtype.kind != "U"
    place = {name: i for i, name in enumerate(names.tolist())}

    def key(heads: Sequence[Any], tails: Sequence[Any]) -> NDArray[np.int64]:
        ends = [
            np.array([place[int(name) if whole else str(name)] for name in column], np.int64)
            for column in (heads, tails)
        ]
        return np.minimum(*ends) * graph.num_nodes + np.maximum(*ends)

    return key


def _parquet(source: Path, options: TableOptions, kept: Judge, output: Path) -> tuple[int, int]:
    layout, until, stayed, every = layout_of_parquet(source, options), options.until, 0, 0
    with opened_parquet(source) as file:
        schema = file.schema_arrow
        parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
        with atomic_path(output) as unfinished, parquet.ParquetWriter(unfinished, schema) as writer:
            for batch in file.iter_batches(use_threads=False):
                mask = counted(batch, layout, until)
                heads, tails = (
                    batch.column(layout.called(place)).filter(arrow.array(mask)).to_pylist() for place in layout.ends
                )
                mask[mask] = kept(heads, tails)
                writer.write_batch(batch.filter(arrow.array(mask)))
                stayed, every = stayed + int(mask.sum()), every + len(mask)
    return stayed, every


def _rows_of_parquet(source: Path, options: TableOptions) -> Iterator[tuple[list[Any], list[Any], Times]]:
    layout, until = layout_of_parquet(source, options), options.until
    wanted = [layout.called(place) for place in (*layout.ends, layout.time) if place is not None]
    with opened_parquet(source) as file:
        for batch in file.iter_batches(columns=wanted, use_threads=False):
            batch = batch.filter(import_module("pyarrow").array(counted(batch, layout, until)))
            heads, tails = (batch.column(name).to_pylist() for name in wanted[:2])
            yield heads, tails, batch.column(wanted[2]).to_numpy(zero_copy_only=False)
