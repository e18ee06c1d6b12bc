"""Writes a tiled graph, strip by strip."""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GarnetError
from garnet.graph.graph import Split
from garnet.io.atomic import atomic_path
from garnet.io.checked import write_note
from garnet.io.edge_source import FeatureBlock
from garnet.io.failures import writing
from garnet.io.removal import remove
from garnet.places.tiles import MANIFEST, SPLIT_FILES, VERSION, TiledGraph

_AT_ONCE = 1 << 19


def write_strip(
    folder: Path,
    i: int,
    bounds: Sequence[int],
    starts: NDArray[Any],
    columns: NDArray[Any],
    weights: NDArray[np.float32] | None,
) -> None:
    """Write the tiles (i, 0 .. parts-1) and the degrees of their rows; several processes may each write another strip.

    Args:
        folder: the folder for the tiled graph; it must exist.
        i: the part of the nodes that the rows are.
        bounds: see `TiledGraph`.
        starts: (rows + 1,) where each row begins.
        columns: (nnz,) nodes, numbered in the whole graph, sorted within each row.
        weights: (nnz,) positive; None if all are one.

    Raises:
        GarnetError: a file cannot be written.
    """
    if weights is not None and bool((weights == 1).all()):
        weights = None
    checks = {}
    for j, (begins, entries) in enumerate(_cut(starts, columns, bounds)):
        if begins[-1] >= 2**31:
            raise GarnetError(f"Tile ({i}, {j}) would have {begins[-1]} entries; cut the graph into more parts.")
        pieces = [begins.astype(np.int32), (columns[entries] - bounds[j]).astype(np.int32, copy=False)]
        name = f"tile-{i}-{j}.bin"
        checks[name] = _write(folder / name, pieces if weights is None else [*pieces, weights[entries]])
    counts = np.diff(starts).astype(np.int64)
    degrees = _degrees(starts, weights)
    for name, numbers in ((f"degrees-{i}.bin", degrees), (f"counts-{i}.bin", counts)):
        checks[name] = _write(folder / name, [numbers])
    record = {
        "bounds": list(map(int, bounds)),
        "entries": len(columns),
        "weighted": weights is not None,
        "checks": checks,
    }
    _write(folder / f"strip-{i}.json", [np.frombuffer(json.dumps(record).encode(), np.uint8)])


def _cut(
    starts: NDArray[Any], columns: NDArray[Any], bounds: Sequence[int]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64] | slice]]:
    """For each part of the columns, where each row begins among its entries, and these entries."""
    parts, lengths = len(bounds) - 1, np.diff(starts)
    if parts == 1:
        yield np.asarray(starts, np.int64), slice(None)
        return
    owner = np.repeat(np.arange(parts, dtype=np.min_scalar_type(parts)), np.diff(bounds))[columns]
    counts = np.zeros((len(lengths), parts), np.int64)
    for first in range(0, len(lengths), _AT_ONCE // 8):
        some = slice(first, first + _AT_ONCE // 8)
        rows = np.repeat(np.arange(len(lengths[some])) * parts, lengths[some])
        rows += owner[starts[first] : starts[first] + len(rows)]
        counts[some] = np.bincount(rows, minlength=counts[some].size).reshape(-1, parts)
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=parts))
    for j in range(parts):
        begins = np.concatenate([[0], np.cumsum(counts[:, j])])
        yield begins, order[ends[j] - begins[-1] : ends[j]]


def has_strip(folder: Path, i: int) -> bool:
    """Whether `write_strip` has finished that strip."""
    return (folder / f"strip-{i}.json").is_file()


def write_features(folder: Path, i: int, pieces: Iterable[FeatureBlock]) -> int:
    """Write the feature rows of part i, from one or more pieces that are all dense or all sparse.

    Returns:
        The checksum of the file, for `finish`.
    """
    path = folder / f"node-features-{i}.bin"
    pieces = iter(pieces)
    first = next(pieces)
    if isinstance(first, np.ndarray):
        return _write(path, (np.asarray(piece, np.float32) for piece in chain([first], pieces)))
    rows = sp.vstack([first, *pieces], "csr")
    return _write(path, [rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data.astype(np.float32)])


def finish(
    folder: Path,
    bounds: Sequence[int],
    *,
    feature_width: int | None = None,
    sparse_features: bool = False,
    feature_checks: Sequence[int] = (),
    labels: NDArray[np.int64] | None = None,
    split: Split | None = None,
    names: NDArray[Any] | None = None,
) -> TiledGraph:
    """Complete a folder in which every strip has been written.

    Args:
        folder: where they are.
        bounds: see `TiledGraph`.
        feature_width: number of features, if `write_features` has been called for every part.
        sparse_features: whether they are sparse.
        feature_checks: what `write_features` returned for each part.
        labels: (n,) classes, -1 where unknown.
        split: nodes for training, validation and testing.
        names: (n,) integers or texts.

    Raises:
        GarnetError: a strip is missing, or a file cannot be written.
    """
    arrays = {} if labels is None else {"node-labels.npy": labels}
    if split is not None:
        arrays |= dict(zip(SPLIT_FILES, (split.train, split.val, split.test), strict=True))
    if names is not None:
        arrays |= {f"node-names-{i}.npy": names[first:last] for i, (first, last) in enumerate(pairwise(bounds))}
    checks = {f"node-features-{i}.bin": check for i, check in enumerate(feature_checks)}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        checks[name] = _write(folder / name, [np.frombuffer(buffer.getbuffer(), np.uint8)])
    return _complete(folder, bounds, feature_width, sparse_features, checks)


def finish_like(folder: Path, graph: TiledGraph) -> TiledGraph:
    """Complete a folder whose strips have the bounds of another tiled graph, and take everything but edges from that.

    Raises:
        GarnetError: a strip is missing, or a file cannot be written.
    """
    taken = {name: check for name, check in graph.checks.items() if name.startswith("node-")}
    for name in taken:
        link_or_copy(graph.folder / name, folder / name)
    return _complete(folder, graph.bounds, graph.feature_width, graph.sparse_features, taken)


def _complete(
    folder: Path, bounds: Sequence[int], feature_width: int | None, sparse_features: bool, others: dict[str, int]
) -> TiledGraph:
    """Write the manifest over the strips and the checksums of the `others` among the files."""
    records = [_record(folder / f"strip-{i}.json", bounds) for i in range(len(bounds) - 1)]
    checks: dict[str, int] = {}
    for found in (*(record["checks"] for record in records), others):
        checks |= found
    edges = sum(record["entries"] for record in records) // 2
    with writing(folder):
        manifest = {
            "bounds": [int(bound) for bound in bounds],
            "num_edges": edges,
            "weighted": any(record["weighted"] for record in records),
            "feature_width": feature_width,
            "sparse_features": sparse_features,
            "sizes": {name: (folder / name).stat().st_size for name in checks},
            "checks": checks,
        }
    write_note(folder / MANIFEST, {"version": VERSION, **manifest})
    return TiledGraph.open(folder)


def _record(path: Path, bounds: Sequence[int]) -> dict[str, Any]:
    """What `write_strip` recorded about a strip."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        record = {}
    if record.get("bounds") != list(bounds):
        raise GarnetError(f"Cannot finish {path.parent}: {path.name} is missing or has other bounds; write that strip.")
    return record


def _degrees(starts: NDArray[Any], weights: NDArray[np.float32] | None) -> NDArray[np.float64]:
    """The row sums, computed some rows at a time to save memory."""
    if weights is None:
        return np.diff(starts).astype(np.float64)
    rows = len(starts) - 1
    degrees = np.zeros(rows)
    begin = 0
    while begin < rows:
        end = max(begin + 1, int(np.searchsorted(starts, starts[begin] + _AT_ONCE, side="right")) - 1)
        of_row = np.repeat(np.arange(end - begin), np.diff(starts[begin : end + 1]))
        values = weights[int(starts[begin]) : int(starts[end])]
        degrees[begin:end] = np.bincount(of_row, values, minlength=end - begin)
        begin = end
    return degrees


def _write(path: Path, pieces: Iterable[NDArray[Any]]) -> int:
    """Write one file from pieces, whole or not at all; returns its checksum."""
    check = 0
    # There may be thousands of tiles to wait for; if power fails, the sizes in the manifest show what was lost.
    with atomic_path(path, durable=False) as unfinished, unfinished.open("wb") as stream:
        for piece in pieces:
            # NumPy's own tofile does not say why it fails.
            raw = np.ascontiguousarray(piece).data
            check = zlib.crc32(raw, check)
            stream.write(raw)
    return check


def link_or_copy(source: Path, target: Path) -> None:
    """The same file in another folder; a copy where the file system has no hard links."""
    with writing(target):
        remove(target)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
