"""Assembles in memory what a reader gives piece by piece."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.graph.adjacency import join_pairs
from garnet.graph.read_report import ReadReport
from garnet.io.checks import Pairs, RowIs, checked_names
from garnet.io.edge_source import EdgeSource, FeatureBlock, FeatureRows, GraphArrays
from garnet.io.limits import require_memory


def collect(
    source: EdgeSource, *, symmetrize: bool, also: NDArray[Any] | None = None
) -> tuple[GraphArrays, ReadReport]:
    """The whole graph of a source, and what became of its rows.

    Args:
        source: what a reader opened.
        symmetrize: accept a directed graph and keep each of its edges in both directions.
        also: names of nodes that need not have edges, where nodes are known by name.

    Raises:
        GraphError: the source does not hold a graph; the message says why.
    """
    with source.reading():
        if source.named is None:
            (heads, tails, weights), known = _all_pairs(source), None
        else:
            (heads, tails, weights), known = source.named()
        n, names = source.num_nodes, source.names
        if n is None:
            if known is None:
                found, heads, tails = _numbered(heads, tails, also)
            else:
                found, heads, tails = _placed(heads, tails, known, also)
            n = len(found)
            names = checked_names(found, n)
        row_is: RowIs = "edge" if symmetrize else source.row_is
        merged = join_pairs(heads, tails, weights, n, row_is, source.duplicates)
        features = None if source.features is None else _all_rows(source.features, n)
    adjacency = merged.adjacency
    report = ReadReport(
        table=source.table,
        pairs=len(heads),
        later=source.later(),
        nodes=n,
        edges=adjacency.nnz // 2,
        loops=merged.loops,
        zeros=merged.zeros,
        repeated=merged.repeated,
        duplicates=source.duplicates,
        isolated=int((np.diff(adjacency.indptr) == 0).sum()),
    )
    said = source.labels, source.split, names, source.sides, source.label_names
    return GraphArrays(adjacency, features, *said), report


def _all_pairs(source: EdgeSource) -> Pairs:
    pieces = list(source.edges(None))
    if len(pieces) == 1:
        return pieces[0]
    heads, tails = (np.concatenate([piece[end] for piece in pieces] or [np.zeros(0, np.int64)]) for end in (0, 1))
    # Either all pieces of a source have weights, or none does.
    weights = [piece[2] for piece in pieces if piece[2] is not None]
    return heads, tails, np.concatenate(weights) if weights else None


def _numbered(
    heads: NDArray[Any], tails: NDArray[Any], also: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The sorted names, including those of nodes without edges, and both columns as positions among them."""
    if also is not None and len(heads) and (heads.dtype.kind == "O") != (also.dtype.kind == "U"):
        if heads.dtype.kind == "O":
            also = also.astype(np.str_)  # integers mixed with texts are texts
        else:
            heads, tails = (column.astype(np.str_).astype(np.object_) for column in (heads, tails))
    if heads.dtype.kind == "O" or (also is not None and also.dtype.kind == "U"):
        texts = sorted({*heads.tolist(), *tails.tolist(), *(() if also is None else also.tolist())})
        require_memory(4 * len(texts) * max(map(len, texts)), "the table of its node names")
        position = {name: i for i, name in enumerate(texts)}
        rows, cols = (np.array([position[name] for name in column], np.int64) for column in (heads, tails))
        return np.array(texts), rows, cols
    known = np.concatenate([heads, tails, heads[:0] if also is None else also])
    names, places = np.unique(known, return_inverse=True)
    rows, cols = places[: 2 * len(heads)].reshape(2, -1).astype(np.int64)
    return names, rows, cols


def _placed(
    heads: NDArray[np.int64], tails: NDArray[np.int64], known: list[str], also: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The same where both columns are positions among known names."""
    texts = sorted({*known, *(() if also is None else also.astype(np.str_).tolist())})
    require_memory(4 * len(texts) * max(map(len, texts), default=0), "the table of its node names")
    position = {name: i for i, name in enumerate(texts)}
    place = np.array([position[name] for name in known], np.int64)
    return np.array(texts, np.str_), place[heads], place[tails]


def _all_rows(features: FeatureRows, n: int) -> FeatureBlock:
    pieces = features.rows(None)
    first = next(pieces, None)
    if first is not None and first.shape[0] == n:
        return first
    whole = np.zeros((n, features.width), np.float32)
    done = 0
    for piece in [] if first is None else chain([first], pieces):
        whole[done : done + len(piece)] = piece
        done += len(piece)
    return whole
