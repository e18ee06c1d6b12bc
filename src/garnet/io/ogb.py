"""Graphs of the Open Graph Benchmark, from the files in its zip archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.checks import Pairs, Parts
from garnet.io.edge_source import EdgeSource, FeatureBlock, FeatureRows
from garnet.io.limits import require_memory, require_plausible
from garnet.io.text import parse_table, read_lines, reading

_CHUNK = _LONGEST_LINE = 1 << 24
_GLANCE = 1 << 16
"""Bytes of text from which to infer the number of features."""

_SHORTEST_EDGE, _SHORTEST_NUMBER = 4, 2
"""Bytes, including the line ending or the comma."""

# Reading holds each edge's endpoints twice, plus both its directions in the matrix and its transpose.
_BYTES_AN_EDGE = 80

Block = tuple[int, NDArray[Any]]
"""The number of its first line, and some rows of a table."""


def is_ogb(folder: Path) -> bool:
    """Whether a folder has the layout that `open_ogb` reads."""
    try:
        return (folder / "raw" / "edge.csv.gz").is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def open_ogb(folder: Path) -> EdgeSource:
    """A graph for node property prediction; `load_graph` says which files it has."""
    raw = folder / "raw"
    path = raw / "edge.csv.gz"
    n = _read_num_nodes(raw / "num-node-list.csv.gz", path)

    def edges(at_once: int | None) -> Iterator[Pairs]:
        count = 0
        with reading(path):
            for line, block in _blocks(path, "i8", 2, at_once and _SHORTEST_EDGE * at_once):
                _require_nodes(block, line, n)
                count += len(block)
                if at_once is None:
                    require_memory(count * _BYTES_AN_EDGE, "it")
                heads, tails = block.T.astype(np.int32 if n < 2**31 else np.int64)
                yield heads, tails, None
            require_plausible(n, count, "nodes")

    features, labels, counted = (raw / f"{name}.csv.gz" for name in ("node-feat", "node-label", "num-edge-list"))
    return EdgeSource(
        edges=edges,
        num_nodes=n,
        row_is="direction",
        features=_features(features, n) if features.exists() else None,
        labels=_read_labels(labels, n) if labels.exists() else None,
        split=_read_split(folder / "split", n),
        count=lambda: _read_size(counted) if counted.exists() else None,
        text=path,
        path=folder,
    )


def _read_num_nodes(path: Path, edges: Path) -> int:
    """The number of nodes, if the file of edges is not far too small for this many."""
    n = _read_size(path)
    with reading(edges):
        packed = edges.stat().st_size
    with reading(path):
        require_plausible(n, packed, "nodes", "bytes of edges")
    return n


def _read_size(path: Path) -> int:
    """The number of nodes, or of edges."""
    with reading(path):
        sizes = [int(size) for _, block in _blocks(path, "i8", 1) for size in block[:, 0]]
        if len(sizes) != 1 or sizes[0] < 0:
            raise GraphError(f"it must hold the number of nodes of one graph. Got {sizes[:8]} instead.")
        return sizes[0]


def _features(path: Path, n: int) -> FeatureRows:
    with reading(path):
        width = next((block.shape[1] for _, block in _blocks(path, "f4", chunk=_GLANCE)), 0)

    def rows(at_once: int | None) -> Iterator[FeatureBlock]:
        with reading(path):
            if at_once is None:
                require_memory(4 * n * width, "it")
            for line, block in _node_rows(path, "f4", n, width, at_once and _SHORTEST_NUMBER * at_once):
                finite = np.isfinite(block).all(axis=1)
                if not finite.all():
                    raise GraphError(f"line {line + finite.argmin()} has a feature that is NaN or infinite.")
                yield block

    return FeatureRows(width=width, sparse=False, nbytes=4 * n * width, rows=rows)


def _read_labels(path: Path, n: int) -> NDArray[np.int64]:
    """The class of each node, -1 where it is missing."""
    count = 0
    labels = np.full(n, -1)
    with reading(path):
        for line, block in _node_rows(path, "f8", n):
            if block.shape[1] != 1:
                raise GraphError(f"it has {block.shape[1]} labels a node; a Graph has one.")
            known = ~np.isnan(block[:, 0])
            whole = np.where(known, block[:, 0], -1)
            wrong = (whole != np.rint(whole)) | (np.abs(whole) > 2**31)
            if wrong.any():
                raise GraphError(f"line {line + wrong.argmax()} has the label {whole[wrong][0]:g}, which is no class.")
            labels[count : count + len(block)] = whole
            count += len(block)
    return labels


def _read_split(folder: Path, n: int) -> Parts | None:
    """The first split in alphabetical order, if there is one."""
    found = sorted(path.parent for path in folder.glob("*/train.csv.gz"))
    if not found:
        return None
    train, val, test = (_read_nodes(found[0] / f"{part}.csv.gz", n) for part in ("train", "valid", "test"))
    return train, val, test


def _read_nodes(path: Path, n: int) -> NDArray[np.int64]:
    found = [np.zeros(0, np.int64)]
    with reading(path):
        for line, block in _node_rows(path, "i8", n, 1, all_nodes=False):
            _require_nodes(block, line, n)
            found.append(block[:, 0])
    return np.sort(np.concatenate(found))


def _require_nodes(block: NDArray[np.int64], line: int, n: int) -> None:
    """Refuse a block, beginning on `line`, that names nodes that do not exist."""
    outside = (block < 0) | (block >= n)
    if outside.any():
        row = outside.any(axis=1).argmax()
        bad = block[row][outside[row]][0]
        raise GraphError(f"line {line + row} has node {bad}, but the graph has {n} nodes, numbered from 0.")


def _node_rows(
    path: Path, kind: str, n: int, columns: int | None = None, chunk: int | None = None, *, all_nodes: bool = True
) -> Iterator[Block]:
    """The blocks of a table with no more rows than there are nodes and, for `all_nodes`, no fewer."""
    count = 0
    for line, block in _blocks(path, kind, columns, chunk):
        count += len(block)
        if count > n:
            raise GraphError(f"it has more rows than the graph has nodes, {n}.")
        yield line, block
    if all_nodes and count < n:
        raise GraphError(f"it has {count} rows but must have {n}, one for each node.")


def _blocks(path: Path, kind: str, columns: int | None = None, chunk: int | None = None) -> Iterator[Block]:
    """A table of numbers block by block, each (rows, columns), from pieces of about `chunk` bytes of text.

    If `columns` is None, the first row decides.
    """
    for line, text in read_lines(path, chunk or _CHUNK, _LONGEST_LINE):
        if not text.strip():
            continue
        if columns is None:
            columns = text.lstrip().split(b"\n", 1)[0].count(b",") + 1
            require_memory(16 * columns, "a row of it")
        try:
            # Several columns as one field make NumPy refuse a row that has more or fewer of them.
            yield line, parse_table(text, f"({columns},){kind},", delimiter=",")["f0"]
        except ValueError as error:
            raise GraphError(_fault(text, line, columns, kind) or f"it is malformed ({error}).") from error


def _fault(text: bytes, line: int, columns: int, kind: str) -> str | None:
    """What is wrong with a piece that NumPy refuses, and on which line."""
    for number, row in enumerate(text.decode("utf-8", "replace").split("\n"), start=line):
        cells = row.split(",") if row.strip() else []
        if cells and len(cells) != columns:
            return f"line {number} has {len(cells)} column(s) but must have {columns}."
        for cell in cells:
            try:
                parse_table(cell.encode(), kind)
            except ValueError:
                what = "a number" if kind.startswith("f") else "an integer"
                return f"line {number} has {cell.strip()[:40]!r}, which is not {what}."
    return None
