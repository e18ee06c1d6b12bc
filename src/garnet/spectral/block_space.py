"""What the block solver needs from the place that holds its tall matrices: memory, a GPU, a disk or a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from garnet.linalg.dense import inner
from garnet.spectral.spectrum import End

Block = Any
"""A tall matrix, (n, b): a tensor in memory, or a handle to what a disk or a cluster holds."""

T = TypeVar("T")


@dataclass(frozen=True)
class Polynomial:
    """T_d((A - centre) / half), a Chebyshev polynomial of the matrix.

    Attributes:
        centre: the value mapped to 0.
        half: the distance from the centre of the values mapped to 1 and -1.
        degree: d, at least 1.
    """

    centre: float
    half: float
    degree: int


class Basis(Protocol):
    """Orthonormal columns that grow by blocks."""

    @property
    def size(self) -> int:
        """Number of columns so far."""

    def dot(self, block: Block) -> Tensor:
        """Q^T X, (size, b)."""

    def less(self, block: Block, coefficients: Tensor) -> Block:
        """X - Q C."""

    def remainder(self, block: Block, coefficients: Tensor) -> tuple[Block, Tensor]:
        """X - Q C, and its Gram matrix in float64."""

    def mixed(self, block: Block, factor: Tensor) -> tuple[Block, Tensor]:
        """X F for a small matrix F, and Q^T X F."""

    def append(self, block: Block) -> None:
        """Add these columns to Q."""

    def rotate(self, rotation: Tensor) -> Block:
        """Q R."""

    def keep(self, rotation: Tensor) -> None:
        """Replace Q by Q R."""


class Space(Protocol):
    """A symmetric matrix, scaled so that no row sums to more than one, with room for tall matrices beside it.

    Attributes:
        n: number of rows.
        products: how many columns the matrix has multiplied so far.
        scale: what the matrix was divided by.
        longest: number of entries of the fullest row.
    """

    n: int
    products: int
    scale: float
    longest: int

    def random(self, columns: int) -> Block:
        """Independent standard normal numbers, fresh at every call."""

    def constant(self, value: float) -> Block:
        """One constant column."""

    def product(self, block: Block, *, slope: float = 1.0, shift: float = 0.0, minus: Block | None = None) -> Block:
        """Slope A X - shift X - minus."""

    def filtered(self, block: Block, polynomial: Polynomial) -> Block:
        """A polynomial of the matrix times the block, up to scaling of its columns; see `by_products`."""

    def moments(self, block: Block, polynomial: Polynomial) -> Tensor:
        """The result of `moments_by_products`."""

    def alone(self, work: Callable[[Space], T]) -> T:
        """The result of `work` on the space, with no blocks wider than a column."""

    def times(self, block: Block, factor: Tensor) -> Block:
        """X F for a small matrix F."""

    def unit(self, block: Block) -> Block:
        """Columns scaled to a length of about one."""

    def map(self, work: Callable[..., Tensor], *blocks: Block) -> Block:
        """`work` applied to the rows of some tall matrices, row by row."""

    def sum(self, work: Callable[..., Tensor], *blocks: Block) -> Tensor:
        """The sum of `work` over all groups of rows: a small matrix, in float64."""

    def basis(self, capacity: int) -> Basis:
        """An empty basis with room for that many columns."""

    def coarser(self) -> tuple[Space, Callable[[Tensor], Block]] | None:
        """A smaller matrix in memory with similar smooth vectors, and the map from its vectors to those of this one.

        None where there is none.
        """


def gram(space: Space, left: Block, right: Block) -> Tensor:
    """X^T Y in float64."""
    return space.sum(inner, left, right)


def polynomials(space: Space, block: Block, polynomial: Polynomial) -> Iterator[Block]:
    """T_0 X, T_1 X, and so on to T_d X, one product after another."""
    centre, half = polynomial.centre, polynomial.half
    before, now = block, space.product(block, slope=1 / half, shift=centre / half)
    yield before
    yield now
    for _ in range(polynomial.degree - 1):
        before, now = now, space.product(now, slope=2 / half, shift=2 * centre / half, minus=before)
        yield now


def by_products(space: Space, block: Block, polynomial: Polynomial) -> Block:
    """T_d X, one product after another."""
    for now in polynomials(space, block, polynomial):
        block = now
    return block


def moments_by_products(space: Space, block: Block, polynomial: Polynomial) -> Tensor:
    """For each column x the numbers x^T T_0 T_1 x, x^T T_1 T_1 x, x^T T_1 T_2 x and so on to T_(d-1) T_d.

    Returns:
        (2d - 1, b) in float64.
    """
    found: list[Tensor] = []
    before: Block | None = None
    for number, now in enumerate(polynomials(space, block, polynomial)):
        if before is not None:
            found.append(space.sum(columnwise, before, now))
        if 0 < number < polynomial.degree:
            found.append(space.sum(columnwise, now, now))
        before = now
    return torch.stack(found)


def columnwise(left: Tensor, right: Tensor) -> Tensor:
    """The inner product of each column of one block with that of another, in float64."""
    # One by one: a single sum over everything would be split into as many parts as there are threads.
    return (left * right).sum(dim=0, dtype=torch.float64)


def lifting(cutoff: float, top: float, growth: float, end: End) -> Polynomial:
    """The polynomial that lifts eigenvalues above a cutoff: it maps those below to [-1, 1].

    Args:
        cutoff: value, or absolute value where magnitudes lead, above which eigenvectors grow.
        top: the largest absolute eigenvalue.
        growth: how much the top should grow; this decides the degree.
        end: which end of the spectrum leads.
    """
    bottom = -cutoff if end == "magnitude" else -top
    centre, half = (cutoff + bottom) / 2, (cutoff - bottom) / 2
    degree = max(1, round(math.acosh(growth) / math.acosh(max((top - centre) / half, 1 + 1e-4))))
    if end == "magnitude":
        degree += 1 - degree % 2  # even powers of the matrix cannot tell an eigenvalue from its negative
    return Polynomial(centre, half, degree)
