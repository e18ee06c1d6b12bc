"""What is kept while a graph is cut into tiles: its pairs, in files, and how many of them each node has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.io.checks import Pairs
from garnet.io.failures import writing
from garnet.io.removal import remove


class Spool:
    """Files in a folder of their own, in a run's directory: all pairs as they came, and what is appended by name."""

    def __init__(self, folder: Path, chunk: int) -> None:
        self.folder = folder
        self.chunk = chunk
        self.weighted = False
        self._lengths: list[tuple[int, bool]] = []
        self.remove()
        folder.mkdir()

    def add(self, heads: NDArray[Any], tails: NDArray[Any], weights: NDArray[np.float32] | None) -> None:
        """Keep some pairs, whose ends are any integers."""
        weighted = weights is not None and bool((weights != 1).any())
        self.weighted |= weighted
        self._lengths.append((len(heads), weighted))
        ends = (column.astype(np.int64, copy=False) for column in (heads, tails))
        self.append("pairs", *ends, *([weights] if weighted else []))

    def chunks(self) -> Iterator[Pairs]:
        """The pairs as they were added; their file is removed after the last."""
        place = 0
        for length, weighted in self._lengths:
            path = self.folder / "pairs"
            heads, tails = np.fromfile(path, np.int64, 2 * length, offset=place).reshape(2, length)
            place += 16 * length
            weights = np.fromfile(path, np.float32, length, offset=place) if weighted else None
            place += 4 * length * weighted
            yield heads, tails, weights
        remove(self.folder / "pairs")

    def append(self, name: str, *arrays: NDArray[Any] | None) -> None:
        """Add arrays to the end of a file."""
        with writing(self.folder), (self.folder / name).open("ab") as stream:
            for array in arrays:
                stream.write(np.ascontiguousarray(array).data)

    def take(self, name: str, kind: type[Any]) -> NDArray[Any]:
        """All that was appended to a file, which is then removed."""
        path = self.folder / name
        numbers = np.fromfile(path, kind) if path.exists() else np.zeros(0, kind)
        remove(path)
        return numbers

    def remove(self) -> None:
        """Remove the folder with all in it."""
        with writing(self.folder):
            remove(self.folder)


class Counter:
    """How many pairs each node is an end of; where nodes are known by name only, which names there are, too."""

    def __init__(self, num_nodes: int | None) -> None:
        self._named = num_nodes is None
        self._names = np.zeros(0, np.int64)
        self._counts = np.zeros(num_nodes or 0, np.int64)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    @property
    def num_nodes(self) -> int:
        """Nodes that are known so far; of those known by name, some that came last may be missing."""
        return len(self._counts)

    def add(self, heads: NDArray[Any], tails: NDArray[Any], proper: NDArray[np.bool_]) -> None:
        """Count the ends of the pairs that are `proper`; the others are only known from then on."""
        if not self._named:
            np.add.at(self._counts, heads[proper], 1)
            np.add.at(self._counts, tails[proper], 1)
            return
        names, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
        counts = np.bincount(places[np.concatenate([proper, proper])], minlength=len(names))
        self._waiting.append((names, counts))
        # Merging only when as much is waiting as there is makes the cost of all merges that of sorting once or twice.
        if sum(len(names) for names, _ in self._waiting) > len(self._names):
            self._merge()

    def result(self) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """The sorted names, None where nodes came as numbers; and the counts."""
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
