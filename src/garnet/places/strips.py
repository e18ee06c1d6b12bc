"""Turns pairs of nodes into strips of rows: pieces are sorted by strip, and then each strip separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.io.checks import Pairs, same_weights
from garnet.places.row_files import truncated, write_array
from garnet.places.tile_writer import write_strip


@dataclass(frozen=True)
class Piece:
    """Pairs in a file, their heads before their tails, and then perhaps their weights.

    Attributes:
        file: where they are.
        place: position of the first byte.
        length: number of pairs.
        weighted: whether they have weights.
    """

    file: Path
    place: int
    length: int
    weighted: bool

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return (20 if self.weighted else 16) * self.length

    def read(self) -> Pairs:
        """The pairs; weights are None where all are one."""
        ends = _taken(self.file, np.int64, 2 * self.length, self.place).reshape(2, -1)
        weights = None
        if self.weighted:
            weights = _taken(self.file, np.float32, self.length, self.place + 16 * self.length)
        return ends[0], ends[1], weights


@dataclass(frozen=True)
class Records:
    """The part of a strip in a file of records: both directions of pairs, sorted by the strip of their rows.

    Attributes:
        file: where they are: all records, followed by all their weights, if the graph has any.
        total: records of the file.
        first: the strip's first record.
        count: the strip's number of records.
    """

    file: Path
    total: int
    first: int
    count: int

    def read(self, *, weighted: bool) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
        """The records, and their weights."""
        records = _taken(self.file, np.int64, self.count, 8 * self.first)
        if not weighted:
            return records, None
        return records, _taken(self.file, np.float32, self.count, 8 * self.total + 4 * self.first)


def distribute(
    piece: Piece, names: NDArray[Any] | None, bounds: Sequence[int], weighted: bool, target: Path
) -> NDArray[np.int64]:
    """Write both directions of each pair, sorted by the strip of their rows; a record is row, column, if reversed.

    Args:
        piece: the pairs.
        names: the sorted names of the nodes; None if pairs are given by node number.
        bounds: of the strips.
        weighted: whether any pair of the graph has a weight.
        target: the file.

    Returns:
        The number of records in each strip.
    """
    heads, tails, weights = piece.read()
    if names is not None:
        heads, tails = np.searchsorted(names, heads), np.searchsorted(names, tails)
    bits = _column_bits(bounds)
    rows = np.concatenate([heads, tails])
    strips = np.searchsorted(bounds[1:-1], rows, side="right").astype(np.min_scalar_type(len(bounds)))
    records = (rows - np.array(bounds)[strips]) << bits
    records |= np.concatenate([tails, heads])
    records <<= 1
    records[len(heads) :] |= 1
    order = np.argsort(strips, kind="stable")
    if not weighted:
        write_array(target, records[order])
    else:
        weights = np.ones(len(heads), np.float32) if weights is None else weights
        written = (records[order].view(np.uint8), np.concatenate([weights, weights])[order].view(np.uint8))
        write_array(target, np.concatenate(written))
    return np.bincount(strips, minlength=len(bounds) - 1)


def sort_strip(
    i: int, bounds: Sequence[int], pieces: Sequence[Records], weighted: bool, folder: Path
) -> tuple[int, int, bool]:
    """Write one strip; returns how many ordered pairs it had, how many without their reverse, and if weights differ.

    The weight of an edge is the largest given for it in either direction.
    """
    found = [piece.read(weighted=weighted) for piece in pieces]
    records = np.concatenate([np.zeros(0, np.int64), *(records for records, _ in found)])
    weights = np.concatenate([some for _, some in found if some is not None]) if weighted and found else None
    del found
    if weights is None:
        records.sort()
    else:
        order = np.argsort(records)
        records = records[order]
        weights = weights[order]
        del order
    reverse = (records & 1).astype(bool)
    records >>= 1
    first = np.append(True, records[1:] != records[:-1])[: len(records)]
    given, returned = ~reverse[first], reverse[np.append(first[1:], True)[: len(records)]]
    differ = False
    if weights is not None:
        groups = np.flatnonzero(first)
        there = np.maximum.reduceat(np.where(reverse, 0, weights), groups) if len(groups) else weights
        back = np.maximum.reduceat(np.where(reverse, weights, 0), groups) if len(groups) else weights
        both = given & returned
        differ = not same_weights(there[both], back[both])
        weights = np.maximum(there, back)
    del reverse
    records = records[first]
    bits = _column_bits(bounds)
    starts = np.searchsorted(records, np.arange(bounds[i + 1] - bounds[i] + 1) << bits)
    columns = (records & ((1 << bits) - 1)).astype(np.int32)
    del records, first
    write_strip(folder, i, bounds, starts, columns, weights)
    return int(given.sum()), int((given & ~returned).sum()), differ


def _column_bits(bounds: Sequence[int]) -> int:
    return max(1, (bounds[-1] - 1).bit_length())


def _taken(file: Path, kind: type[Any], count: int, place: int) -> NDArray[Any]:
    """Some numbers of a file."""
    numbers = np.fromfile(file, kind, count, offset=place)
    if len(numbers) < count:
        raise truncated(file)
    return numbers
