"""Graphs in .npz files: the layout of the gnn-benchmark collection, and SciPy's `save_npz`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.datasets.archive import Archive
from garnet.datasets.limits import require_plausible
from garnet.errors import GraphError
from garnet.graph import Graph, Split, as_graph

_PARTS = ("train", "val", "test")
# Proving an adjacency symmetric holds its entries about five times over; everything else is copied once at most.
_ADJACENCY_COPIES = 5


def read_npz(path: Path, symmetrize: bool) -> Graph:
    """Read either layout; arrays that belong to neither are ignored and never read."""
    with Archive(path) as archive:
        if "adj_indptr" in archive:
            return _read_benchmark(archive, symmetrize)
        if "format" in archive:
            return as_graph(_read_scipy(archive), symmetrize=symmetrize)
        found = ", ".join(sorted(archive)[:8]) or "none"
        raise GraphError(
            f"it has neither the arrays adj_data, adj_indices, adj_indptr and adj_shape nor those of SciPy's save_npz; "
            f"its arrays are: {found}."
        )


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


def _read_benchmark(archive: Archive, symmetrize: bool) -> Graph:
    adjacency = _csr(archive, "adj_", copies=_ADJACENCY_COPIES)
    features: Any = None
    if "attr_matrix" in archive:
        features = archive.read("attr_matrix", ndim=2)
    elif "attr_indptr" in archive:
        features = _csr(archive, "attr_", copies=2)
    labels = archive.read("labels", ndim=1) if "labels" in archive else None
    split = None
    if any(f"idx_{part}" in archive for part in _PARTS):
        split = Split(*(_part(archive, f"idx_{part}") for part in _PARTS))
    names = archive.read("names", "iuU", ndim=1) if "names" in archive else None
    return as_graph(adjacency, features=features, labels=labels, split=split, names=names, symmetrize=symmetrize)


def _part(archive: Archive, name: str) -> NDArray[Any]:
    return archive.read(name, "iu", ndim=1) if name in archive else np.zeros(0, dtype=np.int64)


def _read_scipy(archive: Archive) -> sp.sparray:
    header = archive.header("format", "SU", ndim=0)
    if header.nbytes > 64:
        raise GraphError("its array 'format' does not name a format of SciPy.")
    layout = archive.read("format", "SU", ndim=0).astype(str).item()
    if layout == "csr":
        return _csr(archive, "", copies=_ADJACENCY_COPIES)
    if layout == "csc":
        return _csr(archive, "", copies=_ADJACENCY_COPIES, transposed=True).T
    if layout == "coo":
        return _coo(archive)
    raise GraphError(f"it is a SciPy matrix in format {layout!r}; save it as csr, csc or coo.")


def _csr(archive: Archive, prefix: str, *, copies: int, transposed: bool = False) -> sp.csr_array:
    """A CSR matrix whose every index has been checked, because SciPy's own code trusts them."""
    rows, columns = _shape(archive, prefix)
    if transposed:
        rows, columns = columns, rows
    data, indices, indptr = f"{prefix}data", f"{prefix}indices", f"{prefix}indptr"
    (entries,) = archive.header(data, ndim=1).shape
    _require_length(archive, indices, entries, "one for each entry")
    _require_length(archive, indptr, rows + 1, "one more than there are rows")
    require_plausible(columns, entries, "columns")
    archive.require_memory((data, indices, indptr), times=copies)

    ends = archive.read(indptr, "iu")
    if ends[0] != 0 or ends[-1] != entries or (ends[1:] < ends[:-1]).any():
        raise GraphError(f"its array '{indptr}' does not rise from 0 to the number of entries, {entries}.")
    values, places = _values(archive, data), _places(archive, indices, columns)
    return sp.csr_array((values, places, ends.astype(np.int64)), shape=(rows, columns))


def _coo(archive: Archive) -> sp.coo_array:
    rows, columns = _shape(archive, "")
    (entries,) = archive.header("data", ndim=1).shape
    for name in ("row", "col"):
        _require_length(archive, name, entries, "one for each entry")
    require_plausible(max(rows, columns), entries, "nodes")
    archive.require_memory(("data", "row", "col"), times=_ADJACENCY_COPIES)
    places = _places(archive, "row", rows), _places(archive, "col", columns)
    return sp.coo_array((_values(archive, "data"), places), shape=(rows, columns))


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
    places = archive.read(name, "iu")
    if places.size and (places.min() < 0 or places.max() >= bound):
        bad = places[(places < 0) | (places >= bound)][0]
        raise GraphError(f"its array '{name}' has the index {bad}, outside of 0 to {bound - 1}.")
    return places.astype(np.int32 if bound < 2**31 else np.int64, copy=False)


def _values(archive: Archive, name: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return archive.read(name).astype(np.float32, copy=False)
