"""What every source of a graph that is read piece by piece has, and the checks that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from garnet.graph.adjacency import build_adjacency
from garnet.graph.graph import Graph, Split, as_graph
from garnet.io.text import reading
from garnet.places.tiles import Rows

Chunk = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32] | None]
"""The two ends of some pairs, and their weights; None if all of these are one."""


@dataclass(frozen=True, kw_only=True)
class FeatureRows:
    """Features that are read some rows at a time.

    Attributes:
        width: features of a node.
        sparse: whether the rows are CSR.
        nbytes: of all of them, in the form in which tiles keep them.
        rows: gives the rows of all nodes in order, in pieces of about so many numbers; checked, in 32 bits.
    """

    width: int
    sparse: bool
    nbytes: int
    rows: Callable[[int], Iterator[Rows]]


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeSource:
    """A graph that is read piece by piece, never held.

    Attributes:
        edges: gives the pairs in pieces of at most so many; checked, but in any order, repeated, and with loops.
        nodes: number, labels, split and names of the nodes; what edges and features it has do not count. None where
            the ends of the pairs are names, and nodes are numbered in the order of these.
        one_row_an_edge: whether pairs of which none is given in both directions are those of an undirected graph.
        features: of the nodes; or None.
        path: the file, or the folder; None for a graph in memory.
    """

    edges: Callable[[int], Iterator[Chunk]]
    nodes: Graph | None
    one_row_an_edge: bool
    features: FeatureRows | None = None
    path: Path | None = None

    def reading(self) -> AbstractContextManager[None]:
        """Where a fault of the graph as a whole is told: the sentence begins with the name of the file."""
        return nullcontext() if self.path is None else reading(self.path)


def bare_graph(
    n: int, *, labels: ArrayLike | None = None, split: Split | None = None, names: ArrayLike | None = None
) -> Graph:
    """A graph of nodes alone, whose labels, split and names `as_graph` has checked."""
    return as_graph((np.zeros((2, 0), np.int64), n), labels=labels, split=split, names=names)


def checked_pairs(heads: NDArray[Any], tails: NDArray[Any], weights: NDArray[Any] | None, n: int | None) -> Chunk:
    """Pairs as a chunk, if `build_adjacency` would take them; n of None when their ends are names."""
    if weights is not None:
        with np.errstate(over="ignore", under="ignore"):
            narrow = weights.astype(np.float32)
        lost = (narrow == 0) & (weights != 0)
        if not (np.isfinite(narrow).all() and (narrow >= 0).all()) or lost.any():
            build_adjacency(np.zeros_like(weights, int), np.zeros_like(weights, int), weights, 1, True)  # it says why
        weights = None if (narrow == 1).all() else narrow
    if n is not None:
        outside = any(ends.size and not (ends.min() >= 0 and ends.max() < n) for ends in (heads, tails))
        if outside:
            build_adjacency(heads, tails, np.ones(len(heads)), n, True)  # it says which
    return heads.astype(np.int64, copy=False), tails.astype(np.int64, copy=False), weights


def checked_rows(rows: Any) -> Rows:
    """Rows of features, if `as_graph` would take them."""
    checked: Rows = as_graph((np.zeros((2, 0), np.int64), rows.shape[0]), features=rows).features
    return checked


def rows_between(starts: NDArray[Any], begin: int, end: int) -> NDArray[np.int64]:
    """The row of each of the entries `begin` to `end` of a CSR matrix."""
    first = int(np.searchsorted(starts, begin, side="right")) - 1
    last = int(np.searchsorted(starts, end, side="left"))
    return np.repeat(np.arange(first, last), np.diff(np.clip(starts[first : last + 1], begin, end)))
