"""Which means of a column cannot be told from the best one: t-tests over the models that were trained."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from garnet.bench.entry import Entry

LEVEL = 0.05


def best_and_ties(entries: Sequence[Entry]) -> tuple[frozenset[int], frozenset[int]]:
    """The places of the best of some entries, and of those that cannot be told from it.

    The best has the highest mean; several may share it. Another is tied with it if a t-test finds no difference at the
    level of 5 %: of the differences, where both are of the same seeds and splits, and Welch's otherwise. Nothing is
    corrected for the number of tests. Entries of one model each have no spread, so none of them is tied.

    Returns:
        The places of the best, and of the ties, both empty where no entry has a mean.
    """
    means = {
        place: float(np.mean([one for _, one in entry.drawn])) for place, entry in enumerate(entries) if entry.drawn
    }
    if not means:
        return frozenset(), frozenset()
    top = max(means.values())
    best = frozenset(place for place, mean in means.items() if mean == top)
    first = entries[min(best)]
    tied = {place for place in means if place not in best and p_value(first, entries[place]) >= LEVEL}
    return best, frozenset(tied)


def p_value(one: Entry, other: Entry) -> float:
    """How likely a difference of means as large as this one is by chance, on both sides; 0 where nothing can vary."""
    mine, theirs = dict(one.drawn), dict(other.drawn)
    alike = len(mine) == len(one.drawn) and len(theirs) == len(other.drawn) and mine.keys() == theirs.keys()
    if alike:
        differences = np.array([mine[drawn] - theirs[drawn] for drawn in mine])
        freedom = len(differences) - 1.0
        mean, error = float(differences.mean()), _error(differences)
    else:
        first, second = (np.array([accuracy for _, accuracy in entry.drawn]) for entry in (one, other))
        errors = [_error(first), _error(second)]
        mean, error = float(first.mean() - second.mean()), math.hypot(*errors)
        shares = [e**4 / (len(some) - 1) for e, some in zip(errors, (first, second), strict=True) if len(some) > 1]
        freedom = error**4 / sum(shares) if sum(shares) else 0.0
        freedom = 0.0 if min(len(first), len(second)) < 2 else freedom
    if mean == 0:
        return 1.0
    if freedom <= 0 or error == 0:
        return 0.0
    return float(2 * stdtr(freedom, -abs(mean / error)))


def _mean(entry: Entry) -> float:
    return float(np.mean([accuracy for _, accuracy in entry.drawn]))


def _error(values: NDArray[np.float64]) -> float:
    """The standard error of a mean; 0 for one value, which has none."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
