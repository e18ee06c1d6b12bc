"""Data kept while a graph is cut into tiles: its pairs, in files, and how many each node has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.io.failures import writing
from garnet.io.removal import remove
from garnet.places.strips import Piece


class Spool:
    """A file of all pairs as they came, in its own folder in a run's directory."""

    def __init__(self, folder: Path, chunk: int) -> None:
        self.folder = folder
        self.chunk = chunk
        self.weighted = False
        self.pieces: list[Piece] = []
        self.remove()
        folder.mkdir()

    def add(self, heads: NDArray[Any], tails: NDArray[Any], weights: NDArray[np.float32] | None) -> None:
        """Keep some pairs, whose endpoints are any integers."""
        weighted = weights is not None and bool((weights != 1).any())
        self.weighted |= weighted
        place = self.pieces[-1].place + self.pieces[-1].nbytes if self.pieces else 0
        self.pieces.append(Piece(self.folder / "pairs", place, len(heads), weighted))
        ends = (column.astype(np.int64, copy=False) for column in (heads, tails))
        with writing(self.folder), self.pieces[-1].file.open("ab") as stream:
            for array in (*ends, *([weights] if weighted else [])):
                stream.write(np.ascontiguousarray(array).data)

    def drop(self) -> None:
        """Remove the pairs, which are no longer needed."""
        with writing(self.folder):
            remove(self.folder / "pairs")

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        with writing(self.folder):
            remove(self.folder)


class Counter:
    """Counts the pairs of each node; if nodes are known by name only, also collects the names."""

    def __init__(self, num_nodes: int | None) -> None:
        self._named = num_nodes is None
        self._names = np.zeros(0, np.int64)
        self._counts = np.zeros(num_nodes or 0, np.int64)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    @property
    def num_nodes(self) -> int:
        """Number of nodes so far; of those known by name, the latest may be missing."""
        return len(self._counts)

    def add(self, heads: NDArray[Any], tails: NDArray[Any], proper: NDArray[np.bool_]) -> None:
        """Count the endpoints of the `proper` pairs; those of the others only become known."""
        if not self._named:
            np.add.at(self._counts, heads[proper], 1)
            np.add.at(self._counts, tails[proper], 1)
            return
        names, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
        counts = np.bincount(places[np.concatenate([proper, proper])], minlength=len(names))
        self._waiting.append((names, counts))
        # Merging only when as much is waiting as is merged makes all merges cost no more than one or two sorts.
        if sum(len(names) for names, _ in self._waiting) > len(self._names):
            self._merge()

    def result(self) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """The sorted names, or None if nodes came as numbers; and the counts."""
        if not self._named:
            return None, self._counts
        self._merge()
        return self._names, self._counts

    def _merge(self) -> None:
        names = [self._names, *(names for names, _ in self._waiting)]
        counts = [self._counts, *(counts for _, counts in self._waiting)]
        self._waiting = []
        self._names, places = np.unique(np.concatenate(names), return_inverse=True)
        self._counts = np.zeros(len(self._names), np.int64)
        np.add.at(self._counts, places, np.concatenate(counts))
