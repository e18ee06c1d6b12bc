"""What a model needs from a matrix: a shape, and products with blocks of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class LinearMap(Protocol):
    """A matrix as models see it, whether it is stored, sparse, or never formed.

    A dense `Tensor` is one, and so are `SparseMatrix`, `WeightedMatrix` and anything else that multiplies: a matrix
    that an attack observes, or one that is learnt along with the model. Gradients flow to the block it is multiplied
    with.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        ...

    def __matmul__(self, block: Tensor, /) -> Tensor:
        """The matrix (m, n) times a block (n, f): shape (m, f)."""
        ...


@dataclass(frozen=True, eq=False)
class ScaledMap:
    """D M D of a square matrix M, with D diagonal; nothing is formed, and gradients flow to both.

    Attributes:
        matrix: M, (n, n).
        factors: (n,) diagonal of D.
    """

    matrix: LinearMap
    factors: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.matrix.shape

    def __matmul__(self, block: Tensor) -> Tensor:
        """Its product with (n, f)."""
        return self.factors[:, None] * (self.matrix @ (self.factors[:, None] * block))


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """D M of a matrix M, with D diagonal; nothing is formed, and gradients flow to both.

    Attributes:
        matrix: M, (m, n).
        factors: (m,) diagonal of D.
    """

    matrix: LinearMap
    factors: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.matrix.shape

    def __matmul__(self, block: Tensor) -> Tensor:
        """Its product with (n, f)."""
        return self.factors[:, None] * (self.matrix @ block)
