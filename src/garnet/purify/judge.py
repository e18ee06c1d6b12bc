"""What a purification makes of edges that arrive later, without a new run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError, ParameterError
from garnet.graph.edges import among
from garnet.graph.graph import Graph
from garnet.linalg.device_graph import Resident
from garnet.purify.arrivals import NodeNames, feature_rows
from garnet.purify.features import Described, scale
from garnet.purify.joining import Joining
from garnet.purify.newcomers import ENOUGH_EDGES, Newcomers
from garnet.purify.place import Embedding, Neighborhoods, Pruned
from garnet.purify.scores import gathered
from garnet.purify.settings import Settings
from garnet.purify.suspicion import LEAST_TRUST, Suspicion
from garnet.purify.trust import trust_of, upheld_by, uphold
from garnet.purify.verdicts import Usual, Verdicts

AT_ONCE = 1 << 14
"""Edges that are judged together: few enough that the points of their ends stay in a processor's cache."""
QUANTILES = 1_001
"""Of the scores of the graph's own edges, which are kept to compare those of new edges with."""

_ROUNDING = 1e-5

_LOOP = "both ends are one node"
_BLIND = "edges that were planted look like those of this graph"
_NOWHERE = "nothing is known of an end"
_NEW = f"a new node with fewer than {ENOUGH_EDGES} edges to known ones"
_AROUND = "other edges of its ends are doubted"
_ALIKE = "not as planted edges look"
_AGAINST = ("its ends lie far apart", "few shared neighbours", "its ends differ in features", "degrees of its ends")
_FOR = ("its ends lie near each other", "shared neighbours", "its ends have alike features", "degrees of its ends")


class Found(NamedTuple):
    """What is found of some edges.

    Attributes:
        score: (m,) from 0 to 1; not a number where nothing can be said.
        said: (q, m) what each reason says for them; see `Words`.
        fewer: (m,) whether nothing can be said because an end is new.
    """

    score: Tensor
    said: Tensor
    fewer: Tensor

    @classmethod
    def cat(cls, parts: list[Found]) -> Found:
        """Those of several pieces together."""
        scores, said, fewer = zip(*parts, strict=True)
        return cls(torch.cat(scores), torch.cat(said, dim=1), torch.cat(fewer))


class Words(NamedTuple):
    """What reasons are called that speak against an edge, and for it; and the score below which one is doubted."""

    against: tuple[str, ...]
    speaking: tuple[str, ...]
    doubted_below: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Judge:
    """Judges edges that arrive after a graph was purified, each as if it were the only one that is new.

    Nothing is learnt from them: the embedding, what planted edges told, and the doubt in the other edges of each node
    stay as they were. An edge that the graph has is trusted as it was. One that it does not have moves its own ends, to
    first order (`garnet.purify.joining`), and is then weighed in the same way; the purification would drop what is
    trusted less than a quarter, and that is doubted here. New nodes take their place by their own edges
    (`garnet.purify.newcomers`) and, where they have them, their features.

    Attributes:
        given: the adjacency of the graph that was purified.
        names: (n,) of its nodes; None where they are known by their numbers.
        planted: (2, p) the edges that were planted into it.
        settings: of the purification.
        values: (r,) eigenvalues.
        bare: (n, r) V as it is.
        described: how features become coordinates; None where they play no part.
        suspicion: what made-up edges look like.
        around: what the edges of a node say of one another.
        usual: scores of the graph's own edges.
    """

    given: Resident
    names: NDArray[Any] | None
    planted: Tensor
    settings: Settings
    values: Tensor
    bare: Tensor
    described: Described | None
    suspicion: Suspicion
    around: Neighborhoods
    usual: Usual

    @classmethod
    def of(
        cls, graph: Graph, planted: Tensor, settings: Settings, embedding: Embedding, pruned: Pruned, trust: Tensor
    ) -> Judge:
        """From what a purification has found.

        Args:
            graph: that was purified.
            planted: edges that were planted into it.
            settings: of the purification.
            embedding: of the nodes; only its spectrum is used.
            pruned: what was decided.
            trust: (g,) of the edges of the graph.

        Raises:
            ParameterError: of such settings, nothing can be said of new edges.
        """
        if pruned.learnt is None or pruned.around is None:
            raise ParameterError(
                f"The purification had support={settings.support!r}, so no planted edges say how far a new edge is to "
                "be trusted; purify with support='auto', the default."
            )
        if settings.scaling not in ("unit", "none") or not settings.normalize:
            what = "normalize=False" if not settings.normalize else f"scaling={settings.scaling!r}"
            raise ParameterError(f"New edges cannot be judged by a purification with {what}; leave that out.")
        spectrum = embedding.spectrum
        weight = settings.feature_weight or 0.0
        kind, rank, scaling = settings.features, settings.feature_rank, settings.scaling
        described = Described.of(graph, kind, rank, scaling=scaling, weight=weight, seed=settings.seed)
        around = Neighborhoods(pruned.around.concentration, pruned.around.sums.cpu(), pruned.around.best.cpu())
        return cls(
            given=Resident.of(graph),
            names=graph.names,
            planted=planted.cpu(),
            settings=settings,
            values=spectrum.values.cpu(),
            bare=spectrum.embedding.float().cpu(),
            described=described,
            suspicion=pruned.learnt.suspicion,
            around=around,
            usual=usual_of(trust.cpu().numpy()),
        )

    def __call__(self, edges: Any, *, features: Mapping[Any, Any] | None = None, numbers: bool = False) -> Verdicts:
        """What is made of edges; see `garnet.Purification.judge`."""
        words = Words(_AGAINST, _FOR, LEAST_TRUST)
        return judged(self, edges, features, numbers, words, blind=self.around.concentration is None)

    @cached_property
    def joining(self) -> Joining:
        """What is seen of pairs of nodes."""
        read, settings = self.given, self.settings
        weight = float(read.weights.double().mean())
        if self.planted.shape[1]:
            read = read.joining(self.planted, weight)
        points = scale(self.bare, settings.scaling)
        if self.described is not None:
            points = torch.cat([points, self.described.block], dim=1)
        return Joining(read, points, self.bare, self.values, settings.scaling, settings.tau, weight)

    @cached_property
    def node_names(self) -> NodeNames:
        """The nodes by their names."""
        return NodeNames(self.names, self.given.num_nodes)

    def of_known(self, ends: Tensor, there: Tensor) -> Found:
        """What is found of pairs of known nodes (2, q), of which some are edges of the graph."""
        seen = self.joining.looks(ends, there)
        placed = self.joining.placed[ends].all(dim=0)
        described = self.joining.described[ends].all(dim=0)
        said, odds, known = self._weighed(seen, placed, described)
        own = torch.stack([odds.sigmoid(), torch.ones_like(odds)], dim=1) * ~there[:, None]
        first, second = (self.around.sums[one].double() + own for one in ends)
        trust = self._trust(odds, first, second)
        best, other = self.around.best.to(trust)[ends, 0]
        joined = uphold(trust, torch.maximum(best, trust), torch.maximum(other, trust))
        # Of an end's best edge, trust is not always rounded as it was.
        rounded = 1 - _ROUNDING
        trust = torch.where(there, upheld_by(trust, rounded * best, rounded * other), joined)
        return Found(trust.masked_fill(~known, torch.nan), said, torch.zeros_like(there))

    def of_new(self, newcomers: Newcomers) -> Found:
        """What is found of the edges of new nodes."""
        ends, nodes = newcomers.edges, newcomers.nodes
        is_new = nodes >= self.given.num_nodes
        placed, described = newcomers.placed[ends].all(dim=0), newcomers.described[ends].all(dim=0)
        said, odds, known = self._weighed(newcomers.looks(self.joining), placed, described)
        own = torch.stack([odds.sigmoid(), torch.ones_like(odds)], dim=1) * known[:, None]
        # The edges of a new node speak of one another; those of a known one it has had.
        sums = sum((gathered(own, end, len(nodes), largest=False) for end in ends), torch.zeros(()))
        best = torch.zeros(len(nodes), dtype=torch.float64)
        sums[~is_new] = self.around.sums[nodes[~is_new]].double()
        best[~is_new] = self.around.best[nodes[~is_new], 0].double()
        first, second = (sums[end] + own * ~is_new[end][:, None] for end in ends)
        trust = self._trust(odds, first, second)
        of_new = trust.double().masked_fill(~known, 0.0)
        for end in ends:
            best.scatter_reduce_(0, end, of_new * is_new[end], "amax")
        # Of a node that has no place yet, nobody knows what is its way.
        best[is_new & ~newcomers.placed] = 1.0
        trust = uphold(trust, *(torch.maximum(best.to(trust)[end], trust) for end in ends))
        return Found(trust.masked_fill(~known, torch.nan), said, ~known)

    def _weighed(self, seen: Tensor, placed: Tensor, described: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is said for edges, (4, q); the log-odds of their being made up; and of which anything is known.

        What nothing is known of says nothing, as what is the most usual does.
        """
        said = self.suspicion.said(seen)
        said[[0, 1, 3]] = said[[0, 1, 3]].masked_fill(~placed, 0.0)
        said[2] = said[2].masked_fill(~described, 0.0)
        known = placed | (described & (self.suspicion.weights[2] > 0))
        return said, self.suspicion.told(said[0] + said[1] + said[2] + said[3]), known

    def _trust(self, odds: Tensor, first: Tensor, second: Tensor) -> Tensor:
        if self.around.concentration is None:
            return torch.ones(len(odds))
        return trust_of(self.around.concentration, self.settings.caution, odds, first, second)


def usual_of(scores: NDArray[Any]) -> Usual:
    """What the scores of new edges are to be compared with, from those of the graph's own."""
    at = np.linspace(0, 1, QUANTILES)
    return Usual(np.quantile(scores, at).astype(np.float32) if len(scores) else np.zeros(0, np.float32), len(scores))


@torch.no_grad()
def judged(
    judge: Any, edges: Any, features: Mapping[Any, Any] | None, numbers: bool, words: Words, *, blind: bool
) -> Verdicts:
    """What somebody who knows what is found of pairs of nodes, known and new, makes of some edges."""
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
    numbered = both[0] * (n + len(newcomers)) + both[1]
    verdict, reason = _in_words(score, said, fewer, loop, words, blind=blind)
    return Verdicts(
        source=source,
        target=target,
        score=score.numpy(),
        verdict=verdict,
        reason=reason,
        new=new.numpy() | (loop & (both[1] >= n)).numpy(),
        known=known.numpy(),
        pair=numbered.numpy(),
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
