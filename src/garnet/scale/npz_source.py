"""Graphs in .npz files, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.datasets.archive import Archive
from garnet.datasets.limits import require_plausible
from garnet.datasets.npz import _PARTS, _part, _require_length, _shape
from garnet.datasets.text import reading
from garnet.errors import GraphError
from garnet.graph import Split
from garnet.scale.edge_source import (
    Chunk,
    EdgeSource,
    FeatureRows,
    bare_graph,
    checked_pairs,
    checked_rows,
    rows_between,
)
from garnet.scale.tiles import Rows


def npz_source(path: Path) -> EdgeSource:
    """Either layout that `load_graph` knows."""
    with reading(path), Archive(path) as archive:
        if "adj_indptr" in archive:
            return _benchmark(archive, path)
        if "format" not in archive:
            raise GraphError(
                "it has neither the arrays adj_data, adj_indices, adj_indptr and adj_shape nor those of SciPy's "
                f"save_npz; its arrays are: {', '.join(sorted(archive)[:8]) or 'none'}."
            )
        n, _ = _shape(archive, "")
        layout = _layout(archive)
        edges = _listed(path, archive, n) if layout == "coo" else _compressed(path, archive, "", n, layout == "csc")
        return EdgeSource(edges=edges, nodes=bare_graph(n), one_row_an_edge=False, path=path)


def _benchmark(archive: Archive, path: Path) -> EdgeSource:
    n, _ = _shape(archive, "adj_")
    edges = _compressed(path, archive, "adj_", n, False)
    features = None
    if "attr_matrix" in archive:
        features = _dense_features(path, archive, n)
    elif "attr_indptr" in archive:
        features = _sparse_features(path, archive, n)
    split = None
    if any(f"idx_{part}" in archive for part in _PARTS):
        split = Split(*(_part(archive, f"idx_{part}") for part in _PARTS))
    nodes = bare_graph(
        n,
        labels=archive.read("labels", ndim=1) if "labels" in archive else None,
        split=split,
        names=archive.read("names", "iuU", ndim=1) if "names" in archive else None,
    )
    return EdgeSource(edges=edges, nodes=nodes, one_row_an_edge=False, features=features, path=path)


def _layout(archive: Archive) -> str:
    layout = "unknown"
    if archive.header("format", "SU", ndim=0).nbytes <= 64:
        layout = archive.read("format", "SU", ndim=0).astype(str).item()
    if layout not in ("csr", "csc", "coo"):
        raise GraphError(f"it is a SciPy matrix in format {layout!r}; save it as csr, csc or coo.")
    return layout


def _compressed(
    path: Path, archive: Archive, prefix: str, n: int, by_columns: bool
) -> Callable[[int], Iterator[Chunk]]:
    """The entries of an adjacency matrix in csr or csc format."""
    _require_compressed(archive, prefix, n, n)

    def edges(at_once: int) -> Iterator[Chunk]:
        with reading(path), Archive(path) as archive:
            starts = _starts(archive, prefix)
            for begin, places, values in _entries(archive, prefix, n, at_once):
                rows = rows_between(starts, begin, begin + len(places))
                heads, tails = (places, rows) if by_columns else (rows, places)
                yield checked_pairs(heads, tails, values, n)

    return edges


def _listed(path: Path, archive: Archive, n: int) -> Callable[[int], Iterator[Chunk]]:
    """The entries of an adjacency matrix in coo format."""
    (count,) = archive.header("data", ndim=1).shape
    for name in ("row", "col"):
        _require_length(archive, name, count, "one for each entry")
    require_plausible(n, count, "nodes")

    def edges(at_once: int) -> Iterator[Chunk]:
        with reading(path), Archive(path) as archive:
            columns = (archive.pieces(name, at_once) for name in ("row", "col", "data"))
            for rows, cols, values in zip(*columns, strict=True):
                _require_inside(rows, "row", n)
                _require_inside(cols, "col", n)
                yield checked_pairs(rows, cols, _narrow(values), n)

    return edges


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
    shape = _shape(archive, "attr_")
    _require_rows(shape, n)
    width = shape[1]
    count = _require_compressed(archive, "attr_", n, width)

    def rows(at_once: int) -> Iterator[Rows]:
        with reading(path), Archive(path) as archive:
            starts = _starts(archive, "attr_")
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
        _require_inside(places, indices, bound)
        yield begin, places, _narrow(values)
        begin += len(places)


def _starts(archive: Archive, prefix: str) -> NDArray[np.int64]:
    (count,) = archive.header(f"{prefix}data", ndim=1).shape
    starts = archive.read(f"{prefix}indptr", "iu")
    if starts[0] != 0 or starts[-1] != count or (starts[1:] < starts[:-1]).any():
        raise GraphError(f"its array '{prefix}indptr' does not rise from 0 to the number of entries, {count}.")
    return starts.astype(np.int64, copy=False)


def _require_compressed(archive: Archive, prefix: str, rows: int, columns: int) -> int:
    """The number of entries, if all arrays have the lengths that go with it."""
    (count,) = archive.header(f"{prefix}data", ndim=1).shape
    _require_length(archive, f"{prefix}indices", count, "one for each entry")
    _require_length(archive, f"{prefix}indptr", rows + 1, "one more than there are rows")
    require_plausible(columns, count, "columns")
    return int(count)


def _require_rows(shape: tuple[int, ...], n: int) -> None:
    if shape[0] != n:
        raise GraphError(f"Features must have shape ({n}, d), a row for each node. Got {tuple(shape)} instead.")


def _require_inside(places: NDArray[Any], name: str, bound: int) -> None:
    if places.min() < 0 or places.max() >= bound:
        bad = places[(places < 0) | (places >= bound)][0]
        raise GraphError(f"its array '{name}' has the index {bad}, outside of 0 to {bound - 1}.")


def _narrow(values: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)
