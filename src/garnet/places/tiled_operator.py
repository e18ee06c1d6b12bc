"""The normalised adjacency of a tiled graph as a place for the block solver: see `garnet.spectral.block_space`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from garnet.linalg.dense import inner, product
from garnet.places.row_store import RowFile, RowMatrix, RowStore, read, write
from garnet.places.tiles import TiledGraph


class TiledSpace:
    """S A S with S = (D + tau I)^(-1/2), tile by tile; tall matrices lie in files.

    Args:
        graph: the graph with adjacency A and weighted degrees D.
        parts: where tall matrices live; with the bounds of the graph.
        roots: (n, 1) diagonal of S; where it is 0 a node takes no part.
        seed: of `random`.

    Attributes:
        n: number of rows.
        products: how many columns have met the matrix so far.
        scale: by what the matrix was divided.
        longest: entries of the fullest row.
    """

    def __init__(self, graph: TiledGraph, parts: RowStore, roots: RowMatrix, seed: int) -> None:
        self.n = graph.num_nodes
        self.scale, self.products = 1.0, 0
        self.longest = max(int(graph.counts(i).max(initial=0)) for i in range(graph.parts))
        self._graph, self._parts, self._roots = graph, parts, roots
        self._seeds = (seed * 1_000_003 + number for number in itertools.count())
        sums = self.product(self.constant(1.0))
        self.scale = max(float(sums.part(i).max()) for i in range(parts.count) if len(sums.part(i))) or 1.0
        self.products = 0

    def product(
        self, block: RowMatrix, *, slope: float = 1.0, shift: float = 0.0, minus: RowMatrix | None = None
    ) -> RowMatrix:
        """See `Space`."""
        self.products += block.width
        self._parts.tell("columns", self.products, 0)
        target = self._parts.new(block.width)
        before = [None] * self._parts.count if minus is None else minus.files
        factors = slope / self.scale, shift
        self._parts.each(
            _product,
            [(self._graph, i, block.files, self._roots.files, block.width) for i in range(self._parts.count)],
            itertools.repeat(factors),
            before,
            target.files,
        )
        return target

    def random(self, columns: int) -> RowMatrix:
        """See `Space`."""
        seed, bounds = next(self._seeds), self._parts.bounds
        target = self._parts.new(columns)
        rows = np.diff(bounds).tolist()
        self._parts.each(_random, rows, [columns] * len(rows), [(seed, i) for i in range(len(rows))], target.files)
        return target

    def constant(self, value: float) -> RowMatrix:
        """See `Space`."""
        return self._parts.map(lambda roots: torch.full_like(roots, value), self._roots)

    def map(self, work: Callable[..., Tensor], *blocks: RowMatrix) -> RowMatrix:
        """See `Space`."""
        return self._parts.map(work, *blocks)

    def sum(self, work: Callable[..., Tensor], *blocks: RowMatrix) -> Tensor:
        """See `Space`."""
        return self._parts.sum(work, *blocks)

    def basis(self, capacity: int) -> TiledBasis:
        """See `Space`."""
        return TiledBasis(self._parts)

    def coarser(self) -> None:
        """See `Space`: in parts nothing is made coarser."""


class TiledBasis:
    """A basis as the list of the blocks it grew by, of which a task holds one at a time: see `Basis`."""

    def __init__(self, parts: RowStore) -> None:
        self._parts = parts
        self._blocks: list[RowMatrix] = []

    @property
    def size(self) -> int:
        """Columns so far."""
        return sum(block.width for block in self._blocks)

    def dot(self, block: RowMatrix) -> Tensor:
        """See `Basis`."""
        partial = self._parts.each(_dot, self._known(), block.files, [block.width] * self._parts.count)
        return torch.stack(partial).sum(dim=0).float()

    def less(self, block: RowMatrix, coefficients: Tensor) -> RowMatrix:
        """See `Basis`."""
        target = self._parts.new(block.width)
        self._parts.each(_less, self._known(), block.files, itertools.repeat(coefficients.float()), target.files)
        return target

    def append(self, block: RowMatrix) -> None:
        """See `Basis`."""
        self._blocks.append(block)

    def rotate(self, rotation: Tensor) -> RowMatrix:
        """See `Basis`."""
        target = self._parts.new(rotation.shape[1])
        self._parts.each(_rotate, self._known(), itertools.repeat(rotation.float()), target.files)
        return target

    def keep(self, rotation: Tensor) -> None:
        """See `Basis`."""
        self._blocks = [self.rotate(rotation)]

    def _known(self) -> list[list[tuple[RowFile, int]]]:
        return [[(block.files[i], block.width) for block in self._blocks] for i in range(self._parts.count)]


def tile_product(graph: TiledGraph, i: int, j: int, block: Tensor) -> Tensor:
    """The tile (i, j) of the adjacency times the rows of part j."""
    tile = graph.tile(i, j)
    weights = None if tile.weights is None else torch.from_numpy(tile.weights)
    return embedding_bag(
        torch.from_numpy(tile.columns), block, torch.from_numpy(tile.starts), mode="sum", per_sample_weights=weights,
        include_last_offset=True,
    )  # fmt: skip


def _product(
    strip: tuple[TiledGraph, int, Sequence[RowFile], Sequence[RowFile], int],
    factors: tuple[float, float],
    minus: RowFile | None,
    target: RowFile,
) -> None:
    graph, i, files, roots, width = strip
    slope, shift = factors
    image = torch.zeros(graph.bounds[i + 1] - graph.bounds[i], width)
    for j in range(graph.parts):
        image += tile_product(graph, i, j, read(files[j], width) * read(roots[j], 1))
    image *= slope * read(roots[i], 1)
    if minus is not None:
        image -= read(minus, width)
    if shift:
        image.sub_(read(files[i], width), alpha=shift)
    write(target, image)


def _random(rows: int, columns: int, seed: tuple[int, int], target: RowFile) -> None:
    numbers = np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)
    write(target, torch.from_numpy(numbers))


def _dot(known: list[tuple[RowFile, int]], file: RowFile, width: int) -> Tensor:
    block = read(file, width)
    return torch.cat([inner(read(*one), block) for one in known])


def _less(known: list[tuple[RowFile, int]], file: RowFile, coefficients: Tensor, target: RowFile) -> None:
    block = read(file, coefficients.shape[1]).clone()
    for one, part in zip(known, torch.split(coefficients, [width for _, width in known]), strict=True):
        product(read(*one), part, onto=block, factor=-1.0)
    write(target, block)


def _rotate(known: list[tuple[RowFile, int]], rotation: Tensor, target: RowFile) -> None:
    image: Tensor | None = None
    for one, part in zip(known, torch.split(rotation, [width for _, width in known]), strict=True):
        image = product(read(*one), part, onto=image)
    if image is not None:
        write(target, image)
