"""Scoring the edges of one tile: those of the base graph and those of the input, once each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GarnetError, ParameterError
from garnet.parameters import GammaUnit
from garnet.places.common_neighbors import Ends, shared_neighbors
from garnet.places.row_store import Place, read
from garnet.places.score_file import GIVEN, NEAR, write_columns
from garnet.places.tiles import TiledGraph

_CHUNK = 1 << 19  # numbers gathered at once: few enough to stay in a processor's cache
_PAIRS = 1 << 18  # pairs read at once
_AGAIN = "remove its folder, and the work begins again."


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """Which edges stay, and with what weight; see `garnet.GARNET` for the words.

    Attributes:
        gamma: base edges that score below it are pruned.
        gamma_unit: `quantile` of the base edges' scores, or `absolute`.
        support: share of the input's edges that is doubted; None if no edge stays for having been there.
        overlap: what sharing all neighbours counts in support.
        score: `distance` or `signed`.
        weight: `similarity`, `score`, `one`, or `given`, the weight that the input has, where there is no base graph.
        signs: (d,) of the eigenvalue of each coordinate, and one for features; only for `signed`.
    """

    gamma: float
    gamma_unit: GammaUnit
    support: float | None
    overlap: float
    score: Literal["distance", "signed"]
    weight: Literal["similarity", "score", "one", "given"]
    signs: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.score == "signed") != (self.signs is not None):
            raise ParameterError(f"The score 'signed', and no other, needs 'signs'. Got score {self.score!r} instead.")


@dataclass(frozen=True, kw_only=True, eq=False)
class TileTask:
    """What it takes to score a tile.

    Attributes:
        graph: the input.
        i: part of the rows.
        j: part of the columns, not before i.
        points: the files of the points of part i and of part j.
        width: of the points.
        base: files of pairs of near neighbours in this tile.
        rule: what is asked of the edges.
        target: the file to be written.
    """

    graph: TiledGraph
    i: int
    j: int
    points: tuple[Place, Place]
    width: int
    base: Sequence[Path]
    rule: Rule
    target: Path


def score_tile(task: TileTask) -> None:
    """Write all edges of a tile, the smaller node first, sorted, with the columns of `garnet.places.score_file`."""
    ends, flags = _edges(task)
    score, inner, weight = _measured(task, ends)
    support = np.full(len(flags), np.nan, np.float32)
    if task.rule.support is not None:
        given = np.flatnonzero(flags & GIVEN).astype(np.int32)
        support[given] = 2 * inner[given]
        del inner
        if task.rule.overlap:
            edges = ends[0][given], ends[1][given]
            support[given] += task.rule.overlap * shared_neighbors(task.graph, task.i, task.j, edges)
    if task.rule.weight == "given":
        weight = _given_weights(task)
    columns = {"score": score, "support": support, "weight": weight}
    write_columns(task.target, {"first": ends[0], "second": ends[1], "flags": flags, **columns})


def _edges(task: TileTask) -> tuple[Ends, NDArray[np.uint8]]:
    """Each edge of the base graph or the input once, sorted, and of which of the two it is."""
    width = _length(task, task.j)
    entries = _entries(task)
    # The last bit says that a pair is the input's: one sort brings together what is the same.
    pairs = np.empty(sum(_size(file) for file in task.base) // 8 + len(entries), np.int64)
    end = 0
    for piece in _base_pairs(task):
        np.multiply(piece[:, 0], width, out=pairs[end : end + len(piece)], dtype=np.int64)
        pairs[end : end + len(piece)] += piece[:, 1]
        end += len(piece)
    pairs[end:] = entries
    del entries
    pairs <<= 1
    pairs[end:] |= 1
    pairs.sort()
    change = np.ones(len(pairs) + 1, bool)
    for begin in range(1, len(pairs), _PAIRS):
        some = pairs[begin - 1 : begin + _PAIRS] >> 1
        change[begin : begin + len(some) - 1] = some[1:] != some[:-1]
    # Of equal pairs the first is the base graph's if any is, and the last the input's.
    near, given = (pairs[change[:-1]] & 1 == 0), (pairs[change[1:]] & 1 == 1)
    pairs = pairs[change[:-1]]
    pairs >>= 1
    first = np.empty(len(pairs), np.int32)
    np.floor_divide(pairs, width, out=first, casting="unsafe")
    np.remainder(pairs, width, out=pairs)
    return (first, pairs.astype(np.int32)), near * np.uint8(NEAR) | given * np.uint8(GIVEN)


def _entries(task: TileTask) -> NDArray[np.int64]:
    """The input's edges in this tile, first end times width of the tile plus second."""
    tile = task.graph.tile(task.i, task.j)
    rows = np.repeat(np.arange(_length(task, task.i), dtype=np.int32), np.diff(tile.starts))
    upper = rows < tile.columns if task.i == task.j else slice(None)
    entries = rows[upper].astype(np.int64)
    entries *= _length(task, task.j)
    entries += tile.columns[upper]
    return entries


def _given_weights(task: TileTask) -> NDArray[np.float32]:
    """The weights of the input's edges in this tile."""
    tile = task.graph.tile(task.i, task.j)
    weights = np.ones(len(tile.columns), np.float32) if tile.weights is None else tile.weights
    if task.i != task.j:
        return weights
    return weights[np.repeat(np.arange(_length(task, task.i), dtype=np.int32), np.diff(tile.starts)) < tile.columns]


def _base_pairs(task: TileTask) -> Iterator[NDArray[np.int32]]:
    """Pairs of near neighbours, some at a time, the smaller node first."""
    lengths = np.array([_length(task, task.i), _length(task, task.j)])
    for file in task.base:
        with file.open("rb") as stream:
            while len(numbers := np.fromfile(stream, np.int32, 2 * _PAIRS)):
                piece = numbers.reshape(-1, 2)
                if (piece < 0).any() or (piece >= lengths).any():
                    raise GarnetError(f"Cannot read {file}: it has nodes outside its part; {_AGAIN}")
                yield np.sort(piece, axis=1) if task.i == task.j else piece


def _measured(task: TileTask, ends: Ends) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """The score of each edge, the inner product of its points, and its weight; infinite where nothing is known."""
    rule = task.rule
    left = _points(task, 0)
    right = left if task.i == task.j else _points(task, 1)
    lengths = _row_lengths(left), _row_lengths(right)
    score, inner, weight = (torch.ones(len(ends[0])) for _ in range(3))
    at_once = max(1, _CHUNK // task.width)
    # The same room for every chunk: what is taken and given back many times can leave the heap full of holes.
    room = torch.empty(3, at_once, task.width)
    for begin in range(0, len(score), at_once):
        some = slice(begin, begin + at_once)
        u, v = (torch.from_numpy(part[some]) for part in ends)
        a, b, product = room[:, : len(u)]
        torch.index_select(left, 0, u, out=a)
        torch.index_select(right, 0, v, out=b)
        sizes = lengths[0][u], lengths[1][v]
        unknown = (sizes[0] == 0) | (sizes[1] == 0)
        if rule.support is not None or rule.weight == "similarity":
            inner[some] = torch.mul(a, b, out=product).sum(dim=1)
        if rule.weight == "similarity":
            weight[some] = (inner[some] / sizes[0] / sizes[1]).masked_fill_(unknown, 1.0)
        inner[some].masked_fill_(unknown, math.inf)
        if rule.signs is not None:
            score[some] = b.mul_(rule.signs).mul_(a).sum(dim=1)
        else:
            score[some] = a.sub_(b).square_().sum(dim=1).neg_()
        score[some].masked_fill_(unknown, math.inf)
    if rule.weight == "score":
        weight = torch.where(score.isinf(), 1.0, score)
    return score.numpy(), inner.numpy(), weight.numpy()


def _row_lengths(points: Tensor) -> Tensor:
    """In float64, where no square of a float32 vanishes; zero for a point of which nothing is known."""
    lengths = torch.empty(len(points), dtype=torch.float64)
    rows = max(1, _CHUNK // points.shape[1])
    for some, target in zip(torch.split(points, rows), torch.split(lengths, rows), strict=True):
        torch.linalg.vector_norm(some, dim=1, dtype=torch.float64, out=target)
    return lengths


def _points(task: TileTask, side: int) -> Tensor:
    file, part = task.points[side], (task.i, task.j)[side]
    rows = read(file, task.width)
    if len(rows) != _length(task, part):
        raise GarnetError(f"Cannot read {file}: it has {len(rows)} rows, not {_length(task, part)}; {_AGAIN}")
    return rows


def _length(task: TileTask, part: int) -> int:
    return task.graph.bounds[part + 1] - task.graph.bounds[part]


def _size(file: Path) -> int:
    """Bytes of a file of pairs, which is there and has no half of one."""
    size = file.stat().st_size if file.is_file() else None
    if size is None or size % 8:
        fault = "is missing" if size is None else "is truncated"
        raise GarnetError(f"Cannot read {file}: it {fault}; {_AGAIN}")
    return size
