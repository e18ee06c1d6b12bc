"""How a graph is cut to keep the work on it within a memory limit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any

from garnet.errors import GarnetError
from garnet.neighbors.search import TRAINING
from garnet.parameters import Rule, is_number, require_arguments
from garnet.purify.settings import ENOUGH_NEIGHBORS, MOST_BY_GAP

# What Python, NumPy, SciPy and torch take before any graph is loaded.
BASELINE = 600 << 20
_LEAST, _MOST = 1 << 30, 1 << 60
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

# Copies of a part's rows, and bytes per edge being scored or sorted, that the most demanding task holds.
COPIES_OF_A_ROW = 5
BYTES_AN_EDGE = 150
# What a task holds of each column that it takes through a filter, and how many it takes at most that has all rows: the
# numbers of a row are then a line of the cache, and what is read of it is of use.
COPIES_OF_A_COLUMN, MOST_COLUMNS = 5, 16
# Most columns in a block of the solver, which this process holds twice if it does all the work.
BLOCK = 64
# The usable share of what is left beside them: malloc keeps the rest to itself.
_HELD = 0.8
# What a task takes, however little there is to do.
_LEAST_TASK = 128 << 20
# Copies of the sample and of the ranked cells held while training a quantizer, and bytes for the votes of a point.
_COPIES_OF_A_SAMPLE, _COPIES_OF_A_RANK = 3, 3
_BYTES_A_VOTE, _VOTES = 100, 4
# What is assumed before the graph is known.
_RANK = MOST_BY_GAP
_CLUSTER_MEMORY = 4 << 30


def _size(memory: Any) -> float:
    """A size in bytes; 0 if it is not one."""
    if is_number(memory):
        return memory  # type: ignore[no-any-return]
    found = re.fullmatch(r"\s*([0-9.]{1,99})\s*([kmgt]?i?)b?\s*", memory.lower()) if isinstance(memory, str) else None
    try:
        return float(found[1]) * _UNITS[found[2]] if found else 0
    except (ValueError, KeyError):
        return 0


def _memory(value: Any) -> str | None:
    # More than this machine has is no mistake, but more than any machine has is.
    return None if _LEAST <= _size(value) < _MOST else "a size of 1GiB or more, and below 2^60 bytes"


Memory = Annotated[str | int, Rule(_memory)]
"""A size such as 8GB, 512MiB or a number of bytes."""


def bytes_of(memory: str | int) -> int:
    """A size such as 8GB, 512MiB or a number of bytes.

    Raises:
        ParameterError: it is not a size, or is less than a GiB, which is too little to purify any graph.

    Example:
        >>> bytes_of("8GB"), bytes_of("1.5 GiB")
        (8000000000, 1610612736)
    """
    require_arguments("OnDisk", memory=(memory, Memory))
    return int(_size(memory))


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What determines how many parts the nodes are cut into.

    Attributes:
        memory: bytes that a process may hold.
        width: coordinates of a point.
        k: neighbours of each node.
        least: minimum number of parts, so that every worker has some.
        at_once: tasks that a process runs at the same time.

    Raises:
        GarnetError: this many tasks need more memory, whatever the graph.
    """

    memory: int
    width: int
    k: int
    least: int = 1
    at_once: int = 1

    def __post_init__(self) -> None:
        if self._room < _LEAST_TASK:
            needed = (BASELINE + self.at_once * _LEAST_TASK) / 1e9
            raise GarnetError(
                f"A process that does {self.at_once} tasks at once needs {needed:.1f} GB of memory, but may hold only "
                f"{self.memory / 1e9:.1f} GB; give it more, or its workers fewer threads."
            )

    @property
    def _room(self) -> float:
        """Bytes that a task may hold."""
        return (self.memory - BASELINE) / self.at_once

    def parts(self, nodes: int, edges: int) -> int:
        """The number of parts for a graph with this many nodes and undirected edges."""
        rows = self._rows(nodes) / self._room
        entries = BYTES_AN_EDGE * 2 * (nodes * self.k + edges) / self._room
        return min(max(math.ceil(rows), math.ceil(entries), self.least), max(nodes, 1))

    def spare(self, nodes: int, parts: int) -> int:
        """Bytes that can be held while tasks work on rows of points only, and not on edges."""
        return max(0, int(_HELD * (self._room - self._rows(nodes) / parts)))

    def columns(self, nodes: int, parts: int, matrix: int, *, threads: int = 0) -> int:
        """Columns that a task may filter while its process holds the adjacency, or its share of that.

        Args:
            nodes: of the graph.
            parts: number of parts they are cut into.
            matrix: bytes of the adjacency.
            threads: of all workers, among which the rows are divided; 0 if one task takes columns with all rows.

        Returns:
            The number of columns; 0 if the adjacency leaves too little memory for them, or for the other tasks.
        """
        tasks = min(threads, parts)
        left = _HELD * (self.memory - BASELINE - matrix * min(1.0, self.at_once / max(tasks, 1))) / self.at_once
        rows = 4.0 * COPIES_OF_A_ROW * max(self.width, BLOCK) * nodes / parts
        # If rows are divided, each task has as many copies of its own as one task has of all, and the table of all
        # rows.
        copies = 1 + COPIES_OF_A_COLUMN / tasks if tasks else COPIES_OF_A_COLUMN
        return 0 if left < rows else min(BLOCK if tasks else MOST_COLUMNS, int(left / (4 * copies * nodes)))

    def _rows(self, nodes: int) -> float:
        """Bytes of the points of all nodes, times the copies that the most demanding task holds."""
        return 4.0 * COPIES_OF_A_ROW * self.width * nodes


def columns_bytes(nodes: int, columns: int) -> int:
    """What this process holds while it filters a block, this many columns at a time."""
    return 4 * nodes * (COPIES_OF_A_COLUMN * columns + 2 * BLOCK)


def cut_of(method: Any, features: int, memory: str | int | None) -> Cut:
    """What determines how many parts a graph is cut into, whoever does the work.

    Args:
        method: the purifier.
        features: of a node, of the graph.
        memory: bytes that a process may hold; None for the default of a worker without a stated limit.
    """
    rank = method.rank if isinstance(method.rank, int) else _RANK
    whole = method.features == "raw" or method.feature_rank is None
    reduced = features if whole else min(features, method.feature_rank)
    width = rank + (0 if method.features == "none" else reduced)
    return Cut(memory=bytes_of(memory or _CLUSTER_MEMORY), width=width, k=method.k or ENOUGH_NEIGHBORS)


def most_cells(memory: int, width: int, reach: int) -> int:
    """How many cells a quantizer may have for its training to fit in memory, with nothing else held.

    Args:
        memory: bytes that the process may hold.
        width: coordinates of a point.
        reach: cells ranked around each.
    """
    sample = TRAINING * (4 * width * _COPIES_OF_A_SAMPLE + _BYTES_A_VOTE * _VOTES)
    return max(1, (memory - BASELINE) // (sample + 8 * reach * _COPIES_OF_A_RANK))
