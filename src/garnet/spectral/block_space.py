"""What the block solver asks of the place where its tall matrices live: memory, a GPU, a disk or a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from garnet.linalg.dense import inner, product
from garnet.spectral.spectrum import End

Block = Any
"""A tall matrix, (n, b): a tensor in memory, or a handle to what a disk or a cluster holds."""


class Basis(Protocol):
    """Orthonormal columns that grow by blocks."""

    @property
    def size(self) -> int:
        """Columns so far."""

    def dot(self, block: Block) -> Tensor:
        """Q^T X, (size, b)."""

    def less(self, block: Block, coefficients: Tensor) -> Block:
        """X - Q C."""

    def append(self, block: Block) -> None:
        """Add these columns to Q."""

    def rotate(self, rotation: Tensor) -> Block:
        """Q R."""

    def keep(self, rotation: Tensor) -> None:
        """Replace Q by Q R."""


class Space(Protocol):
    """A symmetric matrix, scaled so that no row sums to more than one, and room for tall matrices beside it.

    Attributes:
        n: number of rows.
        products: how many columns have met the matrix so far.
        scale: by what the matrix was divided.
        longest: entries of the fullest row.
    """

    n: int
    products: int
    scale: float
    longest: int

    def random(self, columns: int) -> Block:
        """Independent standard normal numbers, new ones at every call."""

    def constant(self, value: float) -> Block:
        """One column of a number."""

    def product(self, block: Block, *, slope: float = 1.0, shift: float = 0.0, minus: Block | None = None) -> Block:
        """Slope A X - shift X - minus."""

    def map(self, work: Callable[..., Tensor], *blocks: Block) -> Block:
        """What `work` makes of the rows of some tall matrices, row by row."""

    def sum(self, work: Callable[..., Tensor], *blocks: Block) -> Tensor:
        """The sum over all rows of what `work` makes of some of them: a small matrix, in float64."""

    def basis(self, capacity: int) -> Basis:
        """An empty basis that will have no more columns than that."""

    def coarser(self) -> tuple[Space, Callable[[Tensor], Block]] | None:
        """A smaller matrix in memory whose smooth vectors are alike, and what makes its vectors into those of this one.

        None where there is no such thing.
        """


def gram(space: Space, left: Block, right: Block) -> Tensor:
    """X^T Y in float64."""
    return space.sum(inner, left, right)


def times(space: Space, block: Block, factor: Tensor) -> Block:
    """X F for a small matrix F."""
    return space.map(lambda x: product(x, factor.to(x)), block)


def lengths(space: Space, block: Block) -> Tensor:
    """Norm of each column."""
    return space.sum(lambda x: x.square().sum(dim=0), block).sqrt()


def filtered(space: Space, block: Block, cutoff: float, top: float, growth: float, end: End) -> Block:
    """T_d(B) times the block, where B is the matrix mapped so that what lies below `cutoff` falls in [-1, 1].

    Args:
        space: the matrix.
        block: (n, b) columns.
        cutoff: level, or absolute value where magnitudes lead, above which eigenvectors grow.
        top: the largest absolute eigenvalue.
        growth: how much the top is to grow; it decides the degree d.
        end: which end of the spectrum leads.
    """
    bottom = -cutoff if end == "magnitude" else -top
    centre, half = (cutoff + bottom) / 2, (cutoff - bottom) / 2
    degree = max(1, round(math.acosh(growth) / math.acosh(max((top - centre) / half, 1 + 1e-4))))
    if end == "magnitude":
        degree += 1 - degree % 2  # even powers of the matrix cannot tell an eigenvalue from its negative
    before, now = block, space.product(block, slope=1 / half, shift=centre / half)
    for _ in range(degree - 1):
        before, now = now, space.product(now, slope=2 / half, shift=2 * centre / half, minus=before)
    return now
