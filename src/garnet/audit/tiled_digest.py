"""Totals of the judged edges of a graph in tiles: at its nodes, overall, and where the ranked edges are cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from garnet.places.column_file import Layout, read_columns
from garnet.places.row_files import write_array
from garnet.places.tiles import TiledGraph

TOP = 1_000
"""Number of the most suspicious edges that are held in memory."""


class Cuts(NamedTuple):
    """Where the ranked edges are cut: each piece begins with an edge of this suspicion and these ends."""

    suspicion: NDArray[np.float64]
    keys: NDArray[np.int64]

    @classmethod
    def of(cls, suspicion: NDArray[np.float64], keys: NDArray[np.int64], pieces: int) -> Cuts:
        """Cut into roughly equal pieces, by a sample of the edges; `keys` encode the pairs of their ends."""
        order = np.lexsort((keys, -suspicion))
        chosen = order[np.arange(1, pieces) * len(order) // pieces]
        return cls(suspicion[chosen], keys[chosen])

    def places(self, suspicion: NDArray[np.float64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each piece begins among ranked edges, and where the last one ends."""
        found, rising = [0], -suspicion
        for least, key in zip(self.suspicion, self.keys, strict=True):
            low, high = (int(np.searchsorted(rising, -least, side)) for side in ("left", "right"))
            found.append(low + int(np.searchsorted(keys[low:high], key)))
        return np.array([*found, len(suspicion)])


class Digest(NamedTuple):
    """The totals of a row of tiles.

    Attributes:
        suspicion: sum over all its edges.
        doubted: number of doubted edges.
        suspicion_of_doubted: sum over these.
        places: for each tile, where each piece of the ranked edges begins.
        top: for each tile, the columns of its most suspicious edges.
    """

    suspicion: float
    doubted: int
    suspicion_of_doubted: float
    places: list[NDArray[np.int64]]
    top: list[list[NDArray[Any]]]


def digest_row(graph: TiledGraph, i: int, files: Sequence[Path], layout: Layout, cuts: Cuts, sums: Path) -> Digest:
    """The totals of the tiles (i, i), (i, i + 1) and so on.

    Args:
        graph: the graph.
        i: part of the rows.
        files: files of the judged edges of these tiles.
        layout: layout of the files.
        cuts: cuts of the ranked edges.
        sums: a file to write for `sums_at_nodes`: suspicion and doubted edges at each node, from part i on.
    """
    bounds, n = graph.bounds, graph.num_nodes
    total, of_doubted, doubted_edges = 0.0, 0.0, 0
    at_nodes = np.zeros((2, n - bounds[i]))
    places, top = [], []
    for j, file in enumerate(files, start=i):
        first, second, suspicion = read_columns(file, layout, ("first", "second", "suspicion"))
        doubted = suspicion > 0.5
        total += float(suspicion.sum())
        doubted_edges += int(doubted.sum())
        of_doubted += float(suspicion[doubted].sum())
        for ends, part in ((first, i), (second, j)):
            here = slice(bounds[part] - bounds[i], bounds[part + 1] - bounds[i])
            for row, counted in zip(at_nodes, (suspicion, doubted), strict=True):
                row[here] += np.bincount(ends, counted, bounds[part + 1] - bounds[part])
        places.append(cuts.places(suspicion, (first.astype(np.int64) + bounds[i]) * n + second + bounds[j]))
        top.append(read_columns(file, layout, tuple(layout), end=min(TOP, len(first))))
    write_array(sums, at_nodes)
    return Digest(total, doubted_edges, of_doubted, places, top)


def sums_at_nodes(graph: TiledGraph, files: Sequence[Path]) -> NDArray[np.float64]:
    """(2, n) the suspicion and the doubted edges at each node, from what `digest_row` wrote for each part."""
    total = np.zeros((2, graph.num_nodes))
    for first, file in zip(graph.bounds, files, strict=False):
        total[:, first:] += np.fromfile(file).reshape(2, -1)
    return total
