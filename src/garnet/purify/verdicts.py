"""Verdicts on edges that arrive later, and when these are so many, or so odd, that a new run is needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from garnet.graph.html import html_table

VERDICTS = ("believe", "doubt", "unknown")

# When to purify again. The effect of a few more edges is known from planted edges, a twentieth in each copy of an audit
# and a tenth in a purification: up to there, what was learnt from the graph holds.
MOST_NEW = 0.05
"""New edges for each edge of the graph: of more, what the graph told is out of date."""
MOST_UNKNOWN = 0.2
"""Share of the new edges about which nothing can be said."""
MOST_APART = 0.15
"""The largest gap between the distributions of scores of new edges and of the graph's own: of the new ones at least as
large a share is of another kind. Where true edges were held out, and where half is made up, how large it is says
docs/howto/new-edges.md."""
_CHANCE = 1.95
"""Beyond so many times the root of 1 / new + 1 / own, a gap is chance once in a thousand times (Kolmogorov-Smirnov)."""
ENOUGH = 30
"""Fewer edges than this are not compared with anything."""


class Usual(NamedTuple):
    """What new edges are compared with.

    Attributes:
        scores: quantiles of the scores of the graph's own edges, sorted.
        edges: how many edges the graph has.
    """

    scores: NDArray[np.float32]
    edges: int


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Verdicts:
    """Verdicts on some edges, in the given order.

    Attributes:
        source: (m,) names, or numbers, of the source nodes.
        target: (m,) names, or numbers, of the target nodes.
        score: (m,) how far each is believed, from 0 to 1; NaN where nothing can be said.
        verdict: (m,) `believe`, `doubt` or `unknown`.
        reason: (m,) the deciding reason, in words.
        new: (m,) whether an endpoint is a node that the result does not know.
        known: (m,) whether it is already an edge of the graph.
        usual: what they are compared with.
    """

    source: NDArray[Any]
    target: NDArray[Any]
    score: NDArray[np.float32]
    verdict: NDArray[np.str_]
    reason: NDArray[np.str_]
    new: NDArray[np.bool_]
    known: NDArray[np.bool_]
    usual: Usual

    def __len__(self) -> int:
        return len(self.score)

    @property
    def counts(self) -> dict[str, int]:
        """How many edges are believed, doubted and unknown."""
        return {word: int((self.verdict == word).sum()) for word in VERDICTS}

    @cached_property
    def purify_again(self) -> str | None:
        """Why the graph should be purified, or audited, again; None if nothing calls for it.

        Only edges that the graph does not have count, each once. A new run is needed if they are more than a twentieth
        as many as the graph's edges; or if nothing can be said about more than a fifth; or if their scores show that at
        least 15 % are of another kind than the graph's edges, beyond what chance gives once in a thousand times.
        """
        tally = Tally(self.usual)
        tally.add(self)
        return tally.purify_again

    def table(self) -> dict[str, NDArray[Any]]:
        """As columns: source, target, score, verdict and reason."""
        return {name: getattr(self, name) for name in ("source", "target", "score", "verdict", "reason")}

    def summary(self) -> dict[str, Any]:
        """The figures as plain values, ready for JSON."""
        told = {"edges": len(self), **self.counts}
        told |= {"known": int(self.known.sum()), "with_new_nodes": int(self.new.sum())}
        return {**told, "purify_again": self.purify_again}

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {word}" for word, count in self.counts.items())
        return f"Verdicts({len(self):,} edges: {counts}; purify again: {self.purify_again or 'no'})"

    def _repr_html_(self) -> str:
        rows = {word: f"{count:,}" for word, count in self.counts.items()}
        return html_table("Verdicts", {"edges": f"{len(self):,}", **rows, "purify again": self.purify_again or "no"})


class Judging(Protocol):
    """Anything that judges edges that arrive later."""

    def __call__(self, edges: Any, *, features: Mapping[Any, Any] | None = None, numbers: bool = False) -> Verdicts:
        """Judge edges."""


Later = Callable[[], Any]
"""Makes the judge of later edges on request."""


class Tally:
    """A running tally of edges that arrive in batches.

    Args:
        usual: what they are compared with.
    """

    def __init__(self, usual: Usual) -> None:
        self._usual = usual
        self._scores: dict[Any, float] = {}

    def add(self, verdicts: Verdicts) -> None:
        """Count more edges, leaving out those counted before and those that the graph has."""
        fresh = np.flatnonzero(~verdicts.known)
        ends = np.stack([verdicts.source[fresh].astype(str), verdicts.target[fresh].astype(str)])
        ends.sort(axis=0)
        self._scores |= dict(zip(zip(*ends.tolist(), strict=True), verdicts.score[fresh].tolist(), strict=True))

    @property
    def purify_again(self) -> str | None:
        """See `Verdicts.purify_again`."""
        count, own = len(self._scores), self._usual.edges
        if count > MOST_NEW * own:
            return f"{count:,} new edges are more than a twentieth of the {own:,} that the graph had"
        if count < ENOUGH:
            return None
        scores = np.array(list(self._scores.values()))
        unknown = int(np.isnan(scores).sum())
        if unknown > MOST_UNKNOWN * count:
            return f"nothing can be said of {unknown:,} of {count:,} new edges"
        told = scores[~np.isnan(scores)]
        gap = apart(told, self._usual.scores)
        if len(told) >= ENOUGH and gap > max(MOST_APART, _CHANCE * math.sqrt(1 / len(told) + 1 / own)):
            return (
                f"the scores of {len(told):,} new edges are distributed otherwise than those of the graph's own (the "
                f"largest gap is {gap:.2f})"
            )
        return None


def apart(some: Sequence[float] | NDArray[Any], others: NDArray[Any]) -> float:
    """The largest gap between two distributions (the Kolmogorov-Smirnov statistic), from 0 to 1.

    Example:
        >>> apart([1, 2, 3], np.array([1, 2, 3])), apart([1, 2], np.array([3, 4]))
        (0.0, 1.0)
    """
    one, other = np.sort(np.asarray(some)), np.sort(others)
    if not len(one) or not len(other):
        return 0.0
    every = np.concatenate([one, other])
    below = (np.searchsorted(part, every, "right") / len(part) for part in (one, other))
    first, second = below
    return float(np.abs(first - second).max())
