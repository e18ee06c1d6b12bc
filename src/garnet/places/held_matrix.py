"""The adjacency of a tiled graph in memory, all of it or the rows of a part, for products that read no tiles."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from garnet.places.tiles import Tile, TiledGraph

_AT_ONCE = 1 << 20  # entries put in place at once
_IMAGE = 1 << 18  # numbers of a product computed at once: they stay in cache for the next step


@dataclass(frozen=True, eq=False)
class HeldMatrix:
    """Some rows of the adjacency, compressed; columns are sorted in each.

    Attributes:
        starts: (rows + 1,) int64.
        columns: (nnz,) int32.
        weights: (nnz,) float32; None where all are one.
    """

    starts: Tensor
    columns: Tensor
    weights: Tensor | None

    @classmethod
    def of(cls, graph: TiledGraph, part: int | None = None) -> HeldMatrix:
        """The rows of a part, or all; besides the result, a tile is held, and numbers for some of its entries."""
        parts = range(graph.parts) if part is None else [part]
        counts = [graph.counts(i) for i in parts]
        starts = np.zeros(sum(map(len, counts)) + 1, np.int64)
        np.cumsum(np.concatenate(counts), out=starts[1:])
        columns = np.empty(int(starts[-1]), np.int32)
        weights = np.empty(len(columns), np.float32) if graph.weighted else None
        first = 0
        for i, count in zip(parts, counts, strict=True):
            begins = starts[first : first + len(count)].copy()
            first += len(count)
            for j in range(graph.parts):
                tile = graph.tile(i, j)
                for some, places in _places(tile, begins):
                    columns[places] = tile.columns[some] + graph.bounds[j]
                    if weights is not None and tile.weights is not None:
                        weights[places] = tile.weights[some]
                begins += np.diff(tile.starts)
        kept = None if weights is None else torch.from_numpy(weights)
        return cls(torch.from_numpy(starts), torch.from_numpy(columns), kept)

    def image(
        self, table: Tensor, factors: Tensor, block: Tensor, *, shift: float = 0.0, minus: Tensor | None = None
    ) -> Tensor:
        """The product with a table, each row times its factor, minus a shift times the rows of a block, minus others.

        The last subtrahend is overwritten with the result.
        """
        target = torch.empty_like(block) if minus is None else minus
        for some, image in self.product(table):
            image *= factors[some]
            if minus is not None:
                image -= minus[some]
            if shift:
                image.sub_(block[some], alpha=shift)
            target[some] = image
        return target

    def product(self, table: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The matrix times a tall one, some rows at a time."""
        rows = max(1, _IMAGE // max(table.shape[1], 1))
        for first in range(0, len(self.starts) - 1, rows):
            starts = self.starts[first : first + rows + 1]
            entries = slice(int(starts[0]), int(starts[-1]))
            weights = None if self.weights is None else self.weights[entries]
            yield slice(first, first + rows), embedding_bag(
                self.columns[entries], table, (starts - starts[0]).int(), mode="sum", per_sample_weights=weights,
                include_last_offset=True,
            )  # fmt: skip


def _places(tile: Tile, begins: NDArray[np.int64]) -> Iterator[tuple[slice, slice | NDArray[np.int64]]]:
    """Where the entries of a tile belong, some at a time, given where each of its rows begins."""
    starts, rows = tile.starts.astype(np.int64), len(tile.starts) - 1
    first = 0
    while first < rows:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _AT_ONCE, side="right")) - 1)
        some = slice(int(starts[first]), int(starts[last]))
        shift = np.repeat(begins[first:last] - starts[first:last], np.diff(starts[first : last + 1]))
        yield some, shift + np.arange(some.start, some.stop)
        first = last


def held_bytes(graph: TiledGraph) -> int:
    """Bytes that a process needs to hold the adjacency, and to assemble it."""
    entries = 2 * graph.num_edges
    largest = max((size for name, size in graph.sizes.items() if name.startswith("tile-")), default=0)
    return (8 if graph.weighted else 4) * entries + 16 * graph.num_nodes + largest + 40 * _AT_ONCE


_lock = threading.Lock()
_held: dict[tuple[str, int], dict[int | None, HeldMatrix]] = {}
"""What this process was asked for of the last graph: tasks come one after the other, and all want the same."""


def held(graph: TiledGraph, part: int | None = None, *, most: int | None = None) -> HeldMatrix:
    """The rows of a part, or all, kept until another graph's are asked for, or until released.

    Args:
        graph: with the adjacency.
        part: the part whose rows to hold; None for all.
        most: how many of the most recently used parts to keep; None for all of them.
    """
    key = str(graph.folder), zlib.crc32(repr(sorted(graph.checks.items())).encode())
    with _lock:
        if key not in _held:
            _held.clear()  # before others are built: there is room for one graph
        found = _held.setdefault(key, {}).pop(part, None)
    # Concurrent tasks of this process wait for one another only if they want the whole.
    found = found or HeldMatrix.of(graph, part)
    with _lock:
        kept = _held.setdefault(key, {})
        kept[part] = found
        while most is not None and len(kept) > most:
            del kept[next(iter(kept))]
    return found


def release() -> None:
    """Forget what this process holds."""
    with _lock:
        _held.clear()
