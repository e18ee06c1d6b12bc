"""Intervals at 95 % around what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

_CONFIDENCE = 0.95


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
