"""Exact quantiles of numbers that no one holds all of: counts of their digits are enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Digits of a 32-bit key, the first one first: a row of counts takes 16 kB at most, so many may travel.
_BITS = (11, 11, 10)


def quantile(count: Callable[[int, Sequence[int]], NDArray[np.int64]], share: float) -> float:
    """The number that a share of the finite numbers lies below, as `garnet.purify.scores.quantile` has it.

    The two numbers that it lies between are found one digit after another, so the numbers are counted once a digit.

    Args:
        count: the sum of `digit_counts` over all pieces of the numbers, for a place and some beginnings.
        share: between 0 and 1.

    Returns:
        What NumPy gives for the finite numbers in float32; minus infinity if there are none.
    """
    total = int(count(0, (0,)).sum())
    if not total:
        return -math.inf
    place = share * (total - 1)
    below = math.floor(place)
    ranks = np.array([below, min(below + 1, total - 1)])
    beginnings = np.zeros(2, np.int64)
    for digit, bits in enumerate(_BITS):
        sums = count(digit, beginnings.tolist()).cumsum(axis=1)
        found = np.array([np.searchsorted(row, rank, side="right") for row, rank in zip(sums, ranks, strict=True)])
        ranks -= np.where(found > 0, sums[(0, 1), found - 1], 0)
        beginnings = (beginnings << bits) | found
    # NumPy itself draws the line between the two, so that it is rounded in the same way.
    return float(np.quantile(_numbers(beginnings.astype(np.uint32)), place - below))


def digit_counts(numbers: NDArray[np.float32], place: int, beginnings: Sequence[int]) -> NDArray[np.int64]:
    """How often each digit stands at a place, (beginnings, digits), among finite numbers whose key begins so."""
    keys = _keys(numbers[np.isfinite(numbers)])
    bits, after = _BITS[place], sum(_BITS[place + 1 :])
    keys >>= np.uint32(after)
    rows: dict[int, NDArray[Any]] = {}
    for beginning in set(beginnings):
        chosen = keys[keys >> np.uint32(bits) == beginning] & np.uint32((1 << bits) - 1)
        rows[beginning] = np.bincount(chosen, minlength=1 << bits)
    return np.stack([rows[beginning] for beginning in beginnings]).astype(np.int64)


def _keys(numbers: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Whole numbers in the same order: the bits of negative ones, which grow with their size, are turned over."""
    bits = numbers.view(np.uint32)
    return bits ^ np.where(numbers.view(np.int32) < 0, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def _numbers(keys: NDArray[np.uint32]) -> NDArray[np.float32]:
    """The numbers whose keys these are."""
    turned = np.where(keys >> np.uint32(31) == 0, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))
    return (keys ^ turned).view(np.float32)
