"""What a solver reports when it stops short of its tolerance."""

from __future__ import annotations

import warnings

from torch import Tensor

from garnet.errors import ConvergenceError, ConvergenceWarning


def check(residuals: Tensor, bound: float, *, strict: bool, solver: str) -> None:
    """Warn, or raise if `strict`, when the largest residual exceeds the bound."""
    worst = float(residuals.max())
    if worst <= bound:
        return
    message = (
        f"{solver} stopped at a residual of {worst:.1e} where {bound:.1e} was asked for; "
        "allow more work, a larger tol or another rank, or regularise the degrees."
    )
    if strict:
        raise ConvergenceError(message)
    warnings.warn(message, ConvergenceWarning, stacklevel=3)
