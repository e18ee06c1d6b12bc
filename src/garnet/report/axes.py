"""Axes of charts: where numbers go, and which ticks to draw."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_TINY = 1e-200
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Axis:
    """A scale from `low` at `start` to `high` at `end`, in the units of the drawing.

    Attributes:
        low: number at the start.
        high: number at the end, above `low`.
        start: place of the first.
        end: place of the last; before `start` where numbers rise upwards.
        log: whether equal ratios, not differences, are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        """Where numbers go; those beyond an end go to that end."""
        numbers = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        low, high = self.low, self.high
        if self.log:
            numbers, low, high = np.log(numbers), math.log(low), math.log(high)
        return self.start + (self.end - self.start) * (numbers - low) / (high - low)

    def ticks(self, most: int = 6) -> list[float]:
        """A few round numbers on the scale."""
        if self.log:
            return _decades(self.low, self.high, most)
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{number * step:.12g}") + 0.0 for number in range(first, last + 1)]


def span(parts: Iterable[ArrayLike], *, zero: bool = False) -> tuple[float, float]:
    """The smallest and the largest finite number of several arrays, moved apart where all are equal.

    Args:
        parts: the arrays.
        zero: whether zero belongs to the span, as it does to the foot of a bar.
    """
    numbers = np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in parts] or [np.zeros(1)])
    numbers = numbers[np.isfinite(numbers)]
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    size = max(abs(low), abs(high))
    if high - low > 1e-12 * size and size > _TINY:
        return low, high
    beside = 0.5 * size if size > _TINY else 1.0
    return (0.0, beside) if zero and low == 0 else (low - beside, high + beside)


def short(value: float) -> str:
    """A number in few characters: 1,200,000 is 1.2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def _decades(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{factor}e{power}") for power in powers for factor in factors]
        inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if 2 <= len(inside) <= most + 1:
            return inside
    return inside[:: max(1, math.ceil(len(inside) / most))] or [low, high]
