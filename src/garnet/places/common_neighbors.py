"""Shared neighbours of the edges of a tile, counted one block of neighbours at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from garnet.places.tiles import Tile, TiledGraph

_CHUNK = 1 << 16  # neighbours looked up at once: few enough to stay in a processor's cache
_ROWS = 1 << 10  # rows in which neighbours are looked up at once
_BITS = 12  # of a column, which say where in the marks of its row it is

Ends = tuple[NDArray[np.int32], NDArray[np.int32]]
"""The ends of some edges, counted from the first node of part i and of part j."""


def shared_neighbors(graph: TiledGraph, i: int, j: int, edges: Ends) -> NDArray[np.float32]:
    """What `garnet.linalg.common_neighbors.shared_neighbors` gives for edges of one tile.

    Two strips of tiles are read side by side. In each block of neighbours those of the end with fewer there are looked
    up among those of the other, so the time is at most that of the sum of the smaller degrees.

    Args:
        graph: the graph; weights do not count.
        i: part of the first ends.
        j: part of the second ends.
        edges: (m,) first and (m,) second ends of edges of the graph, sorted by the first.

    Returns:
        (m,) shares from 0 to 1.
    """
    first, second = edges
    # Rows that are looked up in one after the other stay in the cache.
    order = np.argsort(second, kind="stable").astype(np.int32)
    by_second = first[order], second[order]
    common = np.zeros(len(first), np.int32)
    for k in range(graph.parts):
        left = graph.tile(i, k)
        right = left if i == j else graph.tile(j, k)
        width = graph.bounds[k + 1] - graph.bounds[k]
        fewer = _counts(left, by_second[0]) <= _counts(right, by_second[1])
        common[order[fewer]] += _looked_up(left, by_second[0][fewer], right, by_second[1][fewer], width)
        fewer = _counts(right, second) < _counts(left, first)
        common[fewer] += _looked_up(right, second[fewer], left, first[fewer], width)
    fewest = np.minimum(graph.counts(i)[first], graph.counts(j)[second])
    shares: NDArray[np.float32] = common.astype(np.float32) / np.maximum(fewest - 1, 1).astype(np.float32)
    return shares


def _counts(tile: Tile, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.diff(tile.starts)[rows]


def _looked_up(
    few: Tile, rows: NDArray[np.int32], many: Tile, others: NDArray[np.int32], width: int
) -> NDArray[np.int32]:
    """How many columns of a row of one tile are also in a row of another, for pairs of rows sorted by the second.

    Most are in no place that any column of the other row has marked, by its last bits; only those that are need a
    search.
    """
    counts = _counts(few, rows)
    ends = counts.cumsum(dtype=np.int64)
    marks = np.zeros(_ROWS << _BITS, bool)
    common = np.zeros(len(rows), np.int32)
    low = done = 0
    while low < len(rows):
        least = int(others[low])
        ways = np.searchsorted(ends, done + _CHUNK, side="right"), np.searchsorted(others, least + _ROWS)
        high = max(int(min(ways)), low + 1)
        some = slice(low, high)
        held, columns = _entries(many, least, int(others[high - 1]) + 1)
        marked = _mark(held, columns)
        marks[marked] = True
        pair = np.repeat(np.arange(high - low), counts[some])
        begins = few.starts[rows[some]] - (ends[some] - counts[some] - done)
        sought = few.columns[np.arange(len(pair)) + begins[pair]]
        line = (others[some] - least).astype(np.int64)[pair]
        likely = np.flatnonzero(marks[_mark(line, sought)])
        marks[marked] = False
        there = _among(held * width + columns, line[likely] * width + sought[likely])
        common[some] = np.bincount(pair[likely[there]], minlength=high - low)
        low, done = high, int(ends[high - 1])
    return common


def _entries(tile: Tile, begin: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Row, counted from the first, and column of each entry of some rows."""
    starts = tile.starts[begin : end + 1]
    return np.repeat(np.arange(end - begin), np.diff(starts)), tile.columns[starts[0] : starts[-1]]


def _mark(line: NDArray[np.int64], columns: NDArray[np.int32]) -> NDArray[np.int64]:
    """The place of an entry among the marks."""
    place = line << _BITS
    place |= columns & ((1 << _BITS) - 1)
    return place


def _among(keys: NDArray[np.int64], sought: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of some numbers are among others, which are sorted."""
    if not len(keys):
        return np.zeros(len(sought), bool)
    there: NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, sought), len(keys) - 1)] == sought
    return there
