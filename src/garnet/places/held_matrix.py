"""The adjacency of a tiled graph in one piece of memory, for products that read nothing but their columns."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from garnet.places.tiles import Tile, TiledGraph

_AT_ONCE = 1 << 20  # entries that are put in place at once
_IMAGE = 1 << 18  # numbers of a product that are made at once: they stay in a cache for what comes next


@dataclass(frozen=True, eq=False)
class HeldMatrix:
    """The adjacency in compressed rows; columns are sorted in each.

    Attributes:
        starts: (n + 1,) int64.
        columns: (nnz,) int32.
        weights: (nnz,) float32; None where all are one.
    """

    starts: Tensor
    columns: Tensor
    weights: Tensor | None

    @classmethod
    def of(cls, graph: TiledGraph) -> HeldMatrix:
        """That of a tiled graph; beside the result, a tile is held, and numbers for some of its entries."""
        counts = np.concatenate([graph.counts(i) for i in range(graph.parts)])
        starts = np.zeros(graph.num_nodes + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        columns = np.empty(int(starts[-1]), np.int32)
        weights = np.empty(len(columns), np.float32) if graph.weighted else None
        for i, (first, last) in enumerate(pairwise(graph.bounds)):
            begins = starts[first:last].copy()
            for j in range(graph.parts):
                tile = graph.tile(i, j)
                for some, places in _places(tile, begins):
                    columns[places] = tile.columns[some] + graph.bounds[j]
                    if weights is not None and tile.weights is not None:
                        weights[places] = tile.weights[some]
                begins += np.diff(tile.starts)
        kept = None if weights is None else torch.from_numpy(weights)
        return cls(torch.from_numpy(starts), torch.from_numpy(columns), kept)

    @property
    def num_nodes(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def product(self, table: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The matrix times a tall one, some rows at a time."""
        rows = max(1, _IMAGE // max(table.shape[1], 1))
        for first in range(0, self.num_nodes, rows):
            starts = self.starts[first : first + rows + 1]
            entries = slice(int(starts[0]), int(starts[-1]))
            weights = None if self.weights is None else self.weights[entries]
            yield slice(first, first + rows), embedding_bag(
                self.columns[entries], table, (starts - starts[0]).int(), mode="sum", per_sample_weights=weights,
                include_last_offset=True,
            )  # fmt: skip


def _places(tile: Tile, begins: NDArray[np.int64]) -> Iterator[tuple[slice, slice | NDArray[np.int64]]]:
    """Where entries of a tile belong, some at a time, if those of each of its rows begin at a place."""
    starts, rows = tile.starts.astype(np.int64), len(tile.starts) - 1
    first = 0
    while first < rows:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _AT_ONCE, side="right")) - 1)
        some = slice(int(starts[first]), int(starts[last]))
        shift = np.repeat(begins[first:last] - starts[first:last], np.diff(starts[first : last + 1]))
        yield some, shift + np.arange(some.start, some.stop)
        first = last


def held_bytes(graph: TiledGraph) -> int:
    """What a process needs to hold the adjacency, and to put it together."""
    entries = 2 * graph.num_edges
    largest = max((size for name, size in graph.sizes.items() if name.startswith("tile-")), default=0)
    return (8 if graph.weighted else 4) * entries + 16 * graph.num_nodes + largest + 40 * _AT_ONCE


_lock = threading.Lock()
_held: dict[tuple[str, int], HeldMatrix] = {}
"""The last matrix that this process was asked for: tasks come one after the other, and all want the same."""


def held(graph: TiledGraph) -> HeldMatrix:
    """The adjacency of a graph, kept until that of another is asked for, or until it is released."""
    key = str(graph.folder), zlib.crc32(repr(sorted(graph.checks.items())).encode())
    with _lock:
        if key not in _held:
            _held.clear()  # before the next is made: there is room for one
            _held[key] = HeldMatrix.of(graph)
        return _held[key]


def release() -> None:
    """Forget what this process holds."""
    with _lock:
        _held.clear()
