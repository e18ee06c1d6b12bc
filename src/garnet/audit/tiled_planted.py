"""The edges that `garnet.audit.planted` plants, in a graph stored in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.audit.planted import new_pairs
from garnet.places.planted_tiles import joined_in
from garnet.places.tiled_work import GraphOnDisk
from garnet.places.tiles import TiledGraph
from garnet.purify.quantile import digit_counts, quantile


def pairs_to_plant(work: GraphOnDisk, seed: tuple[int, int]) -> Tensor:
    """The same pairs that would be planted in memory, (2, p)."""
    graph, store = work.given, work.store
    ends = np.cumsum(store.each(_count_edges, repeat(graph), range(graph.parts)))

    def ends_at(places: Tensor) -> Tensor:
        numbers, found = (places % graph.num_edges).numpy(), np.zeros(places.shape, np.int64)
        owner = np.searchsorted(ends, numbers, side="right")
        chosen = [np.nonzero(owner == i) for i in range(graph.parts)]
        wanted = [numbers[some] - (ends[i - 1] if i else 0) for i, some in enumerate(chosen)]
        second = (places >= graph.num_edges).numpy()
        edges = store.each(_edges_at, repeat(graph), range(graph.parts), wanted)
        for some, pairs in zip(chosen, edges, strict=True):
            found[some] = np.where(second[some], pairs[1], pairs[0])
        return torch.from_numpy(found)

    return new_pairs(graph.num_edges, graph.num_nodes, ends_at, lambda pairs: joined_in(graph, pairs), seed=seed)


def usual_weight(work: GraphOnDisk) -> float:
    """The median weight of the edges."""
    graph = work.given
    if not graph.weighted:
        return 1.0
    tiles = [(i, j) for i in range(graph.parts) for j in range(i, graph.parts)]

    def count(place: int, beginnings: Sequence[int]) -> Tensor:
        tasks = ((graph, i, j, place, tuple(beginnings)) for i, j in tiles)
        return torch.stack(work.store.run(_count_weights, tasks)).sum(dim=0)

    return quantile(count, 0.5)


def _count_weights(graph: TiledGraph, i: int, j: int, place: int, beginnings: Sequence[int]) -> Tensor:
    tile = graph.tile(i, j)
    weights = np.ones(len(tile.columns), np.float32) if tile.weights is None else tile.weights
    if i == j:
        weights = weights[np.repeat(np.arange(len(tile.starts) - 1), np.diff(tile.starts)) < tile.columns]
    return digit_counts(torch.from_numpy(weights), place, beginnings)


def _count_edges(graph: TiledGraph, i: int) -> int:
    """Number of edges whose first end is in a part."""
    return int(sum((ends - begins).sum() for begins, ends, _ in (_upper(graph, i, j) for j in range(i, graph.parts))))


def _edges_at(graph: TiledGraph, i: int, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Both ends of edges, given by index among the edges whose first end is in a part."""
    counts = np.zeros(graph.bounds[i + 1] - graph.bounds[i], np.int64)
    for j in range(i, graph.parts):
        begins, ends, _ = _upper(graph, i, j)
        counts += ends - begins
    total = np.cumsum(counts)
    row = np.searchsorted(total, wanted, side="right")
    left, second = wanted - (total - counts)[row], np.zeros_like(wanted)
    for j in range(i, graph.parts):
        begins, ends, columns = _upper(graph, i, j)
        here = (left >= 0) & (left < (ends - begins)[row])
        second[here] = columns[begins[row[here]] + left[here]] + np.int64(graph.bounds[j])
        left -= (ends - begins)[row]  # negative from now on for an edge that was found
    return np.stack([row + graph.bounds[i], second])


def _upper(graph: TiledGraph, i: int, j: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Begin and end, in each row of a tile, of the entries whose column is the larger node; and all columns."""
    tile = graph.tile(i, j)
    begins, ends = tile.starts[:-1].astype(np.int64), tile.starts[1:].astype(np.int64)
    if i == j:
        rows = np.repeat(np.arange(len(begins)), ends - begins)
        begins = begins + np.bincount(rows[tile.columns < rows], minlength=len(begins))
    return begins, ends, tile.columns
