"""Columns of a tall matrix that go through a whole polynomial in a process that holds the adjacency.

The result does not depend on how they are grouped: a row of a product is summed entry by entry, in the order of the
matrix's columns, separately for each column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from garnet.linalg.fixed_point import fixed, number
from garnet.places.held_matrix import HeldMatrix
from garnet.places.row_store import grain_of, grains
from garnet.spectral.block_space import Polynomial, by_products, moments_by_products


class HeldOperator:
    """S A S divided by a number, and columns in memory: as much of a `Space` as a polynomial of it needs.

    Args:
        matrix: A.
        roots: (n, 1) diagonal of S.
        scale: what the matrix is divided by.
    """

    def __init__(self, matrix: HeldMatrix, roots: Tensor, scale: float) -> None:
        self._matrix, self._roots, self._scale = matrix, roots, scale
        self._table = roots.new_empty(0)

    def product(self, block: Tensor, *, slope: float = 1.0, shift: float = 0.0, minus: Tensor | None = None) -> Tensor:
        """See `Space`; the subtrahend is overwritten with the result."""
        if self._table.shape != block.shape:
            self._table = torch.empty_like(block)
        torch.mul(block, self._roots, out=self._table)
        factors = slope / self._scale * self._roots
        return self._matrix.image(self._table, factors, block, shift=shift, minus=minus)

    def sum(self, work: Callable[..., Tensor], *blocks: Tensor) -> Tensor:
        """See `Space`."""
        pieces = grains(len(blocks[0]), grain_of(len(blocks[0])))
        return number(fixed([work(*(block[some] for block in blocks)) for some in pieces]))

    def filtered(self, block: Tensor, polynomial: Polynomial) -> Tensor:
        """A polynomial of the matrix times the block, which is overwritten; columns have a length of about one."""
        found: Tensor = by_products(self._space, block, polynomial)
        return found.mul_(unit_factors(self.sum(squares, found)))

    def moments(self, block: Tensor, polynomial: Polynomial) -> Tensor:
        """See `Space`; the block is overwritten."""
        return moments_by_products(self._space, block, polynomial)

    @property
    def _space(self) -> Any:
        return self


def squares(rows: Tensor) -> Tensor:
    """The sum of squares of each column."""
    return rows.double().square().sum(dim=0)


def unit_factors(squares: Tensor) -> Tensor:
    """Powers of two, for exact scaling, that give columns with such sums of squares a length of about one; float32."""
    return torch.exp2(-(squares.clamp_min(1e-60).log2() / 2).round()).float()
