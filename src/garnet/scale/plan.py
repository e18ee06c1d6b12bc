"""How a graph is cut so that the work on it stays within a bound on memory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from garnet.errors import ParameterError

# What Python, NumPy, SciPy and torch take before any graph is there.
BASELINE = 600 << 20
_LEAST = 1 << 30
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

# Copies of a part's rows, and bytes of an edge that is being scored or sorted, that the hungriest task holds.
COPIES_OF_A_ROW = 5
BYTES_AN_EDGE = 150


def bytes_of(memory: str | int) -> int:
    """A size such as 8GB, 512MiB or a number of bytes.

    Raises:
        ParameterError: it is no size, or less than a GiB, in which no graph is purified.

    Example:
        >>> bytes_of("8GB"), bytes_of("1.5 GiB")
        (8000000000, 1610612736)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", str(memory).lower())
    try:
        size = int(float(found[1]) * _UNITS[found[2]]) if found and not isinstance(memory, bool) else 0
    except (ValueError, KeyError):
        size = 0
    if size < _LEAST:
        raise ParameterError(
            f"The 'memory' parameter of GARNET must be a size of 1GiB or more. Got {memory!r} instead."
        )
    return size


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What decides into how many parts the nodes are cut.

    Attributes:
        memory: bytes that a process may hold.
        width: coordinates of a point.
        k: neighbours of each node.
        least: parts at least, so that every worker has some.
    """

    memory: int
    width: int
    k: int
    least: int = 1

    def parts(self, nodes: int, edges: int) -> int:
        """The number of parts for a graph of so many nodes and undirected edges."""
        room = self.memory - BASELINE
        rows = 4 * COPIES_OF_A_ROW * self.width * nodes / room
        entries = BYTES_AN_EDGE * 2 * (nodes * self.k + edges) / room
        return min(max(math.ceil(rows), math.ceil(entries), self.least), max(nodes, 1))
