"""Symmetric matrices of low rank that are never formed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from garnet.linalg.linear_map import LinearMap, ScaledMap

# Degrees below count as not positive, as in a dense matrix.
_LEAST_DEGREE = 1e-6


@dataclass(frozen=True, eq=False)
class LowRank:
    r""":math:`V C V^T + c I`, with n r + r r numbers instead of n n; gradients flow to V and C.

    Attributes:
        vectors: V, (n, r).
        core: C, (r, r) and symmetric.
        loops: c, added to the diagonal.
    """

    vectors: Tensor
    core: Tensor
    loops: float = 0.0

    @classmethod
    def within(cls, adjacency: LinearMap, vectors: Tensor) -> LowRank:
        r""":math:`U (U^T A U) U^T`: the part of a symmetric matrix A in the space of orthonormal U, (n, r).

        With leading eigenvectors of A it is A truncated to rank r. Gradients flow to A while U is fixed: this is the
        part of the truncated matrix's derivative in which the space does not turn. See
        `garnet.spectral.perturbation.truncated` for the rest.
        """
        return cls(vectors, vectors.T @ (adjacency @ vectors))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.vectors), len(self.vectors)

    def __matmul__(self, block: Tensor) -> Tensor:
        """The matrix times (n, f)."""
        product = self.vectors @ (self.core @ (self.vectors.T @ block))
        return product + self.loops * block if self.loops else product

    def normalized(self, loops: float) -> ScaledMap:
        r""":math:`D^{-1/2} (V C V^T + c I) D^{-1/2}`, with zeros where a degree is not positive.

        It is `garnet.backbones.matrices.dense_matrix` without the dense matrix: what a GCN averages with.

        Args:
            loops: the new c.
        """
        looped = replace(self, loops=loops)
        degrees = (looped @ self.vectors.new_ones(len(self.vectors), 1))[:, 0]
        root = torch.where(degrees > _LEAST_DEGREE, degrees.clamp_min(_LEAST_DEGREE).rsqrt(), 0.0)
        return ScaledMap(looped, root)
