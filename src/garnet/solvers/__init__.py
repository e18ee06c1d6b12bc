"""Eigensolvers for the leading end of a symmetric sparse matrix."""

from __future__ import annotations

from garnet.solvers.arpack import Arpack
from garnet.solvers.chebyshev import Chebyshev
from garnet.spectral import Solver

__all__ = ["Arpack", "Chebyshev", "choose_solver"]


def choose_solver(n: int) -> Solver:
    """ARPACK up to 8,000 nodes, where it costs a fraction of a second; the filtered block solver above."""
    return Arpack() if n <= 8_000 else Chebyshev()
