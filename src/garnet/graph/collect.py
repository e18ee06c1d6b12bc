"""What a reader gives piece by piece, put together in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.graph.adjacency import join_pairs
from garnet.io.checks import Pairs, checked_names
from garnet.io.edge_source import EdgeSource, FeatureRows, GraphArrays, Rows
from garnet.io.limits import require_memory


def collect(source: EdgeSource, *, symmetrize: bool) -> GraphArrays:
    """The whole graph of a source.

    Args:
        source: what a reader opened.
        symmetrize: accept a directed graph and keep each of its edges in both directions.

    Raises:
        GraphError: it does not hold a graph; the message says why.
    """
    with source.reading():
        heads, tails, weights = _all_pairs(source)
        n, names = source.num_nodes, source.names
        if n is None:
            found, heads, tails = _numbered(heads, tails)
            n = len(found)
            names = checked_names(found, n)
        adjacency = join_pairs(heads, tails, weights, n, "edge" if symmetrize else source.row_is)
        features = None if source.features is None else _all_rows(source.features, n)
        return GraphArrays(adjacency, features, source.labels, source.split, names)


def _all_pairs(source: EdgeSource) -> Pairs:
    n = source.num_nodes
    small = n is not None and n < 2**31
    pieces = [
        (heads.astype(np.int32, copy=False), tails.astype(np.int32, copy=False), weights)
        if small
        else (heads, tails, weights)
        for heads, tails, weights in source.edges(None)
    ]
    if len(pieces) == 1:
        return pieces[0]
    empty = np.zeros(0, np.int32 if small else np.int64)
    heads, tails = (np.concatenate([piece[end] for piece in pieces] or [empty]) for end in (0, 1))
    if all(weights is None for _, _, weights in pieces):
        return heads, tails, None
    ones = (np.ones(len(piece[0]), np.float32) if piece[2] is None else piece[2] for piece in pieces)
    return heads, tails, np.concatenate(list(ones))


def _numbered(heads: NDArray[Any], tails: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The sorted names, and both columns as positions among them."""
    if heads.dtype.kind == "O":
        texts = sorted({*heads, *tails})
        require_memory(4 * len(texts) * max(map(len, texts)), "the table of its node names")
        position = {name: i for i, name in enumerate(texts)}
        rows, cols = (np.array([position[name] for name in column], np.int64) for column in (heads, tails))
        return np.array(texts), rows, cols
    names, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    rows, cols = places.reshape(2, -1).astype(np.int64)
    return names, rows, cols


def _all_rows(features: FeatureRows, n: int) -> Rows:
    pieces = features.rows(None)
    if features.sparse:
        blocks = list(pieces)
        return blocks[0] if len(blocks) == 1 else sp.vstack(blocks, "csr")
    whole: NDArray[np.float32] | None = None
    done = 0
    for piece in pieces:
        if len(piece) == n:
            return piece
        if whole is None:
            whole = np.empty((n, features.width), np.float32)
        whole[done : done + len(piece)] = piece
        done += len(piece)
    return np.zeros((n, features.width), np.float32) if whole is None else whole
