"""What the block solver asks of the place where its tall matrices live: memory, a GPU, a disk or a cluster."""

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
        centre: what becomes 0.
        half: how far from it the values lie that become 1 and -1.
        degree: d, at least 1.
    """

    centre: float
    half: float
    degree: int


class Basis(Protocol):
    """Orthonormal columns that grow by blocks."""

    @property
    def size(self) -> int:
        """Columns so far."""

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

    def filtered(self, block: Block, polynomial: Polynomial) -> Block:
        """A polynomial of the matrix times the block; columns may come multiplied by numbers: see `by_products`."""

    def moments(self, block: Block, polynomial: Polynomial) -> Tensor:
        """What `moments_by_products` gives."""

    def alone(self, work: Callable[[Space], T]) -> T:
        """What `work` makes of the space, with no block but of a column."""

    def times(self, block: Block, factor: Tensor) -> Block:
        """X F for a small matrix F."""

    def unit(self, block: Block) -> Block:
        """Columns of a length of about one."""

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


def polynomials(space: Space, block: Block, polynomial: Polynomial) -> Iterator[Block]:
    """T_0 X, T_1 X, and so on to T_d X, one product after the other."""
    centre, half = polynomial.centre, polynomial.half
    before, now = block, space.product(block, slope=1 / half, shift=centre / half)
    yield before
    yield now
    for _ in range(polynomial.degree - 1):
        before, now = now, space.product(now, slope=2 / half, shift=2 * centre / half, minus=before)
        yield now


def by_products(space: Space, block: Block, polynomial: Polynomial) -> Block:
    """T_d X, one product after the other."""
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
    # One by one: one sum over everything would be cut into as many parts as there are threads.
    return (left * right).sum(dim=0, dtype=torch.float64)


def lifting(cutoff: float, top: float, growth: float, end: End) -> Polynomial:
    """The polynomial that lifts what lies above a cutoff: it maps what lies below to [-1, 1].

    Args:
        cutoff: level, or absolute value where magnitudes lead, above which eigenvectors grow.
        top: the largest absolute eigenvalue.
        growth: how much the top is to grow; it decides the degree.
        end: which end of the spectrum leads.
    """
    bottom = -cutoff if end == "magnitude" else -top
    centre, half = (cutoff + bottom) / 2, (cutoff - bottom) / 2
    degree = max(1, round(math.acosh(growth) / math.acosh(max((top - centre) / half, 1 + 1e-4))))
    if end == "magnitude":
        degree += 1 - degree % 2  # even powers of the matrix cannot tell an eigenvalue from its negative
    return Polynomial(centre, half, degree)
