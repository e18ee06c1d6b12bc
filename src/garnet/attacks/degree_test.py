"""The test of degrees of Zügner et al. (KDD 2018): does the graph still look like the one it was?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, kw_only=True)
class DegreeTest:
    r"""Likelihood ratio of two power laws, one for the degrees of each graph, against one for both together.

    With the :math:`n` degrees of at least :math:`d_0`, the sum :math:`S` of their logarithms and the exponent
    :math:`\alpha = 1 + n / (S - n \log(d_0 - 1/2))`, the paper takes

    .. math:: \ell = n \log \alpha + n \alpha \log d_0 + (\alpha + 1) S

    for the likelihood, and two graphs differ by :math:`\Lambda = 2 (\ell_1 + \ell_2 - \ell_{12})`. A flip is allowed
    while :math:`\Lambda` stays below the cutoff. This :math:`\ell` is not quite the likelihood of a power law, whose
    :math:`\Lambda` is about a third as large on citation graphs; it is kept so that the paper's cutoff means the same.

    A flip counts through the degrees of its two ends alone, so all pairs of nodes are tested by a table of the distinct
    degrees: `test.allowed(degrees[:, None], degrees, 1)`.

    Example:
        >>> degrees = np.repeat([1, 2, 2, 3, 5, 9], 50)
        >>> test = DegreeTest.of(degrees)
        >>> test.allowed([1, 2, 5], [1, 3, 9], change=1)
        array([False, False,  True])
        >>> 0 < test.flipped(5, 9, change=1).ratio < 0.004
        True

    Attributes:
        clean_count: degrees of at least `smallest` in the clean graph, n.
        clean_logs: sum of their logarithms, S.
        count: the same of the graph as it is now.
        logs: likewise.
        cutoff: of the statistic; 0.004 is the chi-square quantile of the paper.
        smallest: degrees below it are not part of the power law.
    """

    clean_count: float
    clean_logs: float
    count: float
    logs: float
    cutoff: float = 0.004
    smallest: int = 2

    @classmethod
    def of(cls, degrees: ArrayLike, *, cutoff: float = 0.004, smallest: int = 2) -> DegreeTest:
        """The test of a graph that is still clean.

        Args:
            degrees: (n,) number of neighbours of each node.
            cutoff: as in the class.
            smallest: as in the class.
        """
        counts, logs = _parts(degrees, smallest)
        count, total = float(counts.sum()), float(logs.sum())
        return cls(
            clean_count=count, clean_logs=total, count=count, logs=total, cutoff=float(cutoff), smallest=smallest
        )

    @property
    def ratio(self) -> float:
        """The statistic of the graph as it is now; zero while it is clean."""
        return float(self._ratio(self.count, self.logs))

    def ratios(self, first: ArrayLike, second: ArrayLike, change: ArrayLike) -> NDArray[np.float64]:
        """The statistic after one flip, for each of many.

        Args:
            first: degrees of the flips' first nodes, before the flip; all three are broadcast.
            second: of their second nodes.
            change: 1 where an edge is added, -1 where one is dropped.
        """
        return self._ratio(*self._after(first, second, change))

    def allowed(self, first: ArrayLike, second: ArrayLike, change: ArrayLike) -> NDArray[np.bool_]:
        """Whether each flip would stay unnoticed; arguments as in `ratios`."""
        return np.asarray(self.ratios(first, second, change) < self.cutoff)

    def flipped(self, first: int, second: int, change: int) -> DegreeTest:
        """The test after a flip was made; arguments as in `ratios`, of one flip."""
        count, logs = self._after(first, second, change)
        return replace(self, count=float(count), logs=float(logs))

    def _after(self, first: ArrayLike, second: ArrayLike, change: ArrayLike) -> tuple[Any, Any]:
        count, logs = np.asarray(self.count), np.asarray(self.logs)
        for degrees in (np.asarray(first), np.asarray(second)):
            new, old = (_parts(each, self.smallest) for each in (degrees + np.asarray(change), degrees))
            count, logs = count + (new[0] - old[0]), logs + (new[1] - old[1])
        return count, logs

    def _ratio(self, count: Any, logs: Any) -> NDArray[np.float64]:
        apart = self._likelihood(self.clean_count, self.clean_logs) + self._likelihood(count, logs)
        together = self._likelihood(self.clean_count + count, self.clean_logs + logs)
        return np.asarray(2 * (apart - together))

    def _likelihood(self, count: Any, logs: Any) -> NDArray[np.float64]:
        # Without any degree in range there is nothing to explain: zero.
        spread = np.where(count > 0, logs - count * np.log(self.smallest - 0.5), 1.0)
        alpha = 1 + count / spread
        return np.asarray(count * (np.log(alpha) + alpha * np.log(self.smallest)) + (alpha + 1) * logs)


def _parts(degrees: ArrayLike, smallest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each degree adds to n and to S."""
    degrees = np.asarray(degrees)
    inside = degrees >= smallest
    return inside.astype(np.float64), np.log(np.where(inside, degrees, 1).astype(np.float64))
