"""The base graph of points in parts: the search of `garnet.neighbors`, a group of cells at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError
from garnet.io.atomic import atomic_path
from garnet.io.checked import checksum, read_note, write_note
from garnet.io.removal import remove
from garnet.linalg.fixed_point import fixed, number
from garnet.neighbors.cell_index import CellIndex, compare
from garnet.neighbors.distances import lift, lifted_width, nearest_in_pool, tile_rows
from garnet.neighbors.quantizer import Quantizer, closest
from garnet.neighbors.search import EXACT_UP_TO, Cells
from garnet.places.plan import most_cells
from garnet.places.row_files import RowFile, read, truncated, write, write_array
from garnet.places.row_store import RowMatrix, RowStore, grains
from garnet.purify.settings import Settings

Part = tuple[RowFile, Tensor, int, Tensor]
"""The points of a part: where they are, which rows are known, their width, and the mean of all."""

Segment = tuple[str, int, int]
"""The name of a file of pairs, the first of some of them, and how many these are."""

Bucket = tuple[int, int, int, int]
"""Two parts, the first of the pairs between them in a file, and how many these are."""

_GROUPS_A_PART = 4
_HELD = 1 << 24  # numbers of points compared with all others at once; a single part may have more
_CELLS_HELD, _BYTES_HELD = 32, 64 << 20  # kept in memory by a task: nearby cells are searched one after another


@dataclass(frozen=True)
class TiledBase:
    """The base graph on disk.

    Attributes:
        files: for parts i <= j where the pairs (u, v) are, in int32, counted from the first node of part i and of part
            j; a pair may be there several times.
        probes: cells searched for the neighbours of a cell; None if all points were compared.
        recall: share of the true neighbours that this should find.
    """

    files: dict[tuple[int, int], list[Segment]]
    probes: int | None = None
    recall: float | None = None

    def names(self) -> list[str]:
        """The files."""
        return sorted({name for segments in self.files.values() for name, _, _ in segments})


@dataclass(frozen=True, eq=False)
class TiledPoints:
    """Centred points in parts, without rows of zeros; see `garnet.neighbors.search.PointSource`."""

    store: RowStore
    matrix: RowMatrix
    known: tuple[Tensor, ...]
    mean: Tensor

    @classmethod
    def of(cls, store: RowStore, matrix: RowMatrix) -> TiledPoints:
        """All points about which anything is known."""
        found = store.each(_known, matrix.files, repeat(matrix.width), repeat(store.grain))
        known, sums = zip(*found, strict=True)
        total = number(torch.stack(sums).sum(dim=0))
        return cls(store, matrix, known, (total / max(1, sum(map(len, known)))).float())

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

    def closest(self, points: Tensor, centres: Tensor, count: int) -> Tensor:
        """See `PointSource`."""
        rows = tile_rows(points, len(centres))  # tasks make whole tiles, so they find what a single task would
        step = rows * max(1, len(points) // (rows * _GROUPS_A_PART * self.store.threads))
        tasks = ((points, first, first + step, centres, count) for first in range(0, len(points), step))
        return torch.cat(self.store.run(_closest, tasks))

    def parts(self) -> list[Part]:
        """What a task needs to read the points of each part."""
        return [(*pair, self.matrix.width, self.mean) for pair in zip(self.matrix.files, self.known, strict=True)]


def tiled_base_graph(
    store: RowStore, matrix: RowMatrix, settings: Settings, *, memory: int, search: Cells
) -> TiledBase:
    """Join each node to its k nearest.

    Args:
        store: where the points are kept.
        matrix: the points; a row of zeros is not a point.
        settings: k and the seed.
        memory: bytes that this process, which trains the quantizer, may hold: less memory means fewer, larger cells.
        search: how thoroughly to search if there are too many points to compare them all.
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
    around, groups = index.around(k, probes), _groups(index.sizes.numpy(), _GROUPS_A_PART * store.count)
    shelf = _shelved(points, index, groups)
    near = [[around[cell] for cell in group] for group in groups]
    repeated = map(repeat, (k, matrix.width, store.bounds))
    columns = repeat(shelf), groups, near, *repeated, range(len(groups)), repeat(store.folder)
    files = _by_parts(store.do("search", _search_cells, zip(*columns, strict=False)))
    for file in (*shelf.points, *shelf.nodes):
        remove(file)
    return TiledBase(files, probes, recall)


def _known(file: RowFile, width: int, grain: int) -> tuple[Tensor, Tensor]:
    rows = read(file, width)
    known = (rows.abs().amax(dim=1) > 0).nonzero()[:, 0]
    return known.int(), fixed([rows[some].sum(dim=0, dtype=torch.float64) for some in grains(len(rows), grain)])


def _rows(file: RowFile, known: Tensor, width: int, mean: Tensor) -> Tensor:
    return read(file, width)[known] - mean


def _assign(part: Part, quantizer: Quantizer) -> Tensor:
    return quantizer.assign(_rows(*part))


def _closest(points: Tensor, first: int, last: int, centres: Tensor, count: int) -> Tensor:
    return closest(points[first:last], centres, count)


def _nearest_of_part(part: Part, first: int, queries: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Squared distances and numbers of the k nearest of a part, (s, k) each; infinite if it has too few."""
    pool = _rows(*part)
    return nearest_in_pool(queries, ids, pool, torch.arange(first, first + len(pool)), k)


def _search_part(parts: Sequence[Part], i: int, k: int, bounds: Sequence[int], folder: Path) -> list[Bucket]:
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
    """Parts whose points are held at once: usually all, unless they have very many coordinates."""
    pools: list[list[int]] = [[]]
    for i, (_, _, width, _) in enumerate(parts):
        if pools[-1] and sum(len(parts[j][1]) for j in (*pools[-1], i)) * width > _HELD:
            pools.append([])
        pools[-1].append(i)
    return pools


def _indexed(points: TiledPoints, k: int, size: int, seed: int, search: Cells) -> tuple[CellIndex, int, float]:
    """The cells, made once: a resumed run must not get different ones, as it might on another processor."""
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
    """Lifted points, in files of some cells each, cell by cell.

    Attributes:
        points: the files of points.
        nodes: the files of the nodes that they are.
        cells: (files + 1,) the first cell of each file, and the total number of cells.
        starts: (cells + 1,) how many points lie in the cells before each.
        width: of a lifted point.
    """

    points: tuple[Path, ...]
    nodes: tuple[Path, ...]
    cells: NDArray[np.int64]
    starts: NDArray[np.int64]
    width: int

    def cell(self, number: int) -> tuple[Tensor, Tensor]:
        """The lifted points of a cell, and their nodes."""
        file = int(np.searchsorted(self.cells, number, side="right")) - 1
        first, last = (self.starts[number : number + 2] - self.starts[self.cells[file]]).tolist()
        count, width = last - first, self.width
        rows = np.fromfile(self.points[file], np.float32, count * width, offset=4 * first * width)
        nodes = np.fromfile(self.nodes[file], np.int64, count, offset=8 * first)
        if len(rows) < count * width or len(nodes) < count:
            raise truncated(self.points[file])
        return torch.from_numpy(rows).view(-1, width), torch.from_numpy(nodes)


def _shelved(points: TiledPoints, index: CellIndex, groups: Sequence[Sequence[int]]) -> Shelf:
    """Sort the points by cell: first within every part, then for each group of cells across all parts."""
    store = points.store
    sorted_, nodes, shelf, names = (
        [store.folder / f"{kind}-{i}.bin" for i in range(count)]
        for kind, count in (("part", store.count), ("nodes", store.count), ("shelf", len(groups)), ("ids", len(groups)))
    )
    owners = torch.split(index.cell, list(map(len, points.known)))
    store.do("sort into cells", _sort_part, zip(points.parts(), owners, sorted_, nodes, strict=True))
    counts = np.stack([torch.bincount(owner, minlength=len(index.ranked)).numpy() for owner in owners])
    before = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
    cells = np.cumsum([0, *map(len, groups)])
    width = points.matrix.width
    pieces = [list(zip(sorted_, nodes, before[:, a].tolist(), store.bounds, strict=False)) for a in cells[:-1]]
    sizes = [counts[:, a:b] for a, b in pairwise(cells.tolist())]
    store.run(_shelve, zip(pieces, sizes, repeat(width), shelf, names, strict=False))
    for file in (*sorted_, *nodes):
        remove(file)
    return Shelf(tuple(shelf), tuple(names), cells, before.sum(axis=0), lifted_width(width))


def _sort_part(part: Part, owner: Tensor, points: Path, nodes: Path) -> None:
    order = owner.argsort(stable=True)
    write(points, _rows(*part)[order])
    write_array(nodes, part[1][order].numpy())


def _shelve(
    pieces: Sequence[tuple[Path, Path, int, int]], sizes: NDArray[np.int64], width: int, shelf: Path, names: Path
) -> None:
    """Bring together what each part has of some cells.

    Args:
        pieces: for each part the files of its sorted points and of their nodes, where the first cell begins in them,
            and the first node of the part.
        sizes: (parts, cells) how many points of each there are.
        width: of a point.
        shelf: where to put the points.
        names: where to put their nodes.
    """
    rows, nodes = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
    for (points, numbers, start, first), count in zip(pieces, sizes.sum(axis=1).tolist(), strict=True):
        rows.append(np.fromfile(points, np.float32, count * width, offset=4 * start * width))
        nodes.append(np.fromfile(numbers, np.int32, count, offset=4 * start).astype(np.int64) + first)
        if len(rows[-1]) < count * width or len(nodes[-1]) < count:
            raise truncated(points)
    cell = np.concatenate([np.repeat(np.arange(len(each)), each) for each in sizes])
    order = np.argsort(cell, kind="stable")
    write(shelf, lift(torch.from_numpy(np.concatenate(rows)).view(-1, width)[order]))
    write_array(names, np.concatenate(nodes)[order])


def _groups(sizes: NDArray[np.int64], count: int) -> list[list[int]]:
    """Cells in groups of about equally many points."""
    ends = np.cumsum(sizes)
    number = np.minimum((ends - 1) * count // max(int(ends[-1]), 1), count - 1)
    return [np.flatnonzero(number == group).tolist() for group in range(count)]


def _search_cells(
    shelf: Shelf,
    cells: list[int],
    around: list[list[int]],
    k: int,
    dimension: int,
    bounds: Sequence[int],
    number: int,
    folder: Path,
) -> list[Bucket]:
    """Find the neighbours of the points of some cells, and write the pairs; a list of the files is written last."""
    if (before := _found_before(number, folder)) is not None:
        return before
    cells_held = _BYTES_HELD * len(shelf.starts) // (4 * shelf.width * max(1, int(shelf.starts[-1])))
    fetch = lru_cache(max(_CELLS_HELD, cells_held))(shelf.cell)
    pairs = [np.zeros((2, 0), np.int64)]
    for cell, near in zip(cells, around, strict=True):
        nodes = fetch(cell)[1]
        for some, _, found in compare(fetch(cell), near, fetch, k, dimension):
            pairs.append(torch.stack([nodes[some].repeat_interleave(k), found.reshape(-1)]).numpy())
    written = _write_pairs(np.concatenate(pairs, axis=1), bounds, number, folder)
    write_note(_note_file(number, folder), {"pairs": written, "bytes": checksum(folder / _pairs_file(number))})
    return written


def _found_before(number: int, folder: Path) -> list[Bucket] | None:
    """What an interrupted run has listed, if the file of pairs is unchanged."""
    with suppress(OSError, ValueError, KeyError, GraphError):
        before = read_note(_note_file(number, folder))
        if checksum(folder / _pairs_file(number)) == before["bytes"]:
            return [(i, j, first, count) for i, j, first, count in before["pairs"]]
    return None


def _write_pairs(pairs: NDArray[np.int64], bounds: Sequence[int], number: int, folder: Path) -> list[Bucket]:
    """Write pairs of nodes to a file, sorted by the parts of both endpoints, each pair once."""
    starts, n = np.asarray(bounds), max(bounds[-1], 1)
    low, high = divmod(np.unique(pairs.min(axis=0) * n + pairs.max(axis=0)), n)
    first, second = (np.searchsorted(starts, ends, side="right") - 1 for ends in (low, high))
    local = np.stack([low - starts[first], high - starts[second]], axis=1).astype(np.int32)
    bucket = first * (len(starts) - 1) + second
    write_array(folder / _pairs_file(number), local[np.argsort(bucket, kind="stable")])
    which, counts = np.unique(bucket, return_counts=True)
    begins = np.cumsum(counts) - counts
    i, j = divmod(which, len(starts) - 1)
    return list(zip(*(column.tolist() for column in (i, j, begins, counts)), strict=True))


def _pairs_file(number: int) -> str:
    return f"pairs-{number}.bin"


def _note_file(number: int, folder: Path) -> Path:
    return folder / f"pairs-{number}.json"


def _by_parts(written: list[list[Bucket]]) -> dict[tuple[int, int], list[Segment]]:
    found: dict[tuple[int, int], list[Segment]] = {}
    for file, buckets in enumerate(written):
        for i, j, first, count in buckets:
            found.setdefault((i, j), []).append((_pairs_file(file), first, count))
    return found
