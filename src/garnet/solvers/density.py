"""Where the spectrum of a matrix ends, and where its leading part begins, before any eigenvector is known."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from garnet.solvers.operator import Operator
from garnet.spectral import End


def largest(operator: Operator, steps: int = 16) -> tuple[float, float]:
    """The largest absolute eigenvalue by Lanczos from the vector of ones, and the residual of that estimate.

    A matrix without negative entries has a leading eigenvector without them, so that ones are a good start.
    """
    columns = torch.zeros(operator.n, steps + 1, device=operator.device)
    columns[:, 0] = operator.n**-0.5
    projected = torch.zeros(steps, steps, dtype=torch.float64)
    size, norm = steps, 0.0
    for step in range(steps):
        known = columns[:, : step + 1]
        image = operator @ known[:, -1:]
        for _ in range(2):
            overlap = known.T @ image
            projected[: step + 1, step] += overlap[:, 0].double().cpu()
            image = image - known @ overlap
        norm = float(image.norm())
        if norm <= 1e-6 * float(projected.abs().max()):
            size = step + 1
            break
        columns[:, step + 1] = image[:, 0] / norm
    upper = projected[:size, :size].triu()
    values, vectors = torch.linalg.eigh(upper + upper.triu(1).T)
    leading = values.abs().argmax()
    return float(values[leading].abs()), norm * float(vectors[-1, leading].abs())


def level(operator: Operator, probes: Tensor, count: float, bound: float, end: End, steps: int = 40) -> float:
    """A level that about `count` eigenvalues exceed, by the kernel polynomial method.

    Random signs z give the Chebyshev moments z^T T_k z of the spectral density; damped with Jackson's kernel, they
    integrate in closed form.

    Args:
        operator: the matrix.
        probes: (n, b) random numbers, of which only the signs count.
        count: how many eigenvalues are to lie above.
        bound: no absolute eigenvalue is larger.
        end: count the largest eigenvalues, or those of largest magnitude.
        steps: products with the probes; each gives two moments.
    """
    before = torch.where(probes >= 0, 1.0, -1.0)
    now = (operator @ before) / bound
    columns = before.shape[1]
    moments = [float(operator.n), float((before * now).sum()) / columns]
    for _ in range(1, steps):
        before, now = now, (operator @ now).mul_(2 / bound).sub_(before)
        moments.append(2 * float((before * before).sum()) / columns - moments[0])
        moments.append(2 * float((now * before).sum()) / columns - moments[1])
    m = len(moments)
    k, angle = np.arange(m), math.pi / (m + 1)
    jackson = ((m - k + 1) * np.cos(k * angle) + np.sin(k * angle) / math.tan(angle)) / (m + 1)
    damped = np.array(moments) * jackson
    theta = np.linspace(0, math.pi, 8001)
    above = damped[0] * theta / math.pi
    above += 2 / math.pi * ((damped[1:] / k[1:]) @ np.sin(k[1:, None] * theta))
    if end == "magnitude":
        above = above + above[-1] - above[::-1]
    reached = int(np.searchsorted(np.maximum.accumulate(above), count))
    return bound * math.cos(float(theta[min(reached, len(theta) - 1)]))
