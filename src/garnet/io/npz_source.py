"""Graphs in .npz files, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.archive import Archive
from garnet.io.edge_source import (
    Chunk,
    EdgeSource,
    FeatureRows,
    bare_graph,
    checked_pairs,
    checked_rows,
    rows_between,
)
from garnet.io.npz import (
    checked_places,
    compressed_size,
    layout_of,
    listed_size,
    narrowed,
    read_nodes,
    read_starts,
)
from garnet.io.text import reading
from garnet.places.tiles import Rows

Edges = Callable[[int], Iterator[Chunk]]
"""As the field of `EdgeSource` has them."""


def npz_source(path: Path) -> EdgeSource:
    """Either layout that `load_graph` knows."""
    with reading(path), Archive(path) as archive:
        layout = layout_of(archive)
        if layout == "benchmark":
            return _benchmark(archive, path)
        edges, n = _listed(path, archive) if layout == "coo" else _compressed(path, archive, "", layout == "csc")
        return EdgeSource(edges=edges, nodes=bare_graph(n), one_row_an_edge=False, path=path)


def _benchmark(archive: Archive, path: Path) -> EdgeSource:
    edges, n = _compressed(path, archive, "adj_", False)
    features = None
    if "attr_matrix" in archive:
        features = _dense_features(path, archive, n)
    elif "attr_indptr" in archive:
        features = _sparse_features(path, archive, n)
    labels, split, names = read_nodes(archive)
    nodes = bare_graph(n, labels=labels, split=split, names=names)
    return EdgeSource(edges=edges, nodes=nodes, one_row_an_edge=False, features=features, path=path)


def _compressed(path: Path, archive: Archive, prefix: str, by_columns: bool) -> tuple[Edges, int]:
    """The entries of an adjacency matrix in csr or csc format, and its size."""
    n, _, count = compressed_size(archive, prefix)

    def edges(at_once: int) -> Iterator[Chunk]:
        with reading(path), Archive(path) as archive:
            starts = read_starts(archive, prefix, count)
            for begin, places, values in _entries(archive, prefix, n, at_once):
                rows = rows_between(starts, begin, begin + len(places))
                heads, tails = (places, rows) if by_columns else (rows, places)
                yield checked_pairs(heads, tails, values, n)

    return edges, n


def _listed(path: Path, archive: Archive) -> tuple[Edges, int]:
    """The entries of an adjacency matrix in coo format, and its size."""
    n, _ = listed_size(archive)

    def edges(at_once: int) -> Iterator[Chunk]:
        with reading(path), Archive(path) as archive:
            columns = (archive.pieces(name, at_once) for name in ("row", "col", "data"))
            for rows, cols, values in zip(*columns, strict=True):
                checked_places(rows, "row", n)
                checked_places(cols, "col", n)
                yield checked_pairs(rows, cols, narrowed(values), n)

    return edges, n


def _dense_features(path: Path, archive: Archive, n: int) -> FeatureRows:
    header = archive.header("attr_matrix", ndim=2)
    _require_rows(header.shape, n)
    width = header.shape[1]
    if header.fortran:
        raise GraphError("its array 'attr_matrix' lies column by column; with a memory limit, save it row by row.")

    def rows(at_once: int) -> Iterator[Rows]:
        if not n * width:
            yield np.zeros((n, width), np.float32)
            return
        with reading(path), Archive(path) as archive:
            for piece in archive.pieces("attr_matrix", max(1, at_once // width) * width):
                yield checked_rows(piece.reshape(-1, width))

    return FeatureRows(width=width, sparse=False, nbytes=4 * n * width, rows=rows)


def _sparse_features(path: Path, archive: Archive, n: int) -> FeatureRows:
    found, width, count = compressed_size(archive, "attr_")
    _require_rows((found, width), n)

    def rows(at_once: int) -> Iterator[Rows]:
        with reading(path), Archive(path) as archive:
            starts = read_starts(archive, "attr_", count)
            done, columns, data = 0, np.zeros(0, np.int64), np.zeros(0, np.float32)
            for begin, places, values in _entries(archive, "attr_", width, at_once):
                columns, data = np.concatenate([columns, places]), np.concatenate([data, values])
                # Rows end anywhere in a piece; what begins after the last end waits for the next piece.
                last = int(np.searchsorted(starts, begin + len(places), side="right")) - 1
                here = starts[done : last + 1] - starts[done]
                cut = int(here[-1])
                yield checked_rows(sp.csr_array((data[:cut], columns[:cut], here), shape=(last - done, width)))
                done, columns, data = last, columns[cut:], data[cut:]
            yield sp.csr_array((n - done, width), dtype=np.float32)

    return FeatureRows(width=width, sparse=True, nbytes=8 * count + 4 * n, rows=rows)


def _entries(
    archive: Archive, prefix: str, bound: int, at_once: int
) -> Iterator[tuple[int, NDArray[Any], NDArray[np.float32]]]:
    """The number of its first entry, and the indices and data, of each piece of a compressed matrix."""
    indices, data = f"{prefix}indices", f"{prefix}data"
    begin = 0
    for places, values in zip(archive.pieces(indices, at_once), archive.pieces(data, at_once), strict=True):
        yield begin, checked_places(places, indices, bound), narrowed(values)
        begin += len(places)


def _require_rows(shape: tuple[int, ...], n: int) -> None:
    if shape[0] != n:
        raise GraphError(f"Features must have shape ({n}, d), a row for each node. Got {tuple(shape)} instead.")
