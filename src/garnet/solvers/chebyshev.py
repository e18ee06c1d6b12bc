"""Block Krylov iteration with a Chebyshev filter, for large graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.solvers.arpack import Arpack
from garnet.solvers.convergence import check
from garnet.solvers.density import largest, level
from garnet.solvers.operator import Operator
from garnet.spectral import End, Spectrum


@dataclass(frozen=True, kw_only=True)
class Chebyshev:
    """Leading eigenpairs by a filtered block Krylov basis, in float32, on CPU or CUDA.

    The leading eigenvalues of a real graph crowd: of a citation graph with 170,000 nodes the 50th and 51st differ by
    2e-4, and only polynomials of degree 300 tell them apart. Plain Lanczos gets there with as many blocks, whose
    orthogonalisation costs more than the products do; filtered subspace iteration has a small basis, but throws away
    what earlier rounds found. Here the basis grows by blocks as in Lanczos, with the matrix replaced by a Chebyshev
    polynomial of it that is at most 1 on the unwanted part of the spectrum and `growth` at its leading end: few blocks,
    high degree.

    Pairs count as converged when all residuals are within `tol` and then a fresh random block, filtered alike, still
    leaves them so: of a multiple eigenvalue (a graph in many pieces), a block Krylov space sees no more copies than
    the block has columns.

    Attributes:
        tol: bound on the residuals, relative to the largest eigenvalue; widened to what float32 can reach where a node
            has thousands of neighbours.
        block: columns multiplied at once; None is a quarter of the rank, from 16 to 64.
        growth: how far the filter lifts the leading end; beyond about 1e4 float32 loses the trailing pairs.
        max_products: products of the matrix with a column after which to give up; None is 1,000 a pair.
        strict: raise `ConvergenceError` instead of warning when the tolerance is not met.
    """

    tol: float = 1e-4
    block: int | None = None
    growth: float = 300.0
    max_products: int | None = None
    strict: bool = False

    def __call__(self, matrix: sp.csr_array, rank: int, *, end: End, seed: int, device: str) -> Spectrum:
        """See `Solver`."""
        n = matrix.shape[0]
        block = self.block or min(max(16 * round(rank / 64), 16), 64)
        if n < 4 * (rank + block):  # the basis would fill the space
            return Arpack(strict=self.strict)(matrix, rank, end=end, seed=seed, device=device)
        scale = float(abs(matrix).sum(axis=1).max())  # float32 has neither room for 1e30 nor for 1e-30
        if not scale:
            scale = 1.0
        operator = Operator(matrix / scale, device)
        generator = torch.Generator(device).manual_seed(seed)

        def fresh(columns: int = block) -> Tensor:
            return torch.randn(n, columns, generator=generator, device=device)

        top, error = largest(operator)
        begins = level(operator, fresh()[:, :8], 1.5 * rank, 1.01 * (top + error), end)
        # The kernel smears the density outwards: the leading part begins deeper than it seems.
        top = max(top, 1e-6)
        cutoff = max(top - 1.4 * max(top - begins, 0.01 * top), 0.05 * top)

        # The sum of a long row is rounded that often: no residual in float32 gets below this.
        rounding = 8 * torch.finfo(torch.float32).eps * float(np.diff(matrix.indptr).max()) ** 0.5
        tol = max(self.tol, rounding)
        budget = self.max_products or 1000 * rank
        basis = _Basis(operator, min(2 * rank + 12 * block, n // 2), fresh)
        latest, previous, verified = fresh(), torch.zeros(rank, device=device), False
        while True:
            latest = basis.extend(operator.filter(latest, cutoff, top, self.growth, end))
            if basis.size < rank + block:
                continue
            ritz, rotation = basis.ritz(end)
            values = ritz[:rank]
            top = max(top, float(values[0].abs()))
            last = float(values[-1].abs() if end == "magnitude" else values[-1])
            if last < cutoff and basis.size >= 2 * rank:
                cutoff = max(last - 0.1 * (top - last), 0.05 * top)
            exhausted, full = operator.products >= budget, basis.room < block
            settled = float((values - previous).abs().max()) <= tol * top
            previous = values
            if not (settled or exhausted or full):
                continue
            vectors = basis.rotate(rotation[:, :rank])
            residuals = (operator @ vectors - vectors * values).norm(dim=0)
            converged = bool(residuals.max() <= tol * top)
            if exhausted or (converged and verified):
                break
            if full:  # start again from the pairs that lag behind
                basis.compress(rotation[:, : rank + 2 * block])
                latest = vectors[:, residuals.topk(min(block, rank)).indices]
            if converged:
                latest, verified = fresh(), True
        values, residuals = scale * values, scale * residuals
        check(residuals, scale * tol * top, strict=self.strict, solver="The Chebyshev solver")
        return Spectrum(values, operator.restore(vectors), residuals, operator.products)


class _Basis:
    """Orthonormal columns Q, and H = Q^T A Q kept up as they come."""

    def __init__(self, operator: Operator, capacity: int, fresh: Callable[[int], Tensor]) -> None:
        self._operator = operator
        self._fresh = fresh
        self._columns = torch.empty(operator.n, capacity, device=operator.device)
        self._projected = torch.zeros(capacity, capacity, dtype=torch.float64, device=operator.device)
        self.size = 0

    @property
    def room(self) -> int:
        return self._columns.shape[1] - self.size

    def extend(self, block: Tensor) -> Tensor:
        """Add what is new in the block, orthonormalised, with random columns for those that were not; returns that."""
        known, wanted = self._columns[:, : self.size], block.shape[1]
        block = _orthonormal(block / block.norm(dim=0).clamp_min(1e-30), known)
        while block.shape[1] < wanted:
            more = torch.cat([block, self._fresh(wanted - block.shape[1])], dim=1)
            block = _orthonormal(more / more.norm(dim=0), known)
        start, self.size = self.size, self.size + block.shape[1]
        self._columns[:, start : self.size] = block
        image = (self._columns[:, : self.size].T @ (self._operator @ block)).double()
        self._projected[: self.size, start : self.size] = image
        self._projected[start : self.size, : self.size] = image.T
        return block

    def ritz(self, end: End) -> tuple[Tensor, Tensor]:
        """Eigenvalues of H, the leading one first, and its eigenvectors."""
        values, vectors = torch.linalg.eigh(self._projected[: self.size, : self.size])
        order = (values if end == "algebraic" else values.abs()).argsort(descending=True)
        return values[order].float(), vectors[:, order].float()

    def rotate(self, rotation: Tensor) -> Tensor:
        return self._columns[:, : self.size] @ rotation

    def compress(self, rotation: Tensor) -> None:
        """Keep only these combinations of columns: a thick restart."""
        exact = rotation.double()
        projected = exact.T @ self._projected[: self.size, : self.size] @ exact
        kept = self.rotate(rotation)
        self.size = rotation.shape[1]
        self._columns[:, : self.size] = kept
        self._projected[: self.size, : self.size] = projected


def _orthonormal(block: Tensor, known: Tensor) -> Tensor:
    """An orthonormal basis of what unit columns have beyond `known`; fewer columns if some say nothing new.

    The Gram matrix is decomposed in float64, and directions that float32 cannot tell from rounding are left out.
    """
    for _ in range(2):
        block = block - known @ (known.T @ block)
        lengths, directions = torch.linalg.eigh((block.T @ block).double())
        new = lengths > 1e-9
        block = block @ (directions[:, new] * lengths[new].rsqrt()).float()
    return block
