"""Eigensolvers for the leading end of a symmetric sparse matrix."""

from __future__ import annotations

from garnet.solvers.arpack import Arpack
from garnet.solvers.chebyshev import Chebyshev
from garnet.spectral import Solver

__all__ = ["Arpack", "Chebyshev", "choose_solver"]


def choose_solver(n: int) -> Solver:
    """A dense solver up to 1,000 nodes; the filtered block solver above, to a tighter tolerance where that is cheap."""
    return Arpack() if n <= 1_000 else Chebyshev(tol=1e-5 if n <= 50_000 else 1e-4)
