"""Estimated costs of the stages of a purification: seconds, memory, disk, and bytes read and written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from garnet.neighbors.search import EXACT_UP_TO, Cells
from garnet.places.cluster import Capacity
from garnet.places.graph_size import Extent
from garnet.places.plan import BASELINE, BYTES_AN_EDGE, COPIES_OF_A_COLUMN, COPIES_OF_A_ROW, Cut
from garnet.purify.planting import MOST_PLANTED, PLANTED
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
SECONDS_A_TRUSTED_EDGE, SECONDS_TO_LEARN = 3.1e-6, 2.0
"""More, where planted edges tell: to spread what each edge is trusted; and to learn from them: on drawn graphs of up to
1.1 M edges."""
SECONDS_A_SHARED_NEIGHBOR = 60e-9
"""To look for a neighbour of one end of an edge among those of the other: on a drawn graph of 65 M edges."""

SECONDS_A_CALL, SECONDS_A_TASK = 16e-3, 3e-3
"""To send the tasks of a call to workers and to wait for the last, and more for each: on two cores of one machine."""
CALLS_A_BLOCK = 2.7
"""Calls for each block of columns that meets the matrix, tile by tile: on Cora at rank 70, two workers."""
CALLS_A_FILTER, SECONDS_A_STEP = 12, 5e-3
"""Calls for each block of the basis where workers share the rows, and what they wait for each other in a product."""
_READS_OF_A_BASIS = 5
"""How often a block of the basis is read again for each that follows: twice to project it away, and to rotate it."""

_TEMPORARY_A_PAIR, SCORED_AN_EDGE, _PAIR = 44, 22, 8
_NUMBER = 4


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a stage will take.

    Attributes:
        name: of the stage.
        seconds: from its start to its end, not counting time spent waiting for storage.
        memory: peak bytes of a process.
        disk: peak bytes on disk.
        read: bytes read from files by all processes together, including those cached by the system.
        written: bytes written to files.
    """

    name: str
    seconds: float
    memory: int
    disk: int
    read: int = 0
    written: int = 0


class Sizes:
    """The numbers that all costs are computed from.

    Args:
        settings: the parameters as resolved for the graph.
        extent: the size of the graph.
        cut: what determines the number of parts; None in memory.
        there: what the workers of a cluster can do; None without a cluster.
    """

    def __init__(self, settings: Settings, extent: Extent, cut: Cut | None, there: Capacity | None = None) -> None:
        self.settings, self.extent, self.cut, self.there = settings, extent, cut, there
        self.n, self.m, features = extent.shape.nodes, extent.shape.edges, extent.shape.features
        # A matrix may have each edge twice, which is not known before it is read.
        self.parts = 1 if cut is None else cut.parts(self.n, max(extent.pairs, self.m))
        reduced = 0 if settings.features == "none" else min(features, settings.feature_rank or features)
        self.width = settings.rank + reduced
        self.block = min(max(16 * round(settings.rank / 64), 16), 64)
        self.basis = min(2 * settings.rank + 12 * self.block, self.n // 2)
        self.edges = self.n * settings.k + self.m

    def costs(self) -> tuple[Cost, ...]:
        """The costs of the stages of a purification."""
        if self.cut is None:
            return self.embed(), self.neighbours(), self.prune()
        return self.tile(), self.embed(), self.neighbours(), self.prune()

    def tile(self) -> Cost:
        """Cutting the graph into tiles, which this process does alone; and again with planted edges."""
        extent = self.extent
        seconds = (SECONDS_A_LINE if extent.text else SECONDS_A_PAIR) * extent.pairs
        seconds += SECONDS_A_FEATURE_BYTE * extent.feature_bytes
        pairs = _TEMPORARY_A_PAIR * extent.pairs
        return self.cost(
            "tile",
            alone=seconds,
            memory=80 * self.n,
            disk=self.kept_tiles + pairs,
            read=pairs + extent.feature_bytes + 2 * (self.planted and self.tiles),
            written=pairs + self.kept_tiles,
        )

    def embed(self) -> Cost:
        """Finding the eigenvectors and the points."""
        n, columns, together = self.n, self.columns, self.together
        blocks = math.ceil(columns / self.block)
        row = _NUMBER * n * self.block
        rows = (2 if together else self.parts) * n
        seconds = (
            columns * (SECONDS_AN_ENTRY * 2 * self.m + SECONDS_A_ROW * rows) + SECONDS_A_SQUARE * n * self.basis**2
        )
        in_files = 1 - self.held_blocks / max(self.blocks, 1)
        if together:
            waits, calls = blocks * SECONDS_A_STEP, CALLS_A_FILTER * self.basis / self.block
            # Each worker reads the tables of all rows, except those it wrote.
            read, tiles = blocks * self.tasks * row, self.tiles + self.planted
        else:
            seconds += blocks * self.parts * SECONDS_A_BLOCK
            waits, calls = 0.0, CALLS_A_BLOCK * blocks
            read, tiles = (
                blocks * ((self.parts + 2) * row + _NUMBER * n * self.parts),
                blocks * (self.tiles + self.planted),
            )
        read += _READS_OF_A_BASIS * _NUMBER * n * self.basis**2 // (2 * self.block)
        points = _NUMBER * n * self.width
        return self.cost(
            "embed",
            alone=waits,
            shared=seconds,
            calls=calls,
            memory=max(self.rows + self.held_blocks, self.shared) if self.cut is not None else self.blocks,
            disk=self.kept_tiles + points + self.blocks - self.held_blocks + (together and 6 * row),
            read=tiles + round(in_files * read) + 2 * self.extent.feature_bytes,
            written=round(in_files * 2 * blocks * row) + points,
        )

    def neighbours(self) -> Cost:
        """Searching for the neighbours of each node."""
        n, width, points, k = self.n, self.width, _NUMBER * self.n * self.width, self.settings.k
        seconds, read, written = SECONDS_AN_EXACT_COORDINATE * n * n * width, self.parts * points, 0
        if n > EXACT_UP_TO:
            cell = Cells().points_a_cell(n)
            seconds = n * PROBES * cell * (SECONDS_A_CANDIDATE + SECONDS_A_COORDINATE * width)
            seconds += n / cell * PROBES * self.parts * SECONDS_A_CELL
            read, written = (PROBES + 4) * points, points
        if not k:
            seconds, read, written = 0.0, 0, 0
        return self.cost(
            "neighbours",
            shared=seconds,
            calls=10 if k else 0,
            memory=self.rows if self.cut is not None else 3 * points,
            disk=self.kept_tiles + 3 * points + _PAIR * n * k,
            read=read,
            written=written + _PAIR * n * k,
        )

    def prune(self) -> Cost:
        """Scoring all edges, and writing those that stay."""
        settings, points = self.settings, _NUMBER * self.n * self.width
        planted = settings.support == "planted"
        counts = planted or bool(settings.overlap and settings.support is not None)
        seconds = SECONDS_AN_EDGE * self.edges + (self.shared_neighbors if counts else 0)
        seconds += SECONDS_A_TRUSTED_EDGE * self.edges if planted else 0
        result = 8 * 2 * self.edges + _NUMBER * self.n * self.parts
        scored = SCORED_AN_EDGE * self.edges
        memory = max(self.rows, BYTES_AN_EDGE * self.edges // self.parts)
        # Each tile needs the points of its parts and, to count shared neighbours, their rows of tiles.
        read = (1 + planted) * (self.parts + 1) * (points + (self.tiles + self.planted if counts else 0))
        return self.cost(
            "prune",
            alone=SECONDS_TO_LEARN if planted else 0.0,
            shared=seconds,
            calls=6,
            tasks=self.parts * (self.parts + 1) / 2,
            memory=memory if self.cut is not None else points + BYTES_AN_EDGE * self.edges,
            disk=self.kept_tiles + points + _PAIR * self.n * settings.k + scored + result,
            read=read + self.tiles + _PAIR * self.n * settings.k + (9 if planted else 4) * scored,
            written=(4 if planted else 1) * scored + result,
        )

    def cost(
        self,
        name: str,
        *,
        memory: int,
        disk: int = 0,
        read: int = 0,
        written: int = 0,
        alone: float = 0.0,
        shared: float = 0.0,
        calls: float = 0.0,
        tasks: float = 0.0,
    ) -> Cost:
        """The cost of a stage.

        Args:
            name: of the stage.
            memory: peak bytes of a task; in memory, besides the graph.
            disk: bytes on disk.
            read: bytes read.
            written: bytes written.
            alone: seconds of this process.
            shared: seconds of the work that workers share, if one did it all.
            calls: how often they are given work.
            tasks: number of tasks each time; by default the number of parts.
        """
        if self.cut is None:
            graph = 8 * 2 * self.m + self.extent.feature_bytes
            return Cost(name=name, seconds=alone + shared, memory=BASELINE + graph + memory, disk=0)
        seconds, at_once = alone + shared, 1
        if self.there is not None:
            tasks, at_once = tasks or self.parts, self.there.at_once if shared else 1
            rounds = math.ceil(tasks / self.there.threads)
            seconds = alone + shared * rounds / tasks + calls * (SECONDS_A_CALL + tasks * SECONDS_A_TASK)
        held = min(BASELINE + at_once * memory, self.cut.memory)
        return Cost(name=name, seconds=seconds, memory=held, disk=disk, read=read, written=written)

    @property
    def columns(self) -> int:
        """Number of columns that the matrix multiplies."""
        return PRODUCTS + PRODUCTS_A_PAIR * self.settings.rank

    @property
    def tasks(self) -> int:
        """How many tasks share the rows of the adjacency."""
        return 1 if self.there is None else min(self.there.threads, self.parts)

    @property
    def adjacency(self) -> int:
        """Bytes of the adjacency in compressed rows, if all weights are one."""
        return _NUMBER * 2 * self.m + 16 * self.n

    @property
    def together(self) -> int:
        """Columns that workers filter together; 0 where products are computed tile by tile."""
        if self.cut is None or self.there is None:
            return 0
        return self.cut.columns(self.n, self.parts, self.adjacency, threads=self.there.threads)

    @property
    def shared(self) -> int:
        """Bytes of a task that holds its share of the adjacency's rows, and the table of all rows of a block."""
        columns = min(self.together, self.block)
        table = _NUMBER * self.n * columns * (self.tasks + COPIES_OF_A_COLUMN) // self.tasks
        return columns and self.adjacency // self.tasks + table

    @property
    def shared_neighbors(self) -> float:
        """Seconds to count the common neighbours of each edge's endpoints."""
        return SECONDS_A_SHARED_NEIGHBOR * self.m * 2 * self.m / max(self.n, 1)

    @property
    def rows(self) -> int:
        """Bytes of the points of a part, times the copies that the most demanding task holds."""
        return COPIES_OF_A_ROW * _NUMBER * self.n * self.width // self.parts

    @property
    def tiles(self) -> int:
        """Bytes of the tiles."""
        return _NUMBER * (2 * self.m + self.n * self.parts) + 16 * self.n

    @property
    def planted(self) -> int:
        """Bytes that planted edges add to the tiles when these are written again; 0 where nothing is planted."""
        new = min(MOST_PLANTED, round(PLANTED * self.m))
        return 2 * _NUMBER * new if self.settings.support == "planted" else 0

    @property
    def kept_tiles(self) -> int:
        """Bytes of the tiles and the features, and of the tiles with planted edges."""
        return self.tiles + (self.planted and self.tiles + self.planted) + self.extent.feature_bytes

    @property
    def blocks(self) -> int:
        """Bytes of the solver's basis and its other blocks."""
        return _NUMBER * self.n * (self.basis + 2 * self.settings.rank)

    @property
    def held_blocks(self) -> int:
        """How many of these bytes stay in memory; workers do not see what this process holds."""
        if self.cut is None or self.there is not None:
            return 0
        return min(self.blocks, self.cut.spare(self.n, self.parts))
