"""The normalised adjacency of a tiled graph as a place for the block solver: see `garnet.spectral.block_space`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from garnet.places.cluster import ClusterRun
from garnet.places.gang import ByRows
from garnet.places.held_columns import HeldOperator, squares, unit_factors
from garnet.places.held_matrix import held
from garnet.places.meeting import Apart, SharedStore
from garnet.places.row_files import RowFile, read, write
from garnet.places.row_store import RowMatrix, RowStore, columns_of, grains, whole
from garnet.places.tiled_basis import TiledBasis, times
from garnet.places.tiles import TiledGraph
from garnet.spectral.block_space import Polynomial, Space, by_products, moments_by_products

T = TypeVar("T")

_ITSELF = Polynomial(centre=0.0, half=1.0, degree=1)
"""The function that multiplies in a filter."""


class TiledSpace:
    """S A S with S = (D + tau I)^(-1/2); tall matrices are in parts.

    Where a process can hold the adjacency, or each worker of a cluster some of its rows, beside some columns, these go
    through a whole polynomial; elsewhere products are computed one by one, tile by tile. The result is the same to the
    last bit.

    Args:
        graph: the graph with adjacency A and weighted degrees D.
        parts: where tall matrices are kept; with the bounds of the graph.
        roots: (n, 1) diagonal of S; 0 for a node that is left out.
        seed: of `random`.
        columns: columns that may be held beside the adjacency; 0 if that is too much.
        scale: what to divide the matrix by, if known.

    Attributes:
        n: number of rows.
        products: how many columns the matrix has multiplied so far.
        scale: what the matrix was divided by.
        longest: number of entries of the fullest row.
    """

    def __init__(
        self,
        graph: TiledGraph,
        parts: RowStore,
        roots: RowMatrix,
        seed: int,
        *,
        columns: int = 0,
        scale: float | None = None,
    ) -> None:
        self.n = graph.num_nodes
        self.scale, self.products = scale or 1.0, 0
        self.longest = max(int(graph.counts(i).max(initial=0)) for i in range(graph.parts))
        self._graph, self._parts, self._roots, self._columns = graph, parts, roots, columns
        self._by_rows: ByRows | None = None
        if columns and isinstance(parts.run, ClusterRun):
            self._by_rows = ByRows(parts.run, graph, parts, roots, columns)
        self._seeds = (seed * 1_000_003 + number for number in itertools.count())
        if scale is None:
            sums = self.product(self.constant(1.0))
            self.scale = max(float(sums.part(i).max()) for i in range(parts.count) if len(sums.part(i))) or 1.0
            self.products = 0

    def product(
        self, block: RowMatrix, *, slope: float = 1.0, shift: float = 0.0, minus: RowMatrix | None = None
    ) -> RowMatrix:
        """See `Space`."""
        self._count(block.width)
        if self._by_rows is not None and slope == 1 and shift == 0 and minus is None:
            return self._by_rows.times(block, _ITSELF, self.scale)
        if self._columns and self._by_rows is None:
            operator = self._operator()
            return self._by_groups(
                lambda some, image: operator.product(some, slope=slope, shift=shift, minus=image), block, minus
            )
        target = self._parts.new(block.width)
        before = [None] * self._parts.count if minus is None else minus.files
        factors = slope / self.scale, shift
        self._parts.each(
            _product,
            [(self._graph, i, block.files, self._roots.files, block.width) for i in range(self._parts.count)],
            repeat(factors),
            before,
            target.files,
        )
        return target

    def filtered(self, block: RowMatrix, polynomial: Polynomial) -> RowMatrix:
        """See `Space`."""
        if not self._columns:
            return self.unit(by_products(self, block, polynomial))
        self._count(polynomial.degree * block.width)
        if self._by_rows is not None:
            return self._by_rows.times(block, polynomial, self.scale, unit=True)
        operator = self._operator()
        found = self._by_groups(lambda some, _: operator.filtered(some, polynomial), block)
        found.unit = True
        return found

    def moments(self, block: RowMatrix, polynomial: Polynomial) -> Tensor:
        """See `Space`."""
        if not self._columns:
            return moments_by_products(self, block, polynomial)
        self._count(polynomial.degree * block.width)
        if self._by_rows is not None:
            return self._by_rows.moments(block, polynomial, self.scale)
        operator = self._operator()
        groups = (columns_of(block, *some) for some in itertools.pairwise(self._cuts(block.width)))
        return torch.cat([operator.moments(group, polynomial) for group in groups], dim=1)

    def alone(self, work: Callable[[Space], T]) -> T:
        """See `Space`; workers do it together, each with its rows."""
        if self._by_rows is None:
            return work(self)
        told = work, self._graph, self._roots.files, self.scale
        found: tuple[T, int] = self._by_rows.together(_alone, *told)
        self._count(found[1])
        return found[0]

    def random(self, columns: int) -> RowMatrix:
        """See `Space`."""
        seed, parts = next(self._seeds), self._parts
        target = parts.new(columns)
        parts.each(
            _random,
            itertools.pairwise(parts.bounds),
            *map(repeat, (columns, seed, parts.grain)),
            target.files,
        )
        return target

    def constant(self, value: float) -> RowMatrix:
        """See `Space`."""
        return self.map(lambda roots: torch.full_like(roots, value), self._roots)

    def times(self, block: RowMatrix, factor: Tensor) -> RowMatrix:
        """See `Space`."""
        target, parts = self._parts.new(factor.shape[1]), self._parts
        repeated = map(repeat, (block.width, factor.float(), parts.grain))
        parts.each(times, block.files, *repeated, target.files)
        return target

    def unit(self, block: RowMatrix) -> RowMatrix:
        """See `Space`."""
        if block.unit:
            return block
        found = self.map(_scaled(unit_factors(self.sum(squares, block))), block)
        found.unit = True
        return found

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

    def _count(self, columns: int) -> None:
        self.products += columns
        self._parts.tell("columns", self.products, 0)

    def _cuts(self, width: int) -> list[int]:
        """Where to cut columns into groups of about equal size, none above the maximum."""
        count = -(-width // self._columns)
        return [width * i // count for i in range(count + 1)]

    def _by_groups(
        self, work: Callable[[Tensor, Any], Tensor], block: RowMatrix, minus: RowMatrix | None = None
    ) -> RowMatrix:
        """Process the columns of a block in this process, some at a time."""
        found = torch.empty(self.n, block.width)
        for some in itertools.pairwise(self._cuts(block.width)):
            image = None if minus is None else columns_of(minus, *some)
            found[:, slice(*some)] = work(columns_of(block, *some), image)
        target = self._parts.new(block.width)
        for file, (first, last) in zip(target.files, itertools.pairwise(self._parts.bounds), strict=True):
            write(file, found[first:last])
        return target

    def _operator(self) -> HeldOperator:
        return HeldOperator(held(self._graph), whole(self._roots), self.scale)


class SharedSpace(TiledSpace):
    """The rows of a space that a member of a gang has.

    Args:
        graph: with the adjacency A.
        parts: that it has.
        roots: diagonal of S.
        scale: what S A S is divided by.
    """

    def __init__(self, graph: TiledGraph, parts: SharedStore, roots: RowMatrix, scale: float) -> None:
        super().__init__(graph, parts, roots, 0, scale=scale)
        self._shared = parts

    def product(
        self, block: RowMatrix, *, slope: float = 1.0, shift: float = 0.0, minus: RowMatrix | None = None
    ) -> RowMatrix:
        """See `Space`."""
        self._count(block.width)
        store, numbers, target = self._shared, range(self._graph.parts), self._parts.new(block.width)
        table = torch.cat(store.told(store.each(_times_roots, block.files, self._roots.files, repeat(block.width))))
        before = repeat(None) if minus is None else minus.files
        told = repeat(self._graph), numbers, repeat(table), repeat((slope / self.scale, shift))
        store.each(_image, *told, block.files, self._roots.files, before, target.files)
        return target


def tile_product(graph: TiledGraph, i: int, j: int, block: Tensor, onto: Tensor | None = None) -> Tensor:
    """The tile (i, j) of the adjacency times the rows of part j, added to the results of earlier tiles.

    These come first in each row's sum, as if they were an entry, so everything rounds as in a product of whole rows.
    """
    tile = graph.tile(i, j)
    starts, columns, weights = tile.starts, tile.columns, tile.weights
    if onto is not None:
        own = np.arange(len(onto), dtype=np.int32)
        columns = np.insert(columns, starts[:-1], own + np.int32(len(block)))
        if weights is not None:
            weights = np.insert(weights, starts[:-1], np.float32(1))
        starts = np.add(starts, np.arange(len(starts)), dtype=np.int32)
        block = torch.cat([block, onto])
    return embedding_bag(
        torch.from_numpy(columns), block, torch.from_numpy(starts), mode="sum",
        per_sample_weights=None if weights is None else torch.from_numpy(weights), include_last_offset=True,
    )  # fmt: skip


def _product(
    strip: tuple[TiledGraph, int, Sequence[RowFile], Sequence[RowFile], int],
    factors: tuple[float, float],
    minus: RowFile | None,
    target: RowFile,
) -> None:
    graph, i, files, roots, width = strip
    slope, shift = factors
    image: Tensor | None = None
    for j in range(graph.parts):
        image = tile_product(graph, i, j, read(files[j], width) * read(roots[j], 1), image)
    if image is None:
        image = torch.zeros(0, width)
    image *= slope * read(roots[i], 1)
    if minus is not None:
        image -= read(minus, width)
    if shift:
        image.sub_(read(files[i], width), alpha=shift)
    write(target, image)


def _times_roots(file: RowFile, roots: RowFile, width: int) -> Tensor:
    return read(file, width) * read(roots, 1)


def _image(
    graph: TiledGraph,
    i: int,
    table: Tensor,
    factors: tuple[float, float],
    file: RowFile,
    roots: RowFile,
    minus: RowFile | None,
    target: RowFile,
) -> None:
    slope, shift = factors
    block, before = read(file, table.shape[1]), None if minus is None else read(minus, table.shape[1]).clone()
    write(target, held(graph, i).image(table, slope * read(roots, 1), block, shift=shift, minus=before))


def _alone(
    told: tuple[Path, Callable[[Space], T], TiledGraph, Sequence[RowFile], float], hand: Sequence[int]
) -> list[tuple[T, int]] | None:
    """The result of a function on a space whose rows are shared by a gang; None if others do not follow."""
    folder, work, graph, roots, scale = told
    store = SharedStore(folder, graph.bounds, hand)
    space = SharedSpace(graph, store, RowMatrix(roots, graph.bounds, 1, keep=True), scale)
    try:
        found = work(space)
    except Apart:
        return None
    return [(found, space.products)] * len(hand)


def _random(rows: tuple[int, int], columns: int, seed: int, grain: int, target: RowFile) -> None:
    first, last = rows
    numbers = torch.empty(last - first, columns)
    for some in grains(last - first, grain):
        generator = np.random.default_rng((seed, first + some.start))
        generator.standard_normal(dtype=np.float32, out=numbers[some].numpy())
    write(target, numbers)


# The closure sent to the parts of a tall matrix is made by a separate function, so it carries no more than it needs.
def _scaled(factors: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda rows: rows * factors
