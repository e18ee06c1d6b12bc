"""Implicitly restarted Lanczos, for small graphs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from garnet.errors import ConvergenceError
from garnet.linalg.dense import eigh
from garnet.linalg.threads import sharing
from garnet.parameters import NonNegative, require_parameters
from garnet.spectral.convergence import check
from garnet.spectral.spectrum import End, Spectrum

_DENSE_UP_TO = 1_000


@dataclass(frozen=True, kw_only=True)
class Arpack:
    """ARPACK in float64, component by component; a dense solver for components of up to 1,000 nodes.

    Lanczos from a single vector sees one copy of a multiple eigenvalue, and a graph has the eigenvalue 1 once for each
    component. Solving component by component finds all of these copies; it may miss copies within a large component (of
    a tree or a lattice), which is why `Chebyshev` is the choice above 1,000 nodes.

    Attributes:
        tol: bound on the residuals, relative to the largest eigenvalue.
        strict: raise `ConvergenceError` instead of warning when the tolerance is not met.
    """

    tol: NonNegative = 1e-7
    strict: bool = False

    def __post_init__(self) -> None:
        require_parameters(self)

    def __call__(self, matrix: sp.csr_array, rank: int, *, end: End, seed: int, device: str) -> Spectrum:
        """See `Solver`."""
        with sharing(matrix.nnz + matrix.shape[0]):
            return self._pairs(matrix, rank, end, seed, device)

    def _pairs(self, matrix: sp.csr_array, rank: int, end: End, seed: int, device: str) -> Spectrum:
        """The leading pairs of all components together."""
        pieces, piece_of = connected_components(matrix, directed=False)
        order = np.argsort(piece_of, kind="stable")
        sorted_matrix = matrix[order][:, order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(piece_of, minlength=pieces))])
        products, found = 0, []
        for start, stop in itertools.pairwise(starts):
            part = sorted_matrix[start:stop, start:stop]
            values, vectors, used = self._solve(part, min(rank, stop - start), end, seed)
            found.append((values, vectors))
            products += used
        everything = np.concatenate([values for values, _ in found])
        leading = _leading(everything, end)[:rank]
        firsts = np.cumsum([0] + [len(values) for values, _ in found])
        vectors = np.zeros((matrix.shape[0], rank))
        for column, index in enumerate(leading):
            piece = int(np.searchsorted(firsts, index, side="right")) - 1
            nodes = order[starts[piece] : starts[piece + 1]]
            vectors[nodes, column] = found[piece][1][:, index - firsts[piece]]
        values = everything[leading]
        residuals = torch.from_numpy(np.linalg.norm(matrix @ vectors - vectors * values, axis=0))
        largest = max(float(np.abs(values).max()), 1e-300)
        check(residuals, 10 * max(self.tol, 1e-13) * largest, strict=self.strict, solver="ARPACK")
        pairs = torch.from_numpy(values).to(device), torch.from_numpy(vectors).to(device)
        return Spectrum(*pairs, residuals.to(device), products)

    def _solve(
        self, matrix: sp.csr_array, rank: int, end: End, seed: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """Leading pairs of one component, and the number of products they took."""
        n, products = matrix.shape[0], 0

        def multiply(x: NDArray[np.float64]) -> NDArray[np.float64]:
            nonlocal products
            products += 1
            return np.asarray(matrix @ x)

        if n <= _DENSE_UP_TO or 2 * rank >= n:
            values, vectors = (part.numpy() for part in eigh(torch.from_numpy(matrix.toarray())))
        else:
            start = np.random.default_rng(seed).standard_normal(n)
            operator = LinearOperator(matrix.shape, matvec=multiply, dtype=np.float64)
            which = "LA" if end == "algebraic" else "LM"
            try:
                values, vectors = eigsh(operator, k=rank, which=which, tol=self.tol, v0=start)
            except ArpackNoConvergence as stopped:
                raise ConvergenceError(
                    f"ARPACK found {len(stopped.eigenvalues)} of {rank} eigenpairs; ask for a smaller rank or a larger "
                    "tol, or use Chebyshev."
                ) from stopped
        leading = _leading(values, end)[:rank]
        return values[leading], vectors[:, leading], products


def _leading(values: NDArray[np.float64], end: End) -> NDArray[np.int64]:
    """The order that puts the leading value first."""
    return np.argsort(-(values if end == "algebraic" else np.abs(values)), kind="stable")
