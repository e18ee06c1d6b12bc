"""An audit's judgement of edges that arrive later, without a new run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.audit.blocks import FEATURE_RANK
from garnet.audit.evidence import Places, sums_around
from garnet.audit.looks import of_neighborhood
from garnet.graph.graph import Graph
from garnet.linalg.device_graph import Resident
from garnet.linalg.edge_products import inner_products
from garnet.purify.arrivals import NodeNames
from garnet.purify.calibration import WEAK, Doubt
from garnet.purify.features import Described, scale
from garnet.purify.joining import Joining
from garnet.purify.judging import Found, Words, judged, usual_of
from garnet.purify.newcomers import Newcomers
from garnet.purify.suspicion import interpolated
from garnet.purify.verdicts import Usual, Verdicts

NAMES = ("gradient", "shared_neighbors", "feature_similarity", "degrees", "neighborhood_similarity", "same_class")
"""The reasons of an audit: the first four in the order of `garnet.purify.suspicion.looks`."""
_SPECTRAL, _OF_FEATURES, _AROUND, _CLASS = (0, 1, 3), 2, 4, 5
_WORDS = Words(
    against=(
        "its ends lie far apart",
        "few shared neighbours",
        "its ends differ in features",
        "degrees of its ends",
        "its ends differ from each other's neighbours",
        "its ends are of different classes",
    ),
    speaking=(
        "its ends lie near each other",
        "shared neighbours",
        "its ends have alike features",
        "degrees of its ends",
        "its ends are like each other's neighbours",
        "its ends are of one class",
    ),
    doubted_below=0.5,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditJudge:
    """Judges edges that arrive after the audit, each as if it were the only new one.

    For each reason an edge is ranked among the edges of the graph, with the weight that the audit gave the reason, and
    the sum means what the audit learnt. How an edge moves its own ends, and where new nodes are placed, is as in
    `garnet.purify.judge`; the classes of new nodes are left open.

    Attributes:
        given: adjacency matrix of the graph.
        names: (n,) names of its nodes; None if they are known by number.
        places: what pairs of nodes are compared by.
        described: how features become coordinates; None without features.
        weights: weight of each reason.
        doubt: what their sum means.
        blind: whether made-up edges can hardly be distinguished.
        usual: scores of the graph's own edges.
    """

    given: Resident
    names: NDArray[Any] | None
    places: Places
    described: Described | None
    weights: Mapping[str, float]
    doubt: Doubt
    blind: bool
    usual: Usual

    @classmethod
    def of(
        cls,
        graph: Graph,
        places: Places,
        weights: Mapping[str, float],
        doubt: Doubt,
        suspicion: NDArray[np.float64],
        seed: int,
    ) -> AuditJudge:
        """Make a judge from an audit's findings; `suspicion` is that of the graph's edges."""
        kind: Any = "low-rank" if graph.num_features else "none"
        return cls(
            given=Resident.of(graph),
            names=graph.names,
            places=places,
            described=Described.of(graph, kind, FEATURE_RANK, scaling="unit", weight=1.0, seed=seed),
            weights=weights,
            doubt=doubt,
            blind=doubt.power <= WEAK,
            usual=usual_of(1 - suspicion),
        )

    def __call__(self, edges: Any, *, features: Mapping[Any, Any] | None = None, numbers: bool = False) -> Verdicts:
        """Judge edges; see `garnet.Purification.judge`."""
        return judged(self, edges, features, numbers, _WORDS, blind=self.blind)

    @cached_property
    def joining(self) -> Joining:
        """How pairs of nodes are seen."""
        points = scale(self.places.bare, "unit")
        if self.described is not None:
            points = torch.cat([points, self.described.block], dim=1)
        weight = float(self.given.weights.double().mean())
        return Joining(self.given, points, self.places.bare, self.places.values, "unit", weight=weight)

    @cached_property
    def node_names(self) -> NodeNames:
        """The nodes by their names."""
        return NodeNames(self.names, self.given.num_nodes)

    def of_known(self, ends: Tensor, there: Tensor) -> Found:
        """The findings on pairs of known nodes (2, q), some of which are edges of the graph."""
        joining, width = self.joining, ends.shape[1]
        seen = torch.zeros(len(NAMES), width)
        seen[:4] = joining.looks(ends, there)
        if self._around is not None:
            features = joining.points[:, joining.rank :]
            seen[_AROUND] = of_neighborhood((features, features), (self._around, self._around), ends, there)
        if self.places.likely is not None:
            seen[_CLASS] = inner_products(self.places.likely, self.places.likely, ends)
        placed = joining.placed[ends].all(dim=0)
        described = self.joining.described[ends].all(dim=0)
        silent = torch.zeros(len(NAMES), width, dtype=torch.bool)
        silent[_AROUND] = ~described
        return self._found(seen, placed, described, silent, torch.zeros_like(there))

    def of_new(self, newcomers: Newcomers) -> Found:
        """The findings on the edges of new nodes."""
        ends, rank, n = newcomers.edges, self.joining.rank, self.given.num_nodes
        placed, described = newcomers.placed[ends].all(dim=0), newcomers.described[ends].all(dim=0)
        seen = torch.zeros(len(NAMES), ends.shape[1])
        seen[:4] = newcomers.looks(self.joining)
        if self._around is not None:
            block, known = newcomers.points[:, rank:], newcomers.nodes < n
            sums = torch.zeros_like(block)
            sums[known] = self._around[newcomers.nodes[known]]
            for one, other in (ends, ends.flip(0)):
                sums.index_add_(0, one, block[other])
            every = torch.ones(ends.shape[1], dtype=torch.bool)
            seen[_AROUND] = of_neighborhood((block, block), (sums, sums), ends, every)
        silent = torch.zeros(len(NAMES), ends.shape[1], dtype=torch.bool)
        silent[_AROUND], silent[_CLASS] = ~(described & placed), True
        return self._found(seen, placed, described, silent, ~placed)

    def _found(self, seen: Tensor, placed: Tensor, described: Tensor, silent: Tensor, new: Tensor) -> Found:
        """The sum of the reasons for edges (q,), some of whose ends have a place, and some features."""
        silent[list(_SPECTRAL)] |= ~placed
        silent[_OF_FEATURES] |= ~described
        said = torch.zeros(seen.shape, dtype=torch.float64)
        for row, (name, values) in enumerate(zip(NAMES, seen, strict=True)):
            if self.weights.get(name) and name in self.places.knots:
                said[row] = self.weights[name] * interpolated(values.double(), *self.places.knots[name])
        said.masked_fill_(silent, 0.0)
        known = placed | (described & (self.weights.get(NAMES[_OF_FEATURES], 0.0) > 0))
        score = (1 - self.doubt.suspicion(said.sum(dim=0))).float()
        return Found(score.masked_fill(~known, torch.nan), said, new & ~known)

    @cached_property
    def _around(self) -> Tensor | None:
        if self.described is None:
            return None
        return sums_around(self.given, self.described.block)
