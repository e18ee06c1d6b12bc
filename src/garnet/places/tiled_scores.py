"""The scored edges of a graph on disk: one file per tile, with everything that decides which of its edges stay.

Beside 50 MB, a task holds at most one of

* the points of two parts, twice, and 60 bytes for each edge of its tile, of the base graph as often as it is given;
* 40 bytes for each edge of its tile, 65 more if it is the input's, and 4 for each entry of the input in one tile of
  each of two parts, while common neighbours are counted and points are no longer held;
* 50 bytes for each entry of a strip of the purified graph, and 30 for each edge of a tile; of a table of edges, the
  tile alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GarnetError
from garnet.linalg.common_neighbors import NeighborLists, count_common, share_of_most
from garnet.places.column_file import is_unchanged, read_columns, write_columns
from garnet.places.held_matrix import HeldMatrix, held
from garnet.places.row_files import RowFile, read
from garnet.places.tile_writer import write_strip
from garnet.places.tiles import TiledGraph
from garnet.purify.quantile import digit_counts
from garnet.purify.result import AnyLedger, LedgerBatch
from garnet.purify.scores import Choice, Critical, Measured, Tally, TileEdges, measure, merged
from garnet.purify.settings import Settings
from garnet.purify.suspicion import Suspicion, looks

_COLUMNS: dict[str, type[Any]] = {
    "first": np.int32,
    "second": np.int32,
    "near": np.bool_,
    "given": np.bool_,
    "score": np.float32,
    "support": np.float32,
    "weight": np.float32,
}
_AGAIN = "remove its folder, and the work begins again."


@dataclass(frozen=True, kw_only=True, eq=False)
class TileTask:
    """What is needed to score a tile.

    Attributes:
        given: the input.
        graph: the graph to read: the same, or with planted edges.
        i: part of the rows.
        j: part of the columns, not before i.
        points: where the points of part i and of part j are.
        width: of the points.
        base: where this tile's pairs of near neighbours are: a file, the first of them in it, and how many there are.
        settings: of the purification.
        critical: the function that scores the edges.
        rank: number of spectral coordinates of the points.
        suspicion: what made-up edges look like, where edges were planted.
        target: the file to be written.
    """

    given: TiledGraph
    graph: TiledGraph
    i: int
    j: int
    points: tuple[RowFile, RowFile]
    width: int
    base: Sequence[tuple[Path, int, int]]
    settings: Settings
    critical: Critical
    rank: int
    suspicion: Suspicion | None
    target: Path


def score_tile(task: TileTask) -> None:
    """Write all edges of a tile, sorted, with what speaks for and against them."""
    settings, (rows, columns, weights) = task.settings, _entries(task)
    base = torch.from_numpy(np.concatenate([np.zeros((2, 0), np.int32), *_pairs(task)], axis=1))
    edges = merged(base.long(), torch.from_numpy(np.stack([rows, columns])), _length(task, task.j))
    del base, rows, columns
    if settings.only_drop:
        edges = edges.of_input()
    left = points_of(task.graph, task.i, task.points[0], task.width)
    right = left if task.i == task.j else points_of(task.graph, task.j, task.points[1], task.width)
    measured, ends = measure(edges, left, right, settings, task.critical), edges.ends[:, edges.given]
    if task.suspicion is not None:
        seen = tile_looks(task.graph, task.i, task.j, ends, (left, right), task.rank)
        unknown = measured.score[edges.given].isinf()
        measured.support[edges.given] = (-task.suspicion.log_odds(seen)).float().masked_fill(unknown, math.inf)
    elif settings.support is not None and settings.overlap:
        del left, right
        measured.support[edges.given] += settings.overlap * tile_shared_neighbors(task.graph, task.i, task.j, ends)
    if settings.weight in ("given", "trust"):
        measured.weight[edges.given] = torch.from_numpy(weights)
    write_tile(task.target, edges, measured)


def tile_looks(graph: TiledGraph, i: int, j: int, ends: Tensor, points: tuple[Tensor, Tensor], rank: int) -> Tensor:
    """What is observed about some edges of a tile, (4, m); see `garnet.purify.suspicion.looks`.

    Args:
        graph: the graph to read, with planted edges.
        i: part of the rows.
        j: part of the columns.
        ends: (2, m) counted from the first nodes of their parts.
        points: of both parts.
        rank: how many of their coordinates are spectral.
    """
    counts = torch.from_numpy(graph.counts(i)), torch.from_numpy(graph.counts(j))
    mean = 2 * graph.num_edges / graph.num_nodes
    return looks(ends, points, counts, tile_shared_neighbors(graph, i, j, ends), rank, mean)


def tile_shared_neighbors(graph: TiledGraph, i: int, j: int, edges: Tensor) -> Tensor:
    """The result of `garnet.linalg.common_neighbors.shared_neighbors`."""
    # Tiles come row by row: one of the two strips is the previous tile's.
    left, right = (_neighbors(held(graph, part, most=2)) for part in (i, j))
    common = count_common(left, edges[0], right, edges[1])
    counts = left.starts.diff()[edges[0]], right.starts.diff()[edges[1]]
    return share_of_most(common, torch.minimum(*counts) - 1)


def _neighbors(strip: HeldMatrix) -> NeighborLists:
    return NeighborLists(strip.starts, strip.columns)


def _entries(task: TileTask) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Both endpoints and the weights of the input's edges in this tile."""
    tile = task.given.tile(task.i, task.j)
    rows = np.repeat(np.arange(_length(task, task.i)), np.diff(tile.starts))
    weights = np.ones(len(rows), np.float32) if tile.weights is None else tile.weights
    upper = rows < tile.columns if task.i == task.j else slice(None)
    return rows[upper], tile.columns[upper].astype(np.int64), weights[upper]


def _pairs(task: TileTask) -> Iterator[NDArray[np.int32]]:
    """Pairs of near neighbours, (2, b) each, the smaller node first."""
    lengths = np.array([_length(task, task.i), _length(task, task.j)])
    for file, first, count in task.base:
        size = file.stat().st_size if file.is_file() else None
        if size is None or size < 8 * (first + count):
            raise GarnetError(f"Cannot read {file}: it {'is missing' if size is None else 'is truncated'}; {_AGAIN}")
        pairs = np.fromfile(file, np.int32, 2 * count, offset=8 * first).reshape(-1, 2)
        if (pairs < 0).any() or (pairs >= lengths).any():
            raise GarnetError(f"Cannot read {file}: it has nodes outside its part; {_AGAIN}")
        yield (np.sort(pairs, axis=1) if task.i == task.j else pairs).T


def points_of(graph: TiledGraph, part: int, file: RowFile, width: int) -> Tensor:
    """The points of the nodes of a part.

    Raises:
        GarnetError: there are not as many points as the part has nodes.
    """
    rows, wanted = read(file, width), graph.bounds[part + 1] - graph.bounds[part]
    if len(rows) != wanted:
        raise GarnetError(f"Cannot read {file}: it has {len(rows)} rows, not {wanted}; {_AGAIN}")
    return rows


def _length(task: TileTask, part: int) -> int:
    return task.graph.bounds[part + 1] - task.graph.bounds[part]


def write_tile(file: Path, edges: TileEdges, measured: Measured) -> None:
    """Write the scored edges of a tile, whole or not at all."""
    write_columns(file, _COLUMNS, (*edges.ends, edges.near, edges.given, *measured))


def read_tile(file: Path) -> tuple[TileEdges, Measured]:
    """The scored edges of a tile."""
    first, second, near, given, *measured = _columns(file, *_COLUMNS)
    return TileEdges(torch.stack([first, second]), near, given), Measured(*measured)


def is_scored(file: Path) -> bool:
    """Whether the file of a tile exists with all the bytes that were written."""
    return is_unchanged(file, _COLUMNS)


def _columns(file: Path, *names: str) -> list[Tensor]:
    return [torch.from_numpy(column) for column in read_columns(file, _COLUMNS, names)]


def count_digits(files: Sequence[Path], column: str, place: int, beginnings: Sequence[int]) -> Tensor:
    """See `garnet.purify.quantile.digit_counts`; of the scores of base edges, or the support of the input's."""
    counts = digit_counts(torch.zeros(0), place, beginnings)
    for file in files:
        chosen, numbers = _columns(file, "near" if column == "score" else "given", column)
        counts += digit_counts(numbers[chosen], place, beginnings)
    return counts


def tally_files(files: Sequence[Path], choice: Choice) -> Tally:
    """The counts that a choice gives in some tiles."""
    return Tally.sum(Tally.of(choice, *read_tile(file)) for file in files)


def kept_of(file: Path, choice: Choice) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """The endpoints, counted from the first nodes of their parts, and the weights of the edges of a tile that stay."""
    edges, measured = read_tile(file)
    stays = choice.stays(edges.near, measured)
    first, second = edges.ends[:, stays].numpy()
    return first, second, measured.weight[stays].clamp_min(choice.floor).numpy()


def gather_strip(i: int, bounds: Sequence[int], files: Sequence[Path], choice: Choice, output: Path) -> None:
    """Gather the edges that stay, in both directions, into the rows of part i of the purified graph."""
    n, pieces, weights = bounds[-1], [], []
    for j, file in enumerate(files):
        first, second, weight = kept_of(file, choice)
        if j >= i:
            pieces.append(first.astype(np.int64) * n + (second + np.int64(bounds[j])))
            weights.append(weight)
        if j <= i:
            pieces.append(second.astype(np.int64) * n + (first + np.int64(bounds[j])))
            weights.append(weight)
    entries, values = np.concatenate(pieces), np.concatenate(weights)
    pieces.clear()
    weights.clear()
    order = np.argsort(entries)
    values, entries = values[order], entries[order]
    del order
    starts = np.searchsorted(entries, np.arange(bounds[i + 1] - bounds[i] + 1) * n)
    columns = np.remainder(entries, max(n, 1), out=entries).astype(np.int32)
    del entries
    write_strip(output, i, bounds, starts, columns, values)


@dataclass(frozen=True, eq=False)
class TiledLedger(AnyLedger):
    """A ledger on disk, read tile by tile.

    Attributes:
        files: of the scored edges of each pair of parts; empty if they were not kept.
        bounds: of the parts.
        choice: which edges stayed.
        tally: the resulting counts.
        num_nodes: number of nodes.
        names: of the nodes; not held on disk.
    """

    files: dict[tuple[int, int], Path]
    bounds: tuple[int, ...]
    choice: Choice
    tally: Tally
    num_nodes: int
    names: NDArray[Any] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """See `AnyLedger`."""
        return {"kept": self.tally.kept, "dropped": self.tally.dropped, "added": self.tally.added}

    @property
    def base_edges(self) -> int:
        """See `AnyLedger`."""
        return self.tally.base_edges

    def batches(self, size: int = 1 << 20) -> Iterator[LedgerBatch]:
        """See `AnyLedger`.

        Raises:
            GarnetError: the purification did not keep it.
        """
        if not self.files:
            raise GarnetError("What became of single edges was not kept; purify with OnDisk(..., ledger=True).")
        for (i, j), file in self.files.items():
            edges, measured = read_tile(file)
            stays = self.choice.stays(edges.near, measured)
            ends = edges.ends.long() + torch.tensor([[self.bounds[i]], [self.bounds[j]]])
            columns = ends, measured.score, edges.given, stays, edges.near
            for begin in range(0, len(stays), size):
                yield LedgerBatch(*(column[..., begin : begin + size].numpy() for column in columns))
