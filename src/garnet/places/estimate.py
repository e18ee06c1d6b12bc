"""What purifying a graph will take, said before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from garnet.neighbors.search import EXACT_UP_TO
from garnet.parameters import require_valid
from garnet.places.disk import cut_of, require_tileable
from garnet.places.graph_size import Extent, rank_of
from garnet.places.plan import BASELINE, BYTES_AN_EDGE, COPIES_OF_A_ROW

if TYPE_CHECKING:
    from garnet.purify.garnet import GARNET

PRODUCTS, PRODUCTS_A_PAIR = 4_700, 35
"""Columns that meet the matrix, and more of them for each eigenpair: on a citation graph of 170,000 nodes."""
PROBES = 12
"""Cells that are searched for the neighbours of a cell: there, where 10 found 0.95 of them; 256 at most."""
SECONDS_A_PAIR, SECONDS_A_LINE = 0.4e-6, 1.0e-6
"""To read an edge as numbers or as text, to sort it and to write its tile."""
SECONDS_A_FEATURE_BYTE = 15e-9
"""To unpack a byte of the features and to write it."""
SECONDS_AN_ENTRY, SECONDS_A_ROW = 0.8e-9, 1.5e-9
"""For each column of a product: to multiply an entry of the matrix, and to read a row, which every part does."""
SECONDS_A_BLOCK = 2e-3
"""For each part, what a product of a block of columns takes however short the part is."""
SECONDS_A_SQUARE = 0.28e-9
"""To keep a basis orthogonal: for each row, and the square of the number of columns."""
SECONDS_A_CANDIDATE, SECONDS_A_COORDINATE = 25e-9, 1.5e-9
"""To compare a point with another of a cell nearby, and more for each coordinate."""
SECONDS_AN_EXACT_COORDINATE = 0.3e-9
"""The same where every point is compared with all others."""
SECONDS_A_CELL = 28e-6
"""To read from one part the points of a cell that is searched."""
SECONDS_AN_EDGE = 1.2e-6
"""To score an edge of the base graph or of the input, and to write it."""
SECONDS_A_SHARED_NEIGHBOR = 60e-9
"""To look for a neighbour of one end of an edge among those of the other: on a drawn graph of 65 M edges."""

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

    Seconds are those of one core of an AMD EPYC, on which the rates of this module were measured; another machine may
    need a third or three times of it. How many products the solver needs depends on the spectrum, which nobody knows
    before, and so does the number of cells that must be searched.

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
    parts = cut_of(purifier, extent.features).parts(n, m) if tiled else 1
    found = Estimate(extent=extent, parts=parts, rank=rank, k=k, costs=())
    costs = _on_disk(purifier, found, width) if tiled else _in_memory(purifier, found, width)
    return Estimate(extent=extent, parts=parts, rank=rank, k=k, costs=costs)


def _seconds(purifier: GARNET, found: Estimate, width: int) -> dict[str, float]:
    """Of each stage but the first."""
    n, m, rank, parts = found.extent.nodes, found.extent.edges, found.rank, found.parts
    columns = PRODUCTS + PRODUCTS_A_PAIR * rank
    embed = columns * (SECONDS_AN_ENTRY * 2 * m + SECONDS_A_ROW * n * parts)
    embed += columns / _block(rank) * parts * SECONDS_A_BLOCK
    embed += SECONDS_A_SQUARE * n * _basis(rank, n) ** 2
    search = SECONDS_AN_EXACT_COORDINATE * n * n * width
    if n > EXACT_UP_TO:
        cell = max(64, n**0.5 / 5)
        search = n * PROBES * cell * (SECONDS_A_CANDIDATE + SECONDS_A_COORDINATE * width)
        search += n / cell * PROBES * parts * SECONDS_A_CELL
    prune = SECONDS_AN_EDGE * (n * found.k + m)
    if purifier.overlap and purifier.doubted(found.k) is not None:
        prune += SECONDS_A_SHARED_NEIGHBOR * m * 2 * m / max(n, 1)
    return {"embed": embed, "neighbours": search if found.k else 0.0, "prune": prune}


def _in_memory(purifier: GARNET, found: Estimate, width: int) -> tuple[Cost, ...]:
    n, m = found.extent.nodes, found.extent.edges
    graph = 8 * 2 * m + found.extent.feature_bytes
    points = 4 * n * width
    held = {
        "embed": graph + 4 * n * (_basis(found.rank, n) + 2 * found.rank),
        "neighbours": graph + 3 * points,
        "prune": graph + points + BYTES_AN_EDGE * (n * found.k + m),
    }
    seconds = _seconds(purifier, found, width)
    return tuple(Cost(name=name, seconds=seconds[name], memory=BASELINE + held[name], disk=0) for name in held)


def _on_disk(purifier: GARNET, found: Estimate, width: int) -> tuple[Cost, ...]:
    n, m, parts, extent = found.extent.nodes, found.extent.edges, found.parts, found.extent
    cut = cut_of(purifier, extent.features)
    rows, edges = 4 * COPIES_OF_A_ROW * width * n // parts, BYTES_AN_EDGE * (n * found.k + m) // parts
    tiles = 4 * (2 * m + n * parts) + 16 * n + extent.feature_bytes
    points, pairs, scored = 4 * n * width, _PAIR * n * found.k, _SCORED_AN_EDGE * (n * found.k + m)
    result = 8 * (2 * (m + n * found.k)) + 4 * n * parts
    blocks = 4 * n * (_basis(found.rank, n) + 2 * found.rank)
    # Workers do not see what this process holds in memory.
    kept = min(blocks, cut.spare(n, parts)) if purifier.cluster is None else 0
    disk = {
        "tile": tiles + _TEMPORARY_A_PAIR * extent.pairs,
        "embed": tiles + points + blocks - kept,
        "neighbours": tiles + 2 * points + pairs,
        "prune": tiles + points + pairs + scored + result,
    }
    reading = SECONDS_A_LINE if extent.text else SECONDS_A_PAIR
    seconds = {"tile": reading * extent.pairs + SECONDS_A_FEATURE_BYTE * extent.feature_bytes}
    seconds |= _seconds(purifier, found, width)
    held = {
        "tile": BASELINE + 80 * n,
        "embed": BASELINE + rows + kept,
        "neighbours": BASELINE + rows,
        "prune": BASELINE + max(rows, edges),
    }
    return tuple(
        Cost(name=name, seconds=seconds[name], memory=min(held[name], cut.memory), disk=disk[name]) for name in disk
    )


def _basis(rank: int, n: int) -> int:
    """Columns of the solver's basis, at most."""
    return min(2 * rank + 12 * _block(rank), n // 2)


def _block(rank: int) -> int:
    """Columns that are multiplied at once."""
    return min(max(16 * round(rank / 64), 16), 64)
