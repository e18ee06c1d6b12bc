"""What purifying a graph will take, said before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from garnet.neighbors.search import EXACT_UP_TO, Cells
from garnet.places.graph_size import Extent
from garnet.places.on_disk import OnCluster
from garnet.places.plan import BASELINE, BYTES_AN_EDGE, COPIES_OF_A_ROW, cut_of
from garnet.places.tiled_place import require_tileable
from garnet.purify.memory import InMemory
from garnet.purify.place import Place
from garnet.purify.settings import Settings

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
SECONDS_A_CANDIDATE, SECONDS_A_COORDINATE = 5e-9, 0.3e-9
"""To compare a point with another of a cell nearby, and more for each coordinate."""
SECONDS_AN_EXACT_COORDINATE = 0.08e-9
"""The same where every point is compared with all others."""
SECONDS_A_CELL = 28e-6
"""To read from one part the points of a cell that is searched."""
SECONDS_AN_EDGE = 1.2e-6
"""To score an edge of the base graph or of the input, and to write it."""
SECONDS_A_SHARED_NEIGHBOR = 60e-9
"""To look for a neighbour of one end of an edge among those of the other: on a drawn graph of 65 M edges."""

_TEMPORARY_A_PAIR, _SCORED_AN_EDGE, _PAIR = 44, 22, 8


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
        settings: what the parameters become on it.
        costs: of the stages.
    """

    extent: Extent
    parts: int
    settings: Settings
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


def estimate(method: Any, extent: Extent, place: Place | None = None) -> Estimate:
    """What it will take to purify a graph of this size.

    On a cluster the time is that of one worker; the memory is that of each.

    Args:
        method: the purifier.
        extent: the size of the graph.
        place: where; None is in memory.
    """
    tiled = place is not None and not isinstance(place, InMemory)
    if tiled:
        require_tileable(method)
    sizes = _Sizes(method.on(extent.shape), extent, method, place if tiled else None)
    return Estimate(extent=extent, parts=sizes.parts, settings=sizes.settings, costs=sizes.costs())


class _Sizes:
    """The numbers that all costs are made of."""

    def __init__(self, settings: Settings, extent: Extent, method: Any, place: Any | None) -> None:
        self.settings, self.extent, self.place = settings, extent, place
        self.n, self.m, features = extent.shape.nodes, extent.shape.edges, extent.shape.features
        self.cut = None if place is None else cut_of(method, features, place.memory)
        self.parts = 1 if self.cut is None else self.cut.parts(self.n, self.m)
        reduced = 0 if settings.features == "none" else min(features, settings.feature_rank or features)
        self.width = settings.rank + reduced
        self.block = min(max(16 * round(settings.rank / 64), 16), 64)
        self.basis = min(2 * settings.rank + 12 * self.block, self.n // 2)
        self.edges = self.n * settings.k + self.m

    def costs(self) -> tuple[Cost, ...]:
        seconds, held, disk = self._seconds(), self._held(), self._disk()
        return tuple(Cost(name=name, seconds=seconds[name], memory=held[name], disk=disk.get(name, 0)) for name in held)

    def _seconds(self) -> dict[str, float]:
        n, m, settings = self.n, self.m, self.settings
        columns = PRODUCTS + PRODUCTS_A_PAIR * settings.rank
        embed = columns * (SECONDS_AN_ENTRY * 2 * m + SECONDS_A_ROW * n * self.parts)
        embed += columns / self.block * self.parts * SECONDS_A_BLOCK
        embed += SECONDS_A_SQUARE * n * self.basis**2
        search = SECONDS_AN_EXACT_COORDINATE * n * n * self.width
        if n > EXACT_UP_TO:
            cell = Cells().points_a_cell(n)
            search = n * PROBES * cell * (SECONDS_A_CANDIDATE + SECONDS_A_COORDINATE * self.width)
            search += n / cell * PROBES * self.parts * SECONDS_A_CELL
        prune = SECONDS_AN_EDGE * self.edges
        if settings.overlap and settings.support is not None:
            prune += SECONDS_A_SHARED_NEIGHBOR * m * 2 * m / max(n, 1)
        reading = (SECONDS_A_LINE if self.extent.text else SECONDS_A_PAIR) * self.extent.pairs
        tile = reading + SECONDS_A_FEATURE_BYTE * self.extent.feature_bytes
        return {"tile": tile, "embed": embed, "neighbours": search if settings.k else 0.0, "prune": prune}

    def _held(self) -> dict[str, int]:
        """Bytes of memory of each stage."""
        n, points = self.n, 4 * self.n * self.width
        if self.cut is None:
            graph = 8 * 2 * self.m + self.extent.feature_bytes
            return {
                "embed": BASELINE + graph + self._blocks,
                "neighbours": BASELINE + graph + 3 * points,
                "prune": BASELINE + graph + points + BYTES_AN_EDGE * self.edges,
            }
        rows, edges = COPIES_OF_A_ROW * points // self.parts, BYTES_AN_EDGE * self.edges // self.parts
        held = {"tile": 80 * n, "embed": rows + self._kept, "neighbours": rows, "prune": max(rows, edges)}
        return {name: min(BASELINE + size, self.cut.memory) for name, size in held.items()}

    def _disk(self) -> dict[str, int]:
        """Bytes on disk at the worst of each stage."""
        if self.cut is None:
            return {}
        n, k = self.n, self.settings.k
        edges = 4 * (2 * self.m + n * self.parts) + 16 * n
        # Once more with planted edges, which are a tenth at most.
        planted = edges + 8 * self.m // 10 if self.settings.support == "planted" else 0
        tiles = edges + planted + self.extent.feature_bytes
        points, pairs = 4 * n * self.width, _PAIR * n * k
        result = 8 * 2 * self.edges + 4 * n * self.parts
        return {
            "tile": tiles + _TEMPORARY_A_PAIR * self.extent.pairs,
            "embed": tiles + points + self._blocks - self._kept,
            "neighbours": tiles + 3 * points + pairs,
            "prune": tiles + points + pairs + _SCORED_AN_EDGE * self.edges + result,
        }

    @property
    def _blocks(self) -> int:
        """Bytes of the solver's basis and of the blocks beside it."""
        return 4 * self.n * (self.basis + 2 * self.settings.rank)

    @property
    def _kept(self) -> int:
        """How many of them stay in memory; workers do not see what this process holds."""
        if self.cut is None or isinstance(self.place, OnCluster):
            return 0
        return min(self._blocks, self.cut.spare(self.n, self.parts))
