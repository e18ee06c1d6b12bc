"""Graphs in .npz files: the layout of the gnn-benchmark collection, and SciPy's `save_npz`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.archive import Archive
from garnet.io.checks import Pairs, Parts, checked_features, checked_pairs
from garnet.io.edge_source import EdgeSource, FeatureBlock, FeatureRows, GraphArrays, rows_between
from garnet.io.limits import require_plausible
from garnet.io.text import reading

Layout = Literal["benchmark", "csr", "csc", "coo"]
"""The layout of the gnn-benchmark collection, or a SciPy format."""

_LISTED = ("row", "col", "data")
_PARTS = ("idx_train", "idx_val", "idx_test")
# Checking an adjacency for symmetry holds its entries about five times over; features are copied at most once.
_ADJACENCY_COPIES, _FEATURE_COPIES = 5, 2


def open_npz(path: Path) -> EdgeSource:
    """Either layout; arrays that belong to neither are ignored and never read."""
    with reading(path), Archive(path) as archive:
        layout = _layout_of(archive)
        prefix = "adj_" if layout == "benchmark" else ""
        n, _, count = _listed_size(archive) if layout == "coo" else _compressed_size(archive, prefix)
        nodes = _nodes(path, archive, n) if layout == "benchmark" else {}

    def edges(at_once: int | None) -> Iterator[Pairs]:
        copies = 0 if at_once else _ADJACENCY_COPIES
        with reading(path), Archive(path) as archive:
            if layout == "coo":
                archive.require_memory(_LISTED, times=copies)
                for rows, cols, values in zip(*(archive.pieces(name, at_once) for name in _LISTED), strict=True):
                    heads, tails = _checked_places(rows, "row", n), _checked_places(cols, "col", n)
                    yield checked_pairs(heads, tails, _narrowed(values), n)
                return
            starts = _starts(archive, prefix, count, copies)
            for begin, tails, values in _entries(archive, prefix, n, at_once):
                heads = rows_between(starts, begin, begin + len(tails))
                yield checked_pairs(*((tails, heads) if layout == "csc" else (heads, tails)), values, n)

    return EdgeSource(edges=edges, num_nodes=n, row_is="direction", count=lambda: count, path=path, **nodes)


def write_npz(graph: GraphArrays, stream: BinaryIO, others: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Write everything a graph has, in the gnn-benchmark layout, and other arrays beside it."""
    arrays: dict[str, Any] = {**(others or {}), **_csr_arrays("adj", graph.adjacency)}
    if isinstance(graph.features, np.ndarray):
        arrays["attr_matrix"] = graph.features
    elif graph.features is not None:
        arrays |= _csr_arrays("attr", graph.features)
    if graph.labels is not None:
        arrays["labels"] = graph.labels
    if graph.split is not None:
        arrays |= dict(zip(_PARTS, graph.split, strict=True))
    if graph.names is not None:
        arrays["names"] = graph.names
    if graph.sides is not None:
        arrays["sides"] = graph.sides
    if graph.label_names is not None:
        arrays["label_names"] = graph.label_names
    np.savez_compressed(stream, **arrays)


def _csr_arrays(prefix: str, matrix: sp.csr_array) -> dict[str, Any]:
    shape = np.array(matrix.shape, dtype=np.int64)
    pieces = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": shape}
    return {f"{prefix}_{piece}": array for piece, array in pieces.items()}


def _layout_of(archive: Archive) -> Layout:
    """How the adjacency is stored; a layout that `load_graph` does not know is refused.

    In the benchmark's layout its array names begin with `adj_`; in SciPy's they have no prefix.
    """
    if "adj_indptr" in archive:
        return "benchmark"
    if "format" not in archive:
        found = ", ".join(sorted(archive)[:8]) or "none"
        raise GraphError(
            f"it has neither the arrays adj_data, adj_indices, adj_indptr and adj_shape nor those of SciPy's save_npz; "
            f"its arrays are: {found}."
        )
    if archive.header("format", "SU", ndim=0).nbytes > 64:
        raise GraphError("its array 'format' does not name a format of SciPy.")
    layout = archive.read("format", "SU", ndim=0).astype(str).item()
    if layout not in get_args(Layout)[1:]:
        raise GraphError(f"it is a SciPy matrix in format {layout!r}; save it as csr, csc or coo.")
    return cast(Layout, layout)


def _nodes(path: Path, archive: Archive, n: int) -> dict[str, Any]:
    """Features, labels and their names, split, names and sides in the benchmark's layout, as `EdgeSource` has them."""
    features = None
    if "attr_matrix" in archive:
        features = _dense_features(path, archive, n)
    elif "attr_indptr" in archive:
        features = _sparse_features(path, archive, n)
    split: Parts | None = None
    if any(name in archive for name in _PARTS):
        nobody = np.zeros(0, dtype=np.int64)
        train, val, test = (archive.read(name, "iu", ndim=1) if name in archive else nobody for name in _PARTS)
        split = train, val, test
    return {
        "features": features,
        "labels": archive.read("labels", ndim=1) if "labels" in archive else None,
        "split": split,
        "names": archive.read("names", "iuU", ndim=1) if "names" in archive else None,
        "sides": archive.read("sides", "b", ndim=1) if "sides" in archive else None,
        "label_names": archive.read("label_names", "U", ndim=1) if "label_names" in archive else None,
    }


def _dense_features(path: Path, archive: Archive, n: int) -> FeatureRows:
    header = archive.header("attr_matrix", ndim=2)
    _require_rows(header.shape, n)
    archive.require_memory(["attr_matrix"], times=0)
    width = header.shape[1]

    def rows(at_once: int | None) -> Iterator[FeatureBlock]:
        with reading(path), Archive(path) as archive:
            if at_once is None or not n * width:
                yield checked_features(archive.read("attr_matrix"), n)
                return
            for piece in archive.pieces("attr_matrix", max(1, at_once // width) * width):
                yield checked_features(piece.reshape(-1, width), len(piece) // width)

    return FeatureRows(width=width, sparse=False, nbytes=4 * n * width, rows=rows, by_columns=header.fortran)


def _sparse_features(path: Path, archive: Archive, n: int) -> FeatureRows:
    found, width, count = _compressed_size(archive, "attr_")
    _require_rows((found, width), n)

    def rows(at_once: int | None) -> Iterator[FeatureBlock]:
        with reading(path), Archive(path) as archive:
            starts = _starts(archive, "attr_", count, 0 if at_once else _FEATURE_COPIES)
            done = 0
            rest: tuple[NDArray[Any], ...] = ()
            for begin, *piece in _entries(archive, "attr_", width, at_once):
                columns, data = map(np.concatenate, zip(rest, piece, strict=True)) if rest else piece
                # Rows end anywhere in a piece; an unfinished row waits for the next piece.
                last = int(np.searchsorted(starts, begin + len(piece[0]), side="right")) - 1
                here = starts[done : last + 1] - starts[done]
                cut = int(here[-1])
                block = sp.csr_array((data[:cut], columns[:cut], here), shape=(last - done, width))
                yield checked_features(block, last - done)
                done, rest = last, (columns[cut:], data[cut:])
            if done < n:
                yield sp.csr_array((n - done, width), dtype=np.float32)

    return FeatureRows(width=width, sparse=True, nbytes=8 * count + 4 * n, rows=rows)


def _compressed_size(archive: Archive, prefix: str) -> tuple[int, int, int]:
    """Rows, columns and entries of a csr or csc matrix whose arrays all have matching lengths.

    Only headers are read. The matrix of the prefix `attr_` may have any shape; all others must be square.
    """
    rows, columns = _shape(archive, prefix)
    (entries,) = archive.header(f"{prefix}data", ndim=1).shape
    _require_length(archive, f"{prefix}indices", entries, "one for each entry")
    _require_length(archive, f"{prefix}indptr", rows + 1, "one more than there are rows")
    require_plausible(columns, entries, "columns")
    archive.require_memory([f"{prefix}{piece}" for piece in ("data", "indices", "indptr")], times=0)
    return rows, columns, entries


def _listed_size(archive: Archive) -> tuple[int, int, int]:
    """The same for a coo matrix."""
    n, _ = _shape(archive, "")
    (entries,) = archive.header("data", ndim=1).shape
    for name in ("row", "col"):
        _require_length(archive, name, entries, "one for each entry")
    require_plausible(n, entries, "nodes")
    archive.require_memory(_LISTED, times=0)
    return n, n, entries


def _starts(archive: Archive, prefix: str, entries: int, copies: int) -> NDArray[np.int64]:
    """Where each row of a compressed matrix begins, if memory holds this many copies of the matrix."""
    archive.require_memory([f"{prefix}{piece}" for piece in ("data", "indices", "indptr")], times=copies)
    name = f"{prefix}indptr"
    starts = archive.read(name, "iu")
    if starts[0] != 0 or starts[-1] != entries or (starts[1:] < starts[:-1]).any():
        raise GraphError(f"its array '{name}' does not rise from 0 to the number of entries, {entries}.")
    return starts.astype(np.int64, copy=False)


def _entries(
    archive: Archive, prefix: str, bound: int, at_once: int | None
) -> Iterator[tuple[int, NDArray[Any], NDArray[np.float32]]]:
    """The number of its first entry, and the indices and data, of each piece of a compressed matrix."""
    indices, data = f"{prefix}indices", f"{prefix}data"
    begin = 0
    for places, values in zip(archive.pieces(indices, at_once), archive.pieces(data, at_once), strict=True):
        yield begin, _checked_places(places, indices, bound), _narrowed(values)
        begin += len(places)


def _shape(archive: Archive, prefix: str) -> tuple[int, int]:
    name = f"{prefix}shape"
    if archive.header(name).shape != (2,):
        raise GraphError(f"its array '{name}' must hold two numbers.")
    shape = archive.read(name)
    if shape.dtype.kind not in "iu" or shape.min() < 0:
        raise GraphError(f"its array '{name}' must hold two integers >= 0. Got {shape.tolist()} instead.")
    rows, columns = shape.tolist()
    if prefix != "attr_" and rows != columns:
        raise GraphError(f"an adjacency matrix must be square. Got shape ({rows}, {columns}) instead.")
    return rows, columns


def _require_length(archive: Archive, name: str, length: int, meaning: str) -> None:
    (found,) = archive.header(name, "iu", ndim=1).shape
    if found != length:
        raise GraphError(f"its array '{name}' has {found} numbers but must have {length}, {meaning}.")


def _require_rows(shape: tuple[int, ...], n: int) -> None:
    if shape[0] != n:
        raise GraphError(f"Features must have shape ({n}, d), a row for each node. Got {tuple(shape)} instead.")


def _checked_places(places: NDArray[Any], name: str, bound: int) -> NDArray[Any]:
    """Indices from the array of that name, if all are from 0 to bound - 1; SciPy's own code trusts them."""
    if places.size and (places.min() < 0 or places.max() >= bound):
        bad = places[(places < 0) | (places >= bound)][0]
        raise GraphError(f"its array '{name}' has the index {bad}, outside of 0 to {bound - 1}.")
    return places.astype(np.int32 if bound < 2**31 else np.int64, copy=False)


def _narrowed(values: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers in 32 bits; those too large become infinite, which no graph may have."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)
