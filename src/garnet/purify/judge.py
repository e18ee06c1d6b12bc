"""How a purification judges edges that arrive later, without a new run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.graph import Graph
from garnet.linalg.device_graph import Resident
from garnet.purify.arrivals import NodeNames
from garnet.purify.features import Described, scale
from garnet.purify.joining import Joining
from garnet.purify.judging import Found, Words, judged, usual_of
from garnet.purify.newcomers import Newcomers
from garnet.purify.place import Embedding, Neighborhoods, Pruned
from garnet.purify.scores import gathered
from garnet.purify.settings import Settings
from garnet.purify.suspicion import LEAST_TRUST, Suspicion
from garnet.purify.trust import trust_of, upheld_by, uphold
from garnet.purify.verdicts import Usual, Verdicts

_ROUNDING = 1e-5

_AGAINST = ("its ends lie far apart", "few shared neighbours", "its ends differ in features", "degrees of its ends")
_FOR = ("its ends lie near each other", "shared neighbours", "its ends have alike features", "degrees of its ends")


@dataclass(frozen=True, eq=False, kw_only=True)
class Judge:
    """Judges edges that arrive after a graph was purified, each as if it were the only new one.

    Nothing is learnt from them: the embedding, what was learnt from planted edges, and the doubt in the other edges of
    each node stay as they were. An edge of the graph keeps its trust. A new edge moves its own endpoints, to first
    order (`garnet.purify.joining`), and is then weighed in the same way; if it is trusted less than a quarter, which
    the purification would drop, it is doubted. New nodes are placed by their own edges (`garnet.purify.newcomers`) and
    by their features, if they have any.

    Attributes:
        given: the adjacency of the input graph.
        names: (n,) names of its nodes; None if they are known by number.
        planted: (2, p) the edges planted in it.
        settings: of the purification.
        values: (r,) eigenvalues.
        bare: (n, r) unscaled V.
        described: how features become coordinates; None if they are not used.
        suspicion: what made-up edges look like.
        around: what the edges of a node say about one another.
        usual: the scores of the graph's own edges.
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
        """Build a judge from the results of a purification.

        Args:
            graph: the graph that was purified.
            planted: the edges planted in it.
            settings: of the purification.
            embedding: of the nodes; only its spectrum is used.
            pruned: the decisions.
            trust: (g,) trust in the graph's edges.

        Raises:
            ParameterError: such settings say nothing about new edges.
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
        """Judge edges; see `garnet.Purification.judge`."""
        words = Words(_AGAINST, _FOR, LEAST_TRUST)
        return judged(self, edges, features, numbers, words, blind=self.around.concentration is None)

    @cached_property
    def joining(self) -> Joining:
        """What is observed about pairs of nodes."""
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
        """The nodes by name."""
        return NodeNames(self.names, self.given.num_nodes)

    def of_known(self, ends: Tensor, there: Tensor) -> Found:
        """What is found about pairs of known nodes (2, q), some of them edges of the graph."""
        seen = self.joining.looks(ends, there)
        placed = self.joining.placed[ends].all(dim=0)
        described = self.joining.described[ends].all(dim=0)
        said, odds, known = self._weighed(seen, placed, described)
        own = torch.stack([odds.sigmoid(), torch.ones_like(odds)], dim=1) * ~there[:, None]
        first, second = (self.around.sums[one].double() + own for one in ends)
        trust = self._trust(odds, first, second)
        best, other = self.around.best.to(trust)[ends, 0]
        joined = uphold(trust, torch.maximum(best, trust), torch.maximum(other, trust))
        # The trust in an endpoint's best edge is not always rounded as before.
        rounded = 1 - _ROUNDING
        trust = torch.where(there, upheld_by(trust, rounded * best, rounded * other), joined)
        return Found(trust.masked_fill(~known, torch.nan), said, torch.zeros_like(there))

    def of_new(self, newcomers: Newcomers) -> Found:
        """What is found about the edges of new nodes."""
        ends, nodes = newcomers.edges, newcomers.nodes
        is_new = nodes >= self.given.num_nodes
        placed, described = newcomers.placed[ends].all(dim=0), newcomers.described[ends].all(dim=0)
        said, odds, known = self._weighed(newcomers.looks(self.joining), placed, described)
        own = torch.stack([odds.sigmoid(), torch.ones_like(odds)], dim=1) * known[:, None]
        # A new node's edges say something about one another; those of a known node were counted before.
        sums = sum((gathered(own, end, len(nodes), largest=False) for end in ends), torch.zeros(()))
        best = torch.zeros(len(nodes), dtype=torch.float64)
        sums[~is_new] = self.around.sums[nodes[~is_new]].double()
        best[~is_new] = self.around.best[nodes[~is_new], 0].double()
        first, second = (sums[end] + own * ~is_new[end][:, None] for end in ends)
        trust = self._trust(odds, first, second)
        of_new = trust.double().masked_fill(~known, 0.0)
        for end in ends:
            best.scatter_reduce_(0, end, of_new * is_new[end], "amax")
        # For a node without a place yet, nothing is known about its neighbourhood.
        best[is_new & ~newcomers.placed] = 1.0
        trust = uphold(trust, *(torch.maximum(best.to(trust)[end], trust) for end in ends))
        return Found(trust.masked_fill(~known, torch.nan), said, ~known)

    def _weighed(self, seen: Tensor, placed: Tensor, described: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What speaks for edges, (4, q); the log-odds that they are made up; and about which anything is known.

        An unknown value says nothing, just like the most usual one.
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
