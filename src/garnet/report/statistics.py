"""Intervals at 95 % around what was measured, and bins to count it in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

_CONFIDENCE = 0.95
_BINS = 50
_QUANTILES, _CROWDED = (0.005, 0.05, 0.95, 0.995), 0.2


def mean_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Mean of a sample and Student's interval around it; None for the ends where there are fewer than two values."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    wide = (
        float(stdtrit(len(values) - 1, (1 + _CONFIDENCE) / 2)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    )
    return mean, mean - wide, mean + wide


def share_interval(hits: int, total: int) -> tuple[float, float]:
    """Wilson's interval of a share of which `hits` out of `total` were seen."""
    z = 1.959963984540054
    share, factor = hits / total, 1 + z * z / total
    middle = (share + z * z / (2 * total)) / factor
    wide = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / factor
    return max(0.0, middle - wide), min(1.0, middle + wide)


def mean_share_interval(hits: Sequence[int], totals: Sequence[int]) -> tuple[float, float]:
    """The interval of a mean of shares that were seen apart, such as a balanced accuracy.

    Wilson's intervals of the shares are added by squares: the method of variance estimates recovery of Zou and Donner
    (Statistics in Medicine, 2008).
    """
    shares = [hit / total for hit, total in zip(hits, totals, strict=True)]
    ends = [share_interval(hit, total) for hit, total in zip(hits, totals, strict=True)]
    middle = sum(shares) / len(shares)
    below = math.sqrt(sum((share - low) ** 2 for share, (low, _) in zip(shares, ends, strict=True))) / len(shares)
    above = math.sqrt(sum((high - share) ** 2 for share, (_, high) in zip(shares, ends, strict=True))) / len(shares)
    return max(0.0, middle - below), min(1.0, middle + above)


def bins(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds of bins for the middle 99 % of values, or the middle 90 % where the rest would leave these no room."""
    if not len(values):
        return np.zeros(1)
    least, low, high, most = np.quantile(values, _QUANTILES)
    if high - low < _CROWDED * (most - least):
        least, most = low, high
    # Bounds too close for their digits would coincide; where all values are equal, NumPy makes wide bins.
    middle = (least + most) / 2
    apart = most - least > 1e-9 * abs(middle)
    return np.histogram_bin_edges([least, most] if apart else [middle, middle], bins=_BINS)


def counts_in(values: NDArray[np.float64], bounds: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many values are in each bin; those beyond the first or the last bin are counted in it."""
    return np.histogram(np.clip(values, bounds[0], bounds[-1]), bounds)[0].astype(np.int64)


def percentages_in(values: NDArray[np.float64], bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many percent of the values are in each bin, counted in the same way."""
    return 100 * counts_in(values, bounds) / max(len(values), 1)
