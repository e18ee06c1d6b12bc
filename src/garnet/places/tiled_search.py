"""The base graph of points that lie in parts: the search of `garnet.neighbors`, a group of cells at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError
from garnet.io.atomic import atomic_path
from garnet.io.checked import checksum, read_note, write_note
from garnet.io.removal import remove
from garnet.neighbors.cell_index import CellIndex, compare
from garnet.neighbors.distances import lift, nearest_in_pool
from garnet.neighbors.quantizer import Quantizer
from garnet.neighbors.search import EXACT_UP_TO, Cells
from garnet.places.plan import most_cells
from garnet.places.row_store import RowFile, RowMatrix, RowStore, read, truncated, write, write_array
from garnet.purify.settings import Settings

Part = tuple[RowFile, Tensor, int, Tensor]
"""The points of a part: where they are, which rows are known, their width, and the mean of all."""

_GROUPS_A_PART = 4
_HELD = 1 << 24  # numbers of points that are compared with all others at once; a part alone may have more
_CELLS_HELD = 32  # that a task keeps in memory: cells nearby are searched one after the other


@dataclass(frozen=True)
class TiledBase:
    """The base graph on disk.

    Attributes:
        files: for parts i <= j the names of the files of pairs (u, v) in int32, counted from the first node of part i
            and of part j; a pair may be there several times.
        probes: cells that were searched for the neighbours of a cell; None if all points were compared.
        recall: share of the true neighbours that this promises.
    """

    files: dict[tuple[int, int], list[str]]
    probes: int | None = None
    recall: float | None = None


@dataclass(frozen=True, eq=False)
class TiledPoints:
    """Points in parts, about their mean, but for rows of zeros: see `garnet.neighbors.search.PointSource`."""

    store: RowStore
    matrix: RowMatrix
    known: tuple[Tensor, ...]
    mean: Tensor

    @classmethod
    def of(cls, store: RowStore, matrix: RowMatrix) -> TiledPoints:
        """All points of which anything is known."""
        known, sums = zip(*store.each(_known, matrix.files, repeat(matrix.width)), strict=True)
        return cls(store, matrix, known, (torch.stack(sums).sum(dim=0) / max(1, sum(map(len, known)))).float())

    def __len__(self) -> int:
        return sum(map(len, self.known))

    @cached_property
    def nodes(self) -> Tensor:
        """The node of each point, (n,)."""
        return torch.cat([part.long() + first for part, first in zip(self.known, self.store.bounds, strict=False)])

    def take(self, rows: Tensor) -> Tensor:
        """See `PointSource`."""
        return self.store.take(self.matrix, self.nodes[rows]) - self.mean

    def assign(self, quantizer: Quantizer) -> Tensor:
        """See `PointSource`."""
        columns = self.parts(), repeat(quantizer)
        return torch.cat(self.store.do("sort into cells", _assign, zip(*columns, strict=False)))

    def nearest(self, rows: Tensor, k: int) -> Tensor:
        """See `PointSource`."""
        first = np.cumsum([0, *map(len, self.known)])[:-1].tolist()
        columns = self.parts(), first, repeat(self.take(rows)), repeat(rows), repeat(k)
        found = self.store.do("try a sample", _nearest_of_part, zip(*columns, strict=False))
        away, ids = (torch.cat(every, dim=1) for every in zip(*found, strict=True))
        return ids.gather(1, away.topk(k, dim=1, largest=False).indices)

    def parts(self) -> list[Part]:
        """What a task needs to read the points of each part."""
        return [(*pair, self.matrix.width, self.mean) for pair in zip(self.matrix.files, self.known, strict=True)]


def tiled_base_graph(
    store: RowStore, matrix: RowMatrix, settings: Settings, *, memory: int, search: Cells
) -> TiledBase:
    """Join each node to its k nearest.

    Args:
        store: where the points live.
        matrix: the points; a row of zeros is none.
        settings: k and the seed.
        memory: bytes that this process may hold, which trains the quantizer: less of it means fewer, larger cells.
        search: how hard to look where there are too many points to compare them all.
    """
    points = TiledPoints.of(store, matrix)
    k = min(settings.k, len(points) - 1)
    if k < 1:
        return TiledBase({})
    if len(points) <= EXACT_UP_TO:
        parts = points.parts()
        tasks = [(parts, i, k, store.bounds, store.folder) for i in range(store.count)]
        return TiledBase(_by_parts(store.do("search", _search_part, tasks)))
    cells = most_cells(memory, matrix.width, search.max_probes)
    size = max(search.points_a_cell(len(points)), math.ceil(len(points) / cells))
    index, probes, recall = _indexed(points, k, size, settings.seed, search)
    shelf = _shelved(points, index)
    around, groups = index.around(k, probes), _groups(index.sizes.numpy(), _GROUPS_A_PART * store.count)
    near = [[around[cell] for cell in group] for group in groups]
    columns = repeat(shelf), groups, near, repeat(k), range(len(groups)), repeat(store.folder)
    files = _by_parts(store.do("search", _search_cells, zip(*columns, strict=False)))
    for file in (*shelf.points, *shelf.nodes):
        remove(file)
    return TiledBase(files, probes, recall)


def _known(file: RowFile, width: int) -> tuple[Tensor, Tensor]:
    rows = read(file, width)
    known = (rows.abs().amax(dim=1) > 0).nonzero()[:, 0]
    return known.int(), rows.sum(dim=0, dtype=torch.float64)


def _rows(file: RowFile, known: Tensor, width: int, mean: Tensor) -> Tensor:
    return read(file, width)[known] - mean


def _assign(part: Part, quantizer: Quantizer) -> Tensor:
    return quantizer.assign(_rows(*part))


def _nearest_of_part(part: Part, first: int, queries: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Squared distances and numbers of the k nearest of a part, (s, k) each; infinite if it has too few."""
    pool = _rows(*part)
    return nearest_in_pool(queries, ids, pool, torch.arange(first, first + len(pool)), k)


def _search_part(
    parts: Sequence[Part], i: int, k: int, bounds: Sequence[int], folder: Path
) -> list[tuple[int, int, str]]:
    """Compare the points of a part with all points, and write the pairs."""
    nodes = [part[1].long() + first for part, first in zip(parts, bounds, strict=False)]
    queries, away, found = _rows(*parts[i]), torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    for pool in _pools(parts):
        points, ids = torch.cat([_rows(*parts[j]) for j in pool]), torch.cat([nodes[j] for j in pool])
        near = nearest_in_pool(queries, nodes[i], points, ids, k)
        if not len(found):
            away, found = near
        else:
            away, at = torch.cat([away, near[0]], dim=1).topk(k, dim=1, largest=False)
            found = torch.cat([found, near[1]], dim=1).gather(1, at)
    pairs = torch.stack([nodes[i].repeat_interleave(k), found.reshape(-1)])
    return _write_pairs(pairs.numpy(), bounds, i, folder)


def _pools(parts: Sequence[Part]) -> list[list[int]]:
    """Parts whose points are held at once: mostly all of them, but not where these have very many coordinates."""
    pools: list[list[int]] = [[]]
    for i, (_, _, width, _) in enumerate(parts):
        if pools[-1] and sum(len(parts[j][1]) for j in (*pools[-1], i)) * width > _HELD:
            pools.append([])
        pools[-1].append(i)
    return pools


def _indexed(points: TiledPoints, k: int, size: int, seed: int, search: Cells) -> tuple[CellIndex, int, float]:
    """The cells, made once: a run that goes on must not have others, as it might on another processor."""
    file = points.store.folder / "cells.npz"
    if not file.exists():
        index, probes, recall = search.index(points, k, size=size, seed=seed)
        with atomic_path(file) as unfinished, unfinished.open("wb") as stream:
            np.savez(stream, cell=index.cell.int(), ranked=index.ranked.int(), probes=probes, recall=recall)
    with np.load(file) as found:
        cell, ranked = (torch.from_numpy(found[name]).long() for name in ("cell", "ranked"))
        return CellIndex(cell, ranked), int(found["probes"]), float(found["recall"])


@dataclass(frozen=True)
class Shelf:
    """Points sorted by cell, part by part, as the tasks of a search read them.

    Attributes:
        points: for each part, a file of its points, cell after cell, less their mean.
        nodes: for each part, a file of their numbers, counted from the first of the part.
        starts: (parts, cells + 1) where each cell begins in the files of each part.
        bounds: of the parts.
        width: coordinates of a point.
    """

    points: tuple[Path, ...]
    nodes: tuple[Path, ...]
    starts: NDArray[np.int64]
    bounds: tuple[int, ...]
    width: int

    def cell(self, number: int) -> tuple[Tensor, Tensor]:
        """The points of a cell, lifted, and the nodes that they are."""
        found, nodes = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
        for i, (first, second) in enumerate(zip(self.points, self.nodes, strict=True)):
            start, end = self.starts[i, number : number + 2].tolist()
            if count := end - start:
                found.append(np.fromfile(first, np.float32, count * self.width, offset=4 * start * self.width))
                nodes.append(np.fromfile(second, np.int32, count, offset=4 * start).astype(np.int64) + self.bounds[i])
                if len(found[-1]) < count * self.width or len(nodes[-1]) < count:
                    raise truncated(first)
        rows = torch.from_numpy(np.concatenate(found)).view(-1, self.width)
        return lift(rows), torch.from_numpy(np.concatenate(nodes))


def _shelved(points: TiledPoints, index: CellIndex) -> Shelf:
    """Sort the points of every part by their cells."""
    store, cells = points.store, len(index.ranked)
    files = [tuple(store.folder / f"{kind}-{i}.bin" for i in range(store.count)) for kind in ("shelf", "nodes")]
    owners = torch.split(index.cell, list(map(len, points.known)))
    columns = points.parts(), owners, *files
    store.do("sort into cells", _shelve, zip(*columns, strict=True))
    counts = [torch.bincount(owner, minlength=cells).numpy() for owner in owners]
    starts = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
    return Shelf(files[0], files[1], starts, store.bounds, points.matrix.width)


def _shelve(part: Part, owner: Tensor, points: Path, nodes: Path) -> None:
    order = owner.argsort(stable=True)
    write(points, _rows(*part)[order])
    write_array(nodes, part[1][order].numpy())


def _groups(sizes: NDArray[np.int64], count: int) -> list[list[int]]:
    """Cells in groups of about equally many points."""
    ends = np.cumsum(sizes)
    number = np.minimum((ends - 1) * count // max(int(ends[-1]), 1), count - 1)
    return [np.flatnonzero(number == group).tolist() for group in range(count)]


def _search_cells(
    shelf: Shelf, cells: list[int], around: list[list[int]], k: int, number: int, folder: Path
) -> list[tuple[int, int, str]]:
    """Find the neighbours of the points of some cells, and write the pairs; a list of the files is written last."""
    done = folder / f"pairs-{number}.json"
    if (before := _found_before(done)) is not None:
        return before
    fetch = lru_cache(_CELLS_HELD)(shelf.cell)
    pairs = [np.zeros((2, 0), np.int64)]
    for cell, near in zip(cells, around, strict=True):
        nodes = fetch(cell)[1]
        for some, _, found in compare(fetch(cell), near, fetch, k, shelf.width):
            pairs.append(torch.stack([nodes[some].repeat_interleave(k), found.reshape(-1)]).numpy())
    written = _write_pairs(np.concatenate(pairs, axis=1), shelf.bounds, number, folder)
    write_note(done, {"files": [(i, j, name, checksum(folder / name)) for i, j, name in written]})
    return written


def _found_before(done: Path) -> list[tuple[int, int, str]] | None:
    """The files of pairs that a run which was stopped has listed, if they are what it wrote."""
    with suppress(OSError, ValueError, KeyError, GraphError):
        before = read_note(done)["files"]
        if all(checksum(done.parent / name) == check for *_, name, check in before):
            return [(i, j, name) for i, j, name, _ in before]
    return None


def _write_pairs(
    pairs: NDArray[np.int64], bounds: Sequence[int], number: int, folder: Path
) -> list[tuple[int, int, str]]:
    """Sort pairs of nodes into files by the parts of both ends."""
    low, high = pairs.min(axis=0), pairs.max(axis=0)
    starts = np.asarray(bounds)
    first, second = (np.searchsorted(starts, ends, side="right") - 1 for ends in (low, high))
    local = np.stack([low - starts[first], high - starts[second]], axis=1).astype(np.int32)
    count = len(starts) - 1
    bucket = first * count + second
    order = np.argsort(bucket, kind="stable")
    written = []
    buckets, begins = np.unique(bucket[order], return_index=True)
    for which, rows in zip(buckets, np.split(order, begins[1:]), strict=False):
        i, j = divmod(int(which), count)
        name = f"pairs-{number}-{i}-{j}.bin"
        write_array(folder / name, np.unique(local[rows], axis=0))
        written.append((i, j, name))
    return written


def _by_parts(written: list[list[tuple[int, int, str]]]) -> dict[tuple[int, int], list[str]]:
    found: dict[tuple[int, int], list[str]] = {}
    for files in written:
        for i, j, name in files:
            found.setdefault((i, j), []).append(name)
    return found
