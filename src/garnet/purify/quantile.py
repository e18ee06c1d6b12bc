"""Exact quantiles of numbers that may be in several places: counts of their digits are enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

# Digits of a 32-bit key, most significant first: a row of counts takes 16 kB at most, so many can be sent.
_BITS = (11, 11, 10)


def quantile(count: Callable[[int, Sequence[int]], Tensor], share: float) -> float:
    """The number below which a share of the finite numbers lies.

    The two numbers around it are found digit by digit, so the numbers are counted once per digit.

    Args:
        count: the sum of `digit_counts` over all pieces of the numbers, for a digit position and some prefixes.
        share: between 0 and 1.

    Returns:
        NumPy's quantile of the finite numbers in float32; minus infinity if there are none.
    """
    total = int(count(0, (0,)).sum())
    if not total:
        return -math.inf
    place = share * (total - 1)
    below = math.floor(place)
    ranks = torch.tensor([below, min(below + 1, total - 1)])
    beginnings = torch.zeros(2, dtype=torch.int64)
    for digit, bits in enumerate(_BITS):
        sums = count(digit, beginnings.tolist()).cpu().cumsum(dim=1)
        found = torch.searchsorted(sums, ranks[:, None], right=True)
        ranks -= torch.where(found > 0, sums.gather(1, (found - 1).clamp_min(0)), 0)[:, 0]
        beginnings = (beginnings << bits) | found[:, 0]
    # NumPy itself interpolates between the two, so the result is rounded in the same way.
    return float(np.quantile(_numbers(beginnings).numpy(), place - below))


def quantile_of(numbers: Tensor, share: float) -> float:
    """The same for float32 numbers in one place, on any device."""
    finite = numbers[numbers.isfinite()]
    if finite.device.type == "cpu" and len(finite):
        return float(np.quantile(finite.numpy(), share))
    return quantile(lambda place, beginnings: digit_counts(finite, place, beginnings), share)


def digit_counts(numbers: Tensor, place: int, beginnings: Sequence[int]) -> Tensor:
    """How often each digit occurs at a position, (prefixes, digits), among finite numbers whose key has the prefix."""
    keys = _keys(numbers[numbers.isfinite()])
    bits, after = _BITS[place], sum(_BITS[place + 1 :])
    keys >>= after
    rows: dict[int, Tensor] = {}
    for beginning in set(beginnings):
        chosen = keys if place == 0 else keys[keys >> bits == beginning]
        rows[beginning] = torch.bincount(chosen & ((1 << bits) - 1), minlength=1 << bits)
    return torch.stack([rows[beginning] for beginning in beginnings])


def _keys(numbers: Tensor) -> Tensor:
    """Integers in the same order: the bits of negative numbers, which grow with their magnitude, are inverted."""
    bits = numbers.contiguous().view(torch.int32).long()
    return torch.where(bits < 0, ~bits, bits + 2**31)


def _numbers(keys: Tensor) -> Tensor:
    """The numbers with these keys."""
    bits = torch.where(keys < 2**31, ~keys, keys - 2**31)
    return bits.int().view(torch.float32)
