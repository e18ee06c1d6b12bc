"""Columns of a tall matrix that go through a whole polynomial in one task, whose process holds the adjacency.

No column needs any other, so that a filter of degree d is one round of tasks instead of d, and nothing but the columns
themselves is exchanged. What comes out does not depend on how they are grouped: a row of a product is added up entry by
entry, in the order of the columns of the matrix, for each column on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from garnet.linalg.fixed_point import fixed, number
from garnet.places.held_matrix import HeldMatrix, held
from garnet.places.row_files import RowFile, write_array
from garnet.places.row_store import RowMatrix, columns_of, grain_of, grains, whole
from garnet.places.tiles import TiledGraph
from garnet.spectral.block_space import Polynomial, by_products, moments_by_products


class HeldOperator:
    """S A S over a number, and columns in memory: as much of a `Space` as a polynomial of it needs.

    Args:
        matrix: A.
        roots: (n, 1) diagonal of S.
        scale: what the matrix is divided by.
    """

    def __init__(self, matrix: HeldMatrix, roots: Tensor, scale: float) -> None:
        self._matrix, self._roots, self._scale = matrix, roots, scale
        self._table = roots.new_empty(0)

    def product(self, block: Tensor, *, slope: float = 1.0, shift: float = 0.0, minus: Tensor | None = None) -> Tensor:
        """See `Space`; what is subtracted is overwritten with the result."""
        if self._table.shape != block.shape:
            self._table = torch.empty_like(block)
        torch.mul(block, self._roots, out=self._table)
        target, factors = torch.empty_like(block) if minus is None else minus, (slope / self._scale) * self._roots
        for some, image in self._matrix.product(self._table):
            image *= factors[some]
            if minus is not None:
                image -= minus[some]
            if shift:
                image.sub_(block[some], alpha=shift)
            target[some] = image
        return target

    def sum(self, work: Callable[..., Tensor], *blocks: Tensor) -> Tensor:
        """See `Space`."""
        pieces = grains(len(blocks[0]), grain_of(len(blocks[0])))
        return number(fixed([work(*(block[some] for block in blocks)) for some in pieces]))

    def filtered(self, block: Tensor, polynomial: Polynomial) -> Tensor:
        """A polynomial of the matrix times the block, which is overwritten, in columns of a length of about one."""
        found: Tensor = by_products(self._space, block, polynomial)
        return found.mul_(unit_factors(self.sum(squares, found)))

    def moments(self, block: Tensor, polynomial: Polynomial) -> Tensor:
        """See `Space`; the block is overwritten."""
        return moments_by_products(self._space, block, polynomial)

    @property
    def _space(self) -> Any:
        return self


def squares(rows: Tensor) -> Tensor:
    """The squares of each column, added up."""
    return rows.double().square().sum(dim=0)


def unit_factors(squares: Tensor) -> Tensor:
    """Powers of two, which round nothing, that make columns with such sums of squares about one long; float32."""
    return torch.exp2(-(squares.clamp_min(1e-60).log2() / 2).round()).float()


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Some columns of a tall matrix, and the matrix that they meet.

    Attributes:
        graph: with the adjacency A.
        roots: where the diagonal of S is, part by part.
        scale: what S A S is divided by.
        bounds: of the parts.
        files: where the parts of the tall matrix are.
        width: of that.
        first: of the columns.
        last: the column after them.
    """

    graph: TiledGraph
    roots: tuple[RowFile, ...]
    scale: float
    bounds: tuple[int, ...]
    files: tuple[RowFile, ...]
    width: int
    first: int
    last: int

    def taken(self) -> tuple[HeldOperator, Tensor]:
        """Matrix and columns, in memory."""
        block = columns_of(RowMatrix(self.files, self.bounds, self.width, keep=True), self.first, self.last)
        return held_operator(self.graph, self.roots, self.bounds, self.scale), block


def held_operator(graph: TiledGraph, roots: Sequence[RowFile], bounds: Sequence[int], scale: float) -> HeldOperator:
    """S A S over a number, whose adjacency this process holds from now on."""
    return HeldOperator(held(graph), whole(RowMatrix(roots, bounds, 1, keep=True)), scale)


def multiply_columns(task: Columns, target: Path) -> None:
    """Write the matrix times some columns."""
    operator, block = task.taken()
    _write_columns(target, operator.product(block))


def filter_columns(task: Columns, target: Path, polynomial: Polynomial) -> None:
    """Write a polynomial of the matrix times some columns."""
    operator, block = task.taken()
    _write_columns(target, operator.filtered(block, polynomial))


def moments_of_columns(task: Columns, polynomial: Polynomial) -> Tensor:
    """See `moments_by_products`."""
    operator, block = task.taken()
    return operator.moments(block, polynomial)


def _write_columns(target: Path, block: Tensor) -> None:
    write_array(target, block.T.numpy())
