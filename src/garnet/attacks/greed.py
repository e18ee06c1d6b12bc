"""The best flip of all pairs, one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.degrees import DegreeTest
from garnet.attacks.pair_scores import Wiring


class Scores(Protocol):
    """What every pair of nodes is worth."""

    def scores(self, wiring: Wiring) -> Iterator[tuple[int, Tensor]]:
        """Blocks of rows: the first row of each, and its entries from the column of that number on."""
        ...


class Greed:
    """A graph that is changed flip by flip.

    Attributes:
        wiring: the graph as it is now.
        flipped: what was flipped, in this order.
    """

    def __init__(self, wiring: Wiring, *, unnoticeable: bool) -> None:
        self.wiring = wiring
        self.flipped: list[tuple[int, int]] = []
        self._tested = DegreeTest.of(wiring.counts) if unnoticeable else None

    def flip(self, one: int, other: int) -> None:
        """Flip a pair for good."""
        before = self.wiring.counts
        self.wiring.flip(one, other)
        if self._tested is not None:
            change = int(self.wiring.counts[one] - before[one])
            self._tested = self._tested.flipped(int(before[one]), int(before[other]), change)
        self.flipped.append((one, other))

    def best(self, gain: Scores) -> tuple[int, int] | None:
        """The allowed pair whose flip gains most; None if there is none.

        No pair is flipped twice, and no node loses its last edge.
        """
        rows, columns, weights = self.wiring.entries
        upper = rows < columns
        edges, weights = np.stack([rows[upper], columns[upper]], axis=1), weights[upper]
        last = (self.wiring.counts[edges] == 1).any(axis=1)
        banned = np.concatenate([edges[last], np.array(self.flipped, dtype=np.int64).reshape(-1, 2)])
        found, most = None, -math.inf
        for first, block in gain.scores(self.wiring):
            inside = (edges[:, 0] >= first) & (edges[:, 0] < first + len(block))
            block[_places(edges[inside], first, block)] *= -torch.from_numpy(weights[inside]).to(block)
            inside = (banned[:, 0] >= first) & (banned[:, 0] < first + len(block))
            block[_places(banned[inside], first, block)] = -math.inf
            numbers = torch.arange(len(block), device=block.device)
            block[:, : len(block)].masked_fill_(numbers <= numbers[:, None], -math.inf)
            place = self._largest(block, first)
            if place is not None and (value := float(block[place])) > most:
                found, most = (first + place[0], first + place[1]), value
        return found

    def _largest(self, block: Tensor, first: int) -> tuple[int, int] | None:
        """Row and column of the largest entry that is allowed."""
        row, column = divmod(int(block.argmax()), block.shape[1])
        if float(block[row, column]) == -math.inf:
            return None
        if self._tested is None:
            return row, column
        counts, change = self.wiring.counts, -1 if self.wiring.joined(first + row, first + column) else 1
        if self._tested.allowed(counts[first + row], counts[first + column], change):
            return row, column
        # Only now are all pairs tested, by a table of their degrees.
        self._ban_noticeable(block, first, self._tested)
        row, column = divmod(int(block.argmax()), block.shape[1])
        return None if float(block[row, column]) == -math.inf else (row, column)

    def _ban_noticeable(self, block: Tensor, first: int, tested: DegreeTest) -> None:
        known, kind = np.unique(self.wiring.counts, return_inverse=True)
        here, there = (torch.from_numpy(kind[first:end]).to(block.device) for end in (first + len(block), None))
        adding, dropping = (
            torch.from_numpy(tested.allowed(known[:, None], known, change)).to(block.device) for change in (1, -1)
        )
        rows, columns, _ = self.wiring.entries
        inside = (rows >= first) & (rows < first + len(block)) & (columns >= first)
        joined = _places(np.stack([rows[inside], columns[inside]], axis=1), first, block)
        kept = torch.where(dropping[here[joined[0]], there[joined[1]]], block[joined], -math.inf)
        block.masked_fill_(~adding[here][:, there], -math.inf)
        block[joined] = kept


def _places(pairs: NDArray[np.int64], first: int, block: Tensor) -> tuple[Tensor, Tensor]:
    """Where pairs of nodes stand in a block."""
    rows, columns = torch.from_numpy(pairs - first).to(block.device).T
    return rows, columns
