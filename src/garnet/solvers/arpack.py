"""Implicitly restarted Lanczos, for small graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.errors import ConvergenceError
from garnet.solvers.convergence import check
from garnet.spectral import End, Spectrum

_DENSE_UP_TO = 400


@dataclass(frozen=True, kw_only=True)
class Arpack:
    """ARPACK in float64; a dense solver up to 400 nodes, or when half of all pairs are wanted.

    Attributes:
        tol: bound on the residuals, relative to the largest eigenvalue.
        strict: raise `ConvergenceError` instead of warning when the tolerance is not met.
    """

    tol: float = 1e-7
    strict: bool = False

    def __call__(self, matrix: sp.csr_array, rank: int, *, end: End, seed: int, device: str) -> Spectrum:
        """See `Solver`."""
        n, products = matrix.shape[0], 0

        def multiply(x: NDArray[np.float64]) -> Any:
            nonlocal products
            products += 1
            return matrix @ x

        if n <= _DENSE_UP_TO or 2 * rank >= n:
            values, vectors = np.linalg.eigh(matrix.toarray())
        else:
            start = np.random.default_rng(seed).standard_normal(n)
            operator = sp.linalg.LinearOperator(matrix.shape, matvec=multiply, dtype=np.float64)
            which = "LA" if end == "algebraic" else "LM"
            try:
                values, vectors = sp.linalg.eigsh(operator, k=rank, which=which, tol=self.tol, v0=start)
            except sp.linalg.ArpackNoConvergence as stopped:
                raise ConvergenceError(
                    f"ARPACK found {len(stopped.eigenvalues)} of {rank} eigenpairs; ask for a smaller rank or a larger "
                    "tol, or use Chebyshev."
                ) from stopped
        order = np.argsort(-(values if end == "algebraic" else np.abs(values)), kind="stable")[:rank]
        values, vectors = values[order], np.ascontiguousarray(vectors[:, order])
        residuals = torch.from_numpy(np.linalg.norm(matrix @ vectors - vectors * values, axis=0))
        largest = max(float(np.abs(values).max()), 1e-300)
        check(residuals, 10 * max(self.tol, 1e-13) * largest, strict=self.strict, solver="ARPACK")
        pairs = torch.from_numpy(values).to(device), torch.from_numpy(vectors).to(device)
        return Spectrum(*pairs, residuals.to(device), products)
