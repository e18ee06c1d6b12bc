"""Sums that are the same to the last bit, in whatever order and grouping their terms are added.

A number is split into a multiple of 2^-20 and a multiple of 2^-62, each exact in float64. As long as sums stay below
2^31, adding such multiples is exact; what is below the finer is rounded once per term, whoever adds it. Beyond that,
sums are rounded as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Added to a number and subtracted again, they leave its multiples of 2^-20 and of 2^-62.
_COARSE, _FINE = 1.5 * 2.0**32, 1.5 * 2.0**-10
_AT_ONCE = 1 << 20


def fixed(terms: Sequence[Tensor]) -> Tensor:
    """The sum of some terms of one shape, as two float64 numbers for each of theirs: (2, ...).

    Example:
        >>> import torch
        >>> terms = [torch.tensor([x], dtype=torch.float64) for x in (0.1, 3e8, 1e-9, -3e8)]
        >>> float(number(fixed(terms[:2]) + fixed(terms[2:]))) == float(number(fixed(terms[::-1])))
        True
        >>> float((terms[0] + terms[1]) + (terms[2] + terms[3])) == float(terms[3] + terms[2] + terms[1] + terms[0])
        False
    """
    total = torch.zeros(2, *terms[0].shape, dtype=torch.float64)
    step = max(1, _AT_ONCE // max(terms[0].numel(), 1))
    for first in range(0, len(terms), step):
        fine = torch.stack([*terms[first : first + step]]).double()
        coarse = fine + _COARSE
        coarse -= _COARSE
        fine -= coarse
        fine += _FINE
        fine -= _FINE
        total[0] += coarse.sum(dim=0)
        total[1] += fine.sum(dim=0)
    return total


def number(fixed: Tensor) -> Tensor:
    """The value of such a sum, in float64."""
    coarse, fine = fixed
    total: Tensor = coarse + fine
    return total
