"""The leading eigenpairs of a graph, the paper's V, and the solvers that find them."""

from __future__ import annotations

from garnet.spectral.arpack import Arpack
from garnet.spectral.chebyshev import Chebyshev
from garnet.spectral.spectrum import Solver, Spectrum, normalized_adjacency

__all__ = ["Arpack", "Chebyshev", "Solver", "Spectrum", "choose_solver", "normalized_adjacency"]


def choose_solver(n: int) -> Solver:
    """A dense solver up to 1,000 nodes; the filtered block solver above, to a tighter tolerance where that is cheap."""
    return Arpack() if n <= 1_000 else Chebyshev(tol=1e-5 if n <= 50_000 else 1e-4)
