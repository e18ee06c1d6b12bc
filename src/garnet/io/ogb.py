"""Graphs of the Open Graph Benchmark, from the files in its zip archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.graph import Graph, Split, as_graph
from garnet.io.limits import require_memory, require_plausible
from garnet.io.text import parse_table, read_chunks, reading

_CHUNK = 1 << 24
# Reading holds the ends of an edge twice over; both directions of it, in the matrix and its transpose, come on top.
_BYTES_AN_EDGE = 80

Block = tuple[int, NDArray[Any]]
"""The number of its first line, and some rows of a table."""


def is_ogb(folder: Path) -> bool:
    """Whether a folder has the layout that `read_ogb` reads."""
    try:
        return (folder / "raw" / "edge.csv.gz").is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_ogb(folder: str | Path, *, symmetrize: bool = True) -> Graph:
    """Read a graph for predicting properties of nodes, in the layout in which OGB distributes it.

    The folder has `raw/edge.csv.gz`, `raw/num-node-list.csv.gz`, and if they are known `raw/node-feat.csv.gz`,
    `raw/node-label.csv.gz` and a folder in `split`, such as `time`, with `train.csv.gz`, `valid.csv.gz` and
    `test.csv.gz`; the first in alphabetic order if there are several. Labels that are missing, `nan`, become -1. The
    files are read piece by piece, so that besides the graph itself no more than a piece of text is ever in memory.

    Args:
        folder: the unpacked archive, such as `arxiv` or `products`.
        symmetrize: keep each edge in both directions; OGB stores its graphs with one of them.

    Returns:
        The graph, with features in 32 bits.

    Raises:
        GraphError: a file is missing or damaged; the message names it, and the line.
    """
    folder = Path(folder)
    raw = folder / "raw"
    n = read_num_nodes(folder)
    edges = _read_edges(raw / "edge.csv.gz", n)
    features = _read_features(raw / "node-feat.csv.gz", n) if (raw / "node-feat.csv.gz").exists() else None
    labels = read_labels(raw / "node-label.csv.gz", n) if (raw / "node-label.csv.gz").exists() else None
    split = read_split(folder / "split", n)
    with reading(folder):
        return as_graph((edges.T, n), features=features, labels=labels, split=split, symmetrize=symmetrize)


def read_num_nodes(folder: Path) -> int:
    """The number of nodes, if the file of edges is not far too small for so many."""
    path = folder / "raw" / "num-node-list.csv.gz"
    n, packed = read_size(path), (folder / "raw" / "edge.csv.gz").stat().st_size
    with reading(path):
        require_plausible(n, packed, "nodes", "bytes of edges")
    return n


def read_size(path: Path) -> int:
    """The number of nodes."""
    with reading(path):
        sizes = [int(size) for _, block in blocks(path, "i8", 1) for size in block[:, 0]]
        if len(sizes) != 1 or sizes[0] < 0:
            raise GraphError(f"it must hold the number of nodes of one graph. Got {sizes[:8]} instead.")
        return sizes[0]


def _read_edges(path: Path, n: int) -> NDArray[Any]:
    found = [np.zeros((0, 2), np.int32)]
    count = 0
    with reading(path):
        for line, block in blocks(path, "i8", 2):
            require_nodes(block, line, n)
            count += len(block)
            require_memory(count * _BYTES_AN_EDGE, "it")
            found.append(block.astype(np.int32) if n < 2**31 else block)
        require_plausible(n, count, "nodes")
        return np.concatenate(found)


def _read_features(path: Path, n: int) -> NDArray[np.float32]:
    count = 0
    features = np.zeros((n, 0), np.float32)
    with reading(path):
        for line, block in blocks(path, "f4"):
            if not count:
                require_memory(4 * n * block.shape[1], "it")
                features = np.empty((n, block.shape[1]), np.float32)
            finite = np.isfinite(block).all(axis=1)
            if not finite.all():
                raise GraphError(f"line {line + finite.argmin()} has a feature that is NaN or infinite.")
            require_room(count + len(block), n)
            features[count : count + len(block)] = block
            count += len(block)
        require_rows(count, n)
        return features


def read_labels(path: Path, n: int) -> NDArray[np.int64]:
    """The class of each node, -1 where it is missing."""
    count = 0
    labels = np.full(n, -1)
    with reading(path):
        for line, block in blocks(path, "f8"):
            if block.shape[1] != 1:
                raise GraphError(f"it has {block.shape[1]} labels a node; a Graph has one.")
            known = ~np.isnan(block[:, 0])
            whole = np.where(known, block[:, 0], -1)
            wrong = (whole != np.rint(whole)) | (np.abs(whole) > 2**31)
            if wrong.any():
                raise GraphError(f"line {line + wrong.argmax()} has the label {whole[wrong][0]:g}, which is no class.")
            require_room(count + len(block), n)
            labels[count : count + len(block)] = whole
            count += len(block)
        require_rows(count, n)
        return labels


def read_split(folder: Path, n: int) -> Split | None:
    """The first split in alphabetic order, if there is one."""
    parts = sorted(path.parent for path in folder.glob("*/train.csv.gz"))
    files = [parts[0] / f"{part}.csv.gz" for part in ("train", "valid", "test")] if parts else []
    return Split(*(_read_nodes(path, n) for path in files)) if files else None


def _read_nodes(path: Path, n: int) -> NDArray[np.int64]:
    found = [np.zeros(0, np.int64)]
    with reading(path):
        for line, block in blocks(path, "i8", 1):
            require_nodes(block, line, n)
            found.append(block[:, 0])
            require_room(sum(map(len, found)), n)
        return np.sort(np.concatenate(found))


def require_nodes(block: NDArray[np.int64], line: int, n: int) -> None:
    """Refuse a block, which begins on `line`, that names nodes which do not exist."""
    outside = (block < 0) | (block >= n)
    if outside.any():
        row = outside.any(axis=1).argmax()
        bad = block[row][outside[row]][0]
        raise GraphError(f"line {line + row} has node {bad}, but the graph has {n} nodes, numbered from 0.")


def require_room(count: int, n: int) -> None:
    """Refuse a file that has had more rows than there are nodes."""
    if count > n:
        raise GraphError(f"it has more rows than the graph has nodes, {n}.")


def require_rows(count: int, n: int) -> None:
    """Refuse a file that has ended with fewer rows than there are nodes."""
    if count < n:
        raise GraphError(f"it has {count} rows but must have {n}, one for each node.")


def blocks(path: Path, kind: str, columns: int | None = None, chunk: int | None = None) -> Iterator[Block]:
    """A table of numbers block by block, each (rows, columns), from pieces of about `chunk` bytes of text.

    `columns` of None are those of its first row.
    """
    line = 1
    for text in _pieces(path, chunk or _CHUNK):
        if text.strip():
            if columns is None:
                columns = text.lstrip().split(b"\n", 1)[0].count(b",") + 1
                require_memory(16 * columns, "a row of it")
            try:
                # Several columns as one field make NumPy refuse a row that has more or fewer of them.
                yield line, parse_table(text, f"({columns},){kind},", delimiter=",")["f0"]
            except ValueError as error:
                raise GraphError(_fault(text, line, columns, kind) or f"it is malformed ({error}).") from error
        line += text.count(b"\n")


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    """The unpacked text in pieces of whole lines."""
    rest = b""
    for chunk in read_chunks(path, size):
        end = chunk.rfind(b"\n") + 1
        if not end and len(rest) > _CHUNK:
            raise GraphError(f"it has a line of more than {_CHUNK} characters.")
        if end:
            yield rest + chunk[:end]
            rest = b""
        rest += chunk[end:]
    if rest:
        yield rest


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
