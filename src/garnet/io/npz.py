"""Graphs in .npz files: the layout of the gnn-benchmark collection, and SciPy's `save_npz`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.graph import Graph, Split, as_graph
from garnet.io.archive import Archive
from garnet.io.limits import require_plausible

Layout = Literal["benchmark", "csr", "csc", "coo"]
"""That of the gnn-benchmark collection, or a format of SciPy's."""

_PARTS = ("train", "val", "test")
# Proving an adjacency symmetric holds its entries about five times over; everything else is copied once at most.
_ADJACENCY_COPIES = 5


def read_npz(path: Path, symmetrize: bool) -> Graph:
    """Read either layout; arrays that belong to neither are ignored and never read."""
    with Archive(path) as archive:
        layout = layout_of(archive)
        if layout == "benchmark":
            return _read_benchmark(archive, symmetrize)
        if layout == "coo":
            return as_graph(_coo(archive), symmetrize=symmetrize)
        matrix = _csr(archive, "", copies=_ADJACENCY_COPIES)
        return as_graph(matrix if layout == "csr" else matrix.T, symmetrize=symmetrize)


def write_npz(graph: Graph, path: Path, others: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Write everything a graph has, in the gnn-benchmark layout, and other arrays beside it."""
    arrays: dict[str, Any] = {**(others or {}), **_csr_arrays("adj", graph.adjacency)}
    if isinstance(graph.features, np.ndarray):
        arrays["attr_matrix"] = graph.features
    elif graph.features is not None:
        arrays |= _csr_arrays("attr", graph.features)
    if graph.labels is not None:
        arrays["labels"] = graph.labels
    if graph.split is not None:
        arrays |= {f"idx_{part}": getattr(graph.split, part) for part in _PARTS}
    if graph.names is not None:
        arrays["names"] = graph.names
    # Given a stream, NumPy does not append its own ending to the temporary name.
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def _csr_arrays(prefix: str, matrix: sp.csr_array) -> dict[str, Any]:
    shape = np.array(matrix.shape, dtype=np.int64)
    pieces = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": shape}
    return {f"{prefix}_{piece}": array for piece, array in pieces.items()}


def layout_of(archive: Archive) -> Layout:
    """How the adjacency is kept; a layout that `load_graph` does not know is refused.

    In the benchmark's layout the names of its arrays begin with `adj_`; in SciPy's they have no such prefix.
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


def compressed_size(archive: Archive, prefix: str) -> tuple[int, int, int]:
    """Rows, columns and entries of a csr or csc matrix whose arrays all have the lengths that go with these.

    Only headers are read. The matrix of the prefix `attr_` may have any shape; all others must be square.
    """
    rows, columns = _shape(archive, prefix)
    (entries,) = archive.header(f"{prefix}data", ndim=1).shape
    _require_length(archive, f"{prefix}indices", entries, "one for each entry")
    _require_length(archive, f"{prefix}indptr", rows + 1, "one more than there are rows")
    require_plausible(columns, entries, "columns")
    return rows, columns, entries


def listed_size(archive: Archive) -> tuple[int, int]:
    """Rows, which are as many as columns, and entries of a coo matrix whose arrays have the lengths of these."""
    n, _ = _shape(archive, "")
    (entries,) = archive.header("data", ndim=1).shape
    for name in ("row", "col"):
        _require_length(archive, name, entries, "one for each entry")
    require_plausible(n, entries, "nodes")
    return n, entries


def read_starts(archive: Archive, prefix: str, entries: int) -> NDArray[np.int64]:
    """Where each row of a compressed matrix begins among its entries, and where the last ends."""
    name = f"{prefix}indptr"
    starts = archive.read(name, "iu")
    if starts[0] != 0 or starts[-1] != entries or (starts[1:] < starts[:-1]).any():
        raise GraphError(f"its array '{name}' does not rise from 0 to the number of entries, {entries}.")
    return starts.astype(np.int64, copy=False)


def read_nodes(archive: Archive) -> tuple[NDArray[Any] | None, Split | None, NDArray[Any] | None]:
    """Labels, split and names in the benchmark's layout, each None if it is not there, for `as_graph` to check."""
    labels = archive.read("labels", ndim=1) if "labels" in archive else None
    names = archive.read("names", "iuU", ndim=1) if "names" in archive else None
    parts = {part: f"idx_{part}" for part in _PARTS}
    if not any(name in archive for name in parts.values()):
        return labels, None, names
    nobody = np.zeros(0, dtype=np.int64)
    split = Split(*(archive.read(name, "iu", ndim=1) if name in archive else nobody for name in parts.values()))
    return labels, split, names


def checked_places(places: NDArray[Any], name: str, bound: int) -> NDArray[Any]:
    """Some indices out of the array of that name, if all are from 0 to bound - 1."""
    if places.size and (places.min() < 0 or places.max() >= bound):
        bad = places[(places < 0) | (places >= bound)][0]
        raise GraphError(f"its array '{name}' has the index {bad}, outside of 0 to {bound - 1}.")
    return places


def narrowed(values: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers in 32 bits; those too large for that become infinite, which `as_graph` refuses."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def _read_benchmark(archive: Archive, symmetrize: bool) -> Graph:
    adjacency = _csr(archive, "adj_", copies=_ADJACENCY_COPIES)
    features: Any = None
    if "attr_matrix" in archive:
        features = archive.read("attr_matrix", ndim=2)
    elif "attr_indptr" in archive:
        features = _csr(archive, "attr_", copies=2)
    labels, split, names = read_nodes(archive)
    return as_graph(adjacency, features=features, labels=labels, split=split, names=names, symmetrize=symmetrize)


def _csr(archive: Archive, prefix: str, *, copies: int) -> sp.csr_array:
    """A CSR matrix whose every index has been checked, because SciPy's own code trusts them."""
    rows, columns, entries = compressed_size(archive, prefix)
    archive.require_memory([f"{prefix}{piece}" for piece in ("data", "indices", "indptr")], times=copies)
    starts = read_starts(archive, prefix, entries)
    values, places = narrowed(archive.read(f"{prefix}data")), _places(archive, f"{prefix}indices", columns)
    return sp.csr_array((values, places, starts), shape=(rows, columns))


def _coo(archive: Archive) -> sp.coo_array:
    n, _ = listed_size(archive)
    archive.require_memory(("data", "row", "col"), times=_ADJACENCY_COPIES)
    places = _places(archive, "row", n), _places(archive, "col", n)
    return sp.coo_array((narrowed(archive.read("data")), places), shape=(n, n))


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


def _places(archive: Archive, name: str, bound: int) -> NDArray[Any]:
    places = checked_places(archive.read(name, "iu"), name, bound)
    return places.astype(np.int32 if bound < 2**31 else np.int64, copy=False)
