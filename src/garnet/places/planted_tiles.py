"""A tiled graph with planted edges among its own; see `garnet.purify.planting`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GarnetError
from garnet.io.failures import writing
from garnet.io.removal import remove
from garnet.places.row_files import write_array
from garnet.places.row_store import Run, run_locally
from garnet.places.tile_writer import finish_like, write_strip
from garnet.places.tiles import TiledGraph
from garnet.purify.planting import planted_pairs

_PAIRS = "planted.bin"
"""Beside the folder of the tiles, the planted pairs."""


def plant_tiles(graph: TiledGraph, folder: Path, *, seed: int, run: Run = run_locally) -> list[Path]:
    """Write the tiles of a graph with planted edges to another folder of the run.

    Args:
        graph: the graph.
        folder: folder of the new tiles; what an earlier run left of it is removed.
        seed: of the planted edges.
        run: who does the work.

    Returns:
        The files written.
    """
    counts = torch.from_numpy(np.concatenate([graph.counts(i) for i in range(graph.parts)]))
    new = planted_pairs(counts, lambda pairs: joined_in(graph, pairs), seed=seed)
    add_edges(graph, folder, new, graph.total_weight() / max(2 * graph.num_edges, 1), run=run)
    pairs_file = folder.parent / _PAIRS
    write_array(pairs_file, new.numpy())
    return [*folder.iterdir(), pairs_file]


def add_edges(graph: TiledGraph, folder: Path, new: Tensor, weight: float, *, run: Run = run_locally) -> TiledGraph:
    """Write the tiles of a graph with additional new edges, (2, p), all of one weight, to another folder.

    Args:
        graph: the graph.
        folder: of the new tiles, in the directory of a run; what an earlier run left of it is removed.
        new: the edges.
        weight: of each.
        run: who does the work.
    """
    with writing(folder):
        remove(folder)
        folder.mkdir()
    first, second = np.concatenate([new.numpy(), new.numpy()[::-1]], axis=1)
    tasks = []
    for i in range(graph.parts):
        here = (first >= graph.bounds[i]) & (first < graph.bounds[i + 1])
        tasks.append((graph, i, first[here] - graph.bounds[i], second[here], weight, folder))
    run(_plant_strip, tasks)
    return finish_like(folder, graph)


def planted_in(folder: Path) -> Tensor:
    """The pairs, (2, p), that `plant_tiles` planted in the tiles of a folder."""
    file = folder.parent / _PAIRS
    try:
        numbers = np.fromfile(file, np.int64)
    except OSError as error:
        raise GarnetError(
            f"Cannot read {file}: {error.strerror}; remove its folder, and the work begins again."
        ) from error
    return torch.from_numpy(numbers).view(2, -1)


def _plant_strip(
    graph: TiledGraph, i: int, rows: NDArray[np.int64], columns: NDArray[np.int64], weight: float, folder: Path
) -> None:
    """Write a strip with additional new entries."""
    begin, end = graph.bounds[i : i + 2]
    shape = end - begin, graph.num_nodes
    more = sp.coo_array((np.full(len(rows), weight, np.float32), (rows, columns)), shape=shape).tocsr()
    blocks = [_block(graph, i, j) for j in range(graph.parts)]
    strip = sp.csr_array(sp.hstack(blocks, "csr") + more)
    strip.sort_indices()
    write_strip(folder, i, graph.bounds, strip.indptr, strip.indices, strip.data)


def _block(graph: TiledGraph, i: int, j: int) -> sp.csr_array:
    tile = graph.tile(i, j)
    weights = np.ones(len(tile.columns), np.float32) if tile.weights is None else tile.weights
    shape = (graph.bounds[i + 1] - graph.bounds[i], graph.bounds[j + 1] - graph.bounds[j])
    return sp.csr_array((weights, tile.columns, tile.starts), shape=shape)


def joined_in(graph: TiledGraph, pairs: Tensor) -> Tensor:
    """Which pairs, (2, q), are edges of a tiled graph."""
    parts = [np.searchsorted(graph.bounds[1:-1], ends, side="right") for ends in pairs.numpy()]
    found = np.zeros(pairs.shape[1], bool)
    for i, j in sorted(set(zip(*(part.tolist() for part in parts), strict=True))):
        some = np.flatnonzero((parts[0] == i) & (parts[1] == j))
        first, second = pairs[:, some].numpy()
        found[some] = _in_tile(graph, i, j, first - graph.bounds[i], second - graph.bounds[j])
    return torch.from_numpy(found)


def _in_tile(
    graph: TiledGraph, i: int, j: int, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    tile = graph.tile(i, j)
    counts = np.diff(tile.starts)[rows]
    pair = np.repeat(np.arange(len(rows)), counts)
    before = np.cumsum(counts) - counts
    entries = np.arange(len(pair)) + (tile.starts[:-1][rows] - before)[pair]
    found = np.zeros(len(rows), bool)
    found[pair[tile.columns[entries] == columns[pair]]] = True
    return found
