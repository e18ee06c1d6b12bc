"""What a reader gives piece by piece, put together in memory."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.graph.adjacency import join_pairs
from garnet.io.checks import Pairs, checked_names
from garnet.io.edge_source import EdgeSource, FeatureBlock, FeatureRows, GraphArrays
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
        return GraphArrays(adjacency, features, source.labels, source.split, names, source.sides)


def _all_pairs(source: EdgeSource) -> Pairs:
    pieces = list(source.edges(None))
    if len(pieces) == 1:
        return pieces[0]
    heads, tails = (np.concatenate([piece[end] for piece in pieces] or [np.zeros(0, np.int64)]) for end in (0, 1))
    # All pieces of a source have weights, or none has.
    weights = [piece[2] for piece in pieces if piece[2] is not None]
    return heads, tails, np.concatenate(weights) if weights else None


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
