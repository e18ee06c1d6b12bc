"""How a purification or an audit turns what it finds about pairs of nodes into verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError
from garnet.graph.edges import among
from garnet.purify.arrivals import feature_rows
from garnet.purify.newcomers import ENOUGH_EDGES, Newcomers
from garnet.purify.verdicts import Usual, Verdicts

AT_ONCE = 1 << 14
"""Edges judged together: few enough for their endpoints' points to stay in a processor's cache."""
QUANTILES = 1_001
"""Quantiles of the graph's own scores, kept for comparison with those of new edges."""

_LOOP = "both ends are one node"
_BLIND = "edges that were planted look like those of this graph"
_NOWHERE = "nothing is known of an end"
_NEW = f"a new node with fewer than {ENOUGH_EDGES} edges to known ones"
_AROUND = "other edges of its ends are doubted"
_ALIKE = "not as planted edges look"


class Found(NamedTuple):
    """What is found about some edges.

    Attributes:
        score: (m,) from 0 to 1; NaN where nothing can be said.
        said: (q, m) how much each reason speaks for them; see `Words`.
        fewer: (m,) whether nothing can be said because an endpoint is new.
    """

    score: Tensor
    said: Tensor
    fewer: Tensor


class Words(NamedTuple):
    """Names of the reasons against an edge and for it, and the score below which an edge is doubted."""

    against: tuple[str, ...]
    speaking: tuple[str, ...]
    doubted_below: float


def usual_of(scores: NDArray[Any]) -> Usual:
    """What to compare the scores of new edges with, from the scores of the graph's own edges."""
    at = np.linspace(0, 1, QUANTILES)
    return Usual(np.quantile(scores, at).astype(np.float32) if len(scores) else np.zeros(0, np.float32), len(scores))


@torch.no_grad()
def judged(
    judge: Any, edges: Any, features: Mapping[Any, Any] | None, numbers: bool, words: Words, *, blind: bool
) -> Verdicts:
    """Judge some edges by what is found about pairs of known and new nodes."""
    n, described = judge.given.num_nodes, judge.described
    source, target, ends, newcomers = judge.node_names.arrivals(edges, numbers=numbers)
    if features is not None and (described is None or not described.takes_new):
        raise GraphError("Features played no part in this result, or not the nodes' own; leave those of new nodes out.")
    rows, there = feature_rows(features, newcomers, described.width if described is not None else 0)
    block = torch.zeros(len(newcomers), judge.joining.points.shape[1] - judge.joining.rank)
    if described is not None and bool(there.any()):
        block[there] = described.coordinates(rows[there].numpy())
    both = ends.sort(dim=0).values
    loop = both[0] == both[1]
    new = (both[1] >= n) & ~loop
    usual = ~new & ~loop
    known = torch.zeros_like(new)
    known[usual] = among(judge.given.edges, both[:, usual], n)
    m = len(new)
    score, said = torch.full((m,), torch.nan), torch.zeros(len(words.against), m, dtype=torch.float64)
    fewer = torch.zeros(m, dtype=torch.bool)
    here = usual.nonzero()[:, 0]
    for some in torch.split(here, AT_ONCE):
        score[some], said[:, some], _ = judge.of_known(both[:, some], known[some])
    if bool(new.any()):
        beside = Newcomers.beside(judge.joining, both[:, new], block)
        found, place = judge.of_new(beside), beside.of(both[:, new])
        score[new], said[:, new], fewer[new] = found.score[place], found.said[:, place], found.fewer[place]
    if blind:
        score[:] = torch.nan
    verdict, reason = _in_words(score, said, fewer, loop, words, blind=blind)
    return Verdicts(
        source=source,
        target=target,
        score=score.numpy(),
        verdict=verdict,
        reason=reason,
        new=new.numpy() | (loop & (both[1] >= n)).numpy(),
        known=known.numpy(),
        usual=judge.usual,
    )


def _in_words(
    score: Tensor, said: Tensor, fewer: Tensor, loop: Tensor, words: Words, *, blind: bool
) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """The verdict on each edge, and what decided it."""
    known = ~score.isnan()
    doubt = known & (score < words.doubted_below)
    verdict = np.array(["believe", "doubt", "unknown"])[torch.where(known, doubt.long(), 2).numpy()]
    count = len(words.against)
    phrases = np.array([*words.against, *words.speaking, _AROUND, _ALIKE, _NOWHERE, _NEW, _LOOP, _BLIND])
    worst, best = said.min(dim=0), said.max(dim=0)
    reason = torch.where(best.values > 0, count + best.indices, 2 * count + 1)
    reason = torch.where(doubt, torch.where(worst.values < 0, worst.indices, 2 * count), reason)
    reason = torch.where(known, reason, torch.where(fewer, 2 * count + 3, 2 * count + 2))
    if blind:
        reason = torch.full_like(reason, 2 * count + 5)
    reason = torch.where(loop, 2 * count + 4, reason)
    return verdict, phrases[reason.numpy()]
