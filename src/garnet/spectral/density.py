"""Where the spectrum of a matrix ends and its leading part begins, before any eigenvector is known."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from garnet.linalg.dense import eigh
from garnet.spectral.block_space import Block, Polynomial, Space, gram
from garnet.spectral.spectrum import End


def largest(space: Space, steps: int = 16) -> tuple[float, float]:
    """The largest absolute eigenvalue by Lanczos from the vector of ones, and the residual of that estimate.

    A matrix without negative entries has a leading eigenvector without them, so ones are a good start.
    """
    basis = space.basis(steps + 1)
    latest = space.constant(space.n**-0.5)
    basis.append(latest)
    projected = torch.zeros(steps, steps, dtype=torch.float64)
    size, norm = steps, 0.0
    for step in range(steps):
        image = space.product(latest)
        for _ in range(2):
            overlap = basis.dot(image)
            projected[: step + 1, step] += overlap[:, 0].double().cpu()
            image = basis.less(image, overlap)
        norm = float(gram(space, image, image)) ** 0.5
        if norm <= 1e-6 * float(projected.abs().max()):
            size = step + 1
            break
        latest = space.map(lambda x, norm=norm: x / norm, image)
        basis.append(latest)
    upper = projected[:size, :size].triu()
    values, vectors = eigh(upper + upper.triu(1).T)
    leading = values.abs().argmax()
    return float(values[leading].abs()), norm * float(vectors[-1, leading].abs())


def level(space: Space, probes: Block, count: float, bound: float, end: End, steps: int = 40) -> float:
    """A level that about `count` eigenvalues exceed, found by the kernel polynomial method.

    Random signs z give the Chebyshev moments z^T T_k z of the spectral density; damped with Jackson's kernel, they
    integrate in closed form.

    Args:
        space: the matrix.
        probes: (n, b) random numbers; only their signs count.
        count: how many eigenvalues should lie above.
        bound: no absolute eigenvalue is larger.
        end: count the largest eigenvalues, or those of largest magnitude.
        steps: products with the probes; each gives two moments.
    """
    signs = space.map(_signs, probes)
    along = space.moments(signs, Polynomial(0.0, bound, steps)).sum(dim=1) / probes.shape[1]
    # <T_a z, T_b z> is half of the moments a + b and a - b.
    first, *others = along.tolist()
    moments = [float(space.n), first]
    for same, next_ in zip(others[::2], others[1::2], strict=True):
        moments += [2 * same - moments[0], 2 * next_ - moments[1]]
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


def _signs(rows: Tensor) -> Tensor:
    return torch.where(rows >= 0, 1.0, -1.0)
