"""What purifying a graph will take, said before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from garnet.neighbors import EXACT_UP_TO
from garnet.parameters import require_valid
from garnet.scale.extent import Extent, rank_of
from garnet.scale.plan import _BYTES_AN_EDGE, _COPIES_OF_A_ROW, BASELINE
from garnet.scale.purify import cut_of, require_tileable

if TYPE_CHECKING:
    from garnet.purify import GARNET

PRODUCTS_A_PAIR = 125
"""Columns that meet the matrix for each eigenpair; a spectrum that crowds needs several times as many."""
PROBES = 60
"""Cells that are searched for the neighbours of a cell, of 256 at most."""

SECONDS_A_PAIR = 0.5e-6
SECONDS_A_LINE = 1.5e-6
"""To read an edge, sort it and write its tile: from numbers, and from text."""
SECONDS_A_FEATURE_BYTE = 4e-9
SECONDS_AN_ENTRY = 4e-9
"""To multiply an entry of the matrix by a number of a column."""
SECONDS_A_ROW_READ = 2e-9
"""To read one number of a block again, as the product does for every part."""
SECONDS_A_SQUARE = 0.3e-9
"""To make a basis orthogonal: for each node and square of the rank."""
SECONDS_A_COMPARISON = 0.05e-9
"""To compare a coordinate of two points."""
SECONDS_AN_EDGE = 3e-6
"""To score an edge of the base graph or the input, to count shared neighbours and to write it."""

_TEMPORARY_A_PAIR, _SCORED_AN_EDGE, _PAIR = 44, 21, 8


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a stage will take: seconds, and at its worst bytes of memory and of disk."""

    name: str
    seconds: float
    memory: int
    disk: int


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a purification will take.

    Seconds are those of two cores of an AMD EPYC, on which the rates of this module were measured; another machine may
    need a third or three times of it. How many products the solver needs depends on the spectrum, which nobody knows.

    Attributes:
        extent: size of the graph.
        parts: into how many the nodes will be cut; 1 in memory.
        rank: eigenpairs.
        k: neighbours of each node.
        costs: of the stages.
    """

    extent: Extent
    parts: int
    rank: int
    k: int
    costs: tuple[Cost, ...]

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(cost.seconds for cost in self.costs)

    @property
    def memory(self) -> int:
        """Bytes of the hungriest stage."""
        return max(cost.memory for cost in self.costs)

    @property
    def disk(self) -> int:
        """Bytes on disk at the worst, the result among them."""
        return max(cost.disk for cost in self.costs)


def estimate(purifier: GARNET, extent: Extent) -> Estimate:
    """What it will take to purify a graph of this size.

    On a cluster the time is that of one worker; the memory is that of each.
    """
    n, m = extent.nodes, extent.edges
    tiled = purifier.memory is not None or purifier.cluster is not None
    if tiled:
        require_tileable(purifier)
    require_valid(purifier, n, m)
    k = purifier.neighbors_of(max(n, 1), m)
    rank = rank_of(purifier.rank, extent)
    features = 0 if purifier.features == "none" else extent.features
    width = rank + min(features, purifier.feature_rank or features)
    parts = cut_of(purifier).parts(n, m) if tiled else 1
    found = Estimate(extent=extent, parts=parts, rank=rank, k=k, costs=())
    costs = _on_disk(purifier, found, width) if tiled else _in_memory(found, width)
    return Estimate(extent=extent, parts=parts, rank=rank, k=k, costs=costs)


def _seconds(found: Estimate, width: int) -> dict[str, float]:
    """Of each stage but the first."""
    n, m, rank = found.extent.nodes, found.extent.edges, found.rank
    a_column = SECONDS_AN_ENTRY * 2 * m + SECONDS_A_ROW_READ * n * found.parts
    cell = max(64, n**0.5 / 5)
    compared = n if n <= EXACT_UP_TO else min(n, PROBES * cell)
    return {
        "embed": PRODUCTS_A_PAIR * rank * a_column + SECONDS_A_SQUARE * n * rank**2,
        "neighbours": SECONDS_A_COMPARISON * n * compared * width if found.k else 0.0,
        "prune": SECONDS_AN_EDGE * (n * found.k + m),
    }


def _in_memory(found: Estimate, width: int) -> tuple[Cost, ...]:
    n, m = found.extent.nodes, found.extent.edges
    graph = 8 * 2 * m + found.extent.feature_bytes
    points = 4 * n * width
    held = {
        "embed": graph + 4 * n * _basis(found.rank, n),
        "neighbours": graph + 3 * points,
        "prune": graph + points + 100 * (n * found.k + m),
    }
    seconds = _seconds(found, width)
    return tuple(Cost(name=name, seconds=seconds[name], memory=BASELINE + held[name], disk=0) for name in held)


def _on_disk(purifier: GARNET, found: Estimate, width: int) -> tuple[Cost, ...]:
    n, m, parts, extent = found.extent.nodes, found.extent.edges, found.parts, found.extent
    limit = cut_of(purifier).memory
    rows, edges = 4 * _COPIES_OF_A_ROW * width * n // parts, 2 * _BYTES_AN_EDGE * (n * found.k + m) // parts
    tiles = 4 * (2 * m + n * parts) + 16 * n + extent.feature_bytes
    points, pairs, scored = 4 * n * width, _PAIR * n * found.k, _SCORED_AN_EDGE * (n * found.k + m)
    result = 8 * (2 * (m + n * found.k)) + 4 * n * parts
    disk = {
        "tile": tiles + _TEMPORARY_A_PAIR * extent.pairs,
        "embed": tiles + points + 4 * n * _basis(found.rank, n),
        "neighbours": tiles + 2 * points + pairs,
        "prune": tiles + points + pairs + scored + result,
    }
    reading = SECONDS_A_LINE if extent.text else SECONDS_A_PAIR
    seconds = {"tile": reading * extent.pairs + SECONDS_A_FEATURE_BYTE * extent.feature_bytes}
    seconds |= _seconds(found, width)
    held = {
        "tile": BASELINE + 80 * n,
        "embed": BASELINE + rows,
        "neighbours": BASELINE + rows,
        "prune": BASELINE + max(rows, edges),
    }
    return tuple(
        Cost(name=name, seconds=seconds[name], memory=min(held[name], limit), disk=disk[name]) for name in disk
    )


def _basis(rank: int, n: int) -> int:
    """Columns of the basis of the solver, its blocks and its vectors."""
    block = min(max(16 * round(rank / 64), 16), 64)
    return min(2 * rank + 12 * block, n // 2) + rank + 4 * block
