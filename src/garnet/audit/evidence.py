"""The reasons for and against an edge, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.audit.blocks import Blocks, blocks_of, features_of, purifier
from garnet.audit.looks import Side, log_odds_of_rank, seen_of, spoken_of, weights_of
from garnet.backbones.matrices import gcn_matrix
from garnet.graph.graph import Graph, Split
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident
from garnet.purify.calibration import Evidence
from garnet.purify.features import alikeness
from garnet.purify.memory import GraphInMemory, InMemory
from garnet.purify.suspicion import knots_of

_OF_ITSELF = ("feature_similarity", "same_class")
"""Reasons that depend on the ends alone, or nearly so."""

_KNOTS = 1 << 13
"""Values of a reason between which those of later edges are ranked; the rarest matter most."""


@dataclass(frozen=True, eq=False)
class Places:
    """What an audit knows of the nodes, and of the edges as a whole: enough to treat any pair as an edge.

    Attributes:
        values: (r,) eigenvalues.
        bare: (n, r) the spectral embedding V, unscaled.
        likely: (n, c) class probabilities; None if they carry no information.
        knots: for each reason, some sorted values of it and the log-odds of their ranks among the edges.
    """

    values: Tensor
    bare: Tensor
    likely: Tensor | None
    knots: Mapping[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Reasons:
    """The evidence on every edge of a graph, and the weight of each reason.

    Attributes:
        said: by the names of `garnet.audit.looks.spoken_of`, (m,) each: the log-odds of an edge's rank among all edges.
        weights: by the same names, derived from this graph alone. Degrees have none until planted edges were seen
        (`garnet.purify.calibration`).
        columns: plain quantities to show a reader.
        places: what is needed to compare pairs of nodes that are not edges, if asked for.
    """

    said: Mapping[str, Tensor]
    weights: Mapping[str, float]
    columns: Mapping[str, NDArray[Any]]
    places: Places | None = None

    @property
    def belief(self) -> Tensor:
        """The weighted sum of all reasons, (m,)."""
        return self._weighed().sum(dim=0)

    @property
    def because(self) -> NDArray[np.str_]:
        """The name of the reason that speaks most against each edge, (m,)."""
        names: NDArray[np.str_] = np.array(self.counting)[self.strongest.cpu().numpy()]
        return names

    @property
    def strongest(self) -> Tensor:
        """The index of that reason in `counting`, (m,)."""
        return self._weighed().argmin(dim=0)

    def profiles(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Evidence | None:
        """Evidence from the ends alone, of all edges or of some; None if there is none.

        Edges between the same few nodes make each other look true in all other respects.
        """
        own = [self.weights[name] * self.said[name] for name in _OF_ITSELF if self.weights.get(name)]
        if not own:
            return None
        belief = torch.stack(own).sum(dim=0).cpu().numpy()[chosen]
        return Evidence(belief, np.zeros_like(belief))

    def evidence(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Evidence:
        """What `garnet.purify.calibration` learns from, for all edges or for some."""
        belief, degrees = (one.cpu().numpy()[chosen] for one in (self.belief, self.said["degrees"]))
        return Evidence(belief, degrees)

    @property
    def counting(self) -> list[str]:
        """The names of the reasons with a weight."""
        return [name for name, weight in self.weights.items() if weight]

    def _weighed(self) -> Tensor:
        return torch.stack([self.weights[name] * self.said[name] for name in self.counting])


@dataclass(frozen=True, eq=False)
class GroundInMemory:
    """See `Ground`."""

    work: GraphInMemory

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """See `Ground`."""
        return self.work.graph.labels

    @property
    def split(self) -> Split | None:
        """See `Ground`."""
        return self.work.graph.split

    def around(self, block: Tensor) -> Tensor:
        """See `Ground`."""
        return sums_around(self.work.given, block)

    def smoothed(self, graph: Graph, block: Tensor) -> Tensor:
        """See `Ground`."""
        return gcn_matrix(graph, str(block.device)) @ block


def sums_around(here: Resident, block: Tensor) -> Tensor:
    """(n, d) the sum of the features of each node's neighbours."""
    return torch.zeros_like(block).index_add_(0, here.rows.long(), block[here.columns.long()])


def unit_features(graph: Graph, *, seed: int, place: InMemory) -> Tensor | None:
    """The result of `features_of` for a graph in memory."""
    method = purifier(seed)
    with place.open(method, graph) as work:
        found: Tensor | None = features_of(work, method)
    return found


def reasons_of(graph: Graph, features: Tensor | None, *, seed: int, place: InMemory, places: bool = False) -> Reasons:
    """The reasons for every edge of a graph in memory, and their weights.

    The gradient has weight one. Features count as far as edges join nodes with similar features (Somers' d over
    0.5), their neighbourhood half as much. Classes count three times the square of how far the linear model beats
    chance on the validation nodes. Shared neighbours count an eighth of the mean degree: the more neighbours nodes
    have, the more it means that two share none. A graph without features, or labels, goes without these reasons.

    Args:
        graph: the graph.
        features: the result of `unit_features`.
        seed: seed of everything random.
        place: where to compute.
        places: keep what is needed to compare later edges.
    """
    method = purifier(seed)
    with place.open(method, graph) as work:
        blocks, here = blocks_of(GroundInMemory(work), method, features), work.given
    side = Side(here.counts, blocks.points, blocks.profiles, blocks.likely)
    seen = seen_of(here.edges, side, side, shared_neighbors(here, here.edges))
    mean_degree = float(here.counts.float().mean())
    found = spoken_of(seen, mean_degree)
    alike = None if features is None else alikeness(features, here.edges, seed=seed)
    return Reasons(
        {name: log_odds_of_rank(values) for name, values in found.items()},
        weights_of(mean_degree, alike, blocks.reliable),
        {name: values.cpu().numpy() for name, values in seen.items()},
        _places(blocks, found) if places else None,
    )


def _places(blocks: Blocks, found: Mapping[str, Tensor]) -> Places:
    knots = {name: knots_of(told.double().cpu(), _KNOTS) for name, told in found.items()}
    spectrum, likely = blocks.spectrum, blocks.likely
    if spectrum is None:
        raise RuntimeError("an audit in memory has its spectrum")
    bare = spectrum.embedding.float()
    return Places(spectrum.values.cpu(), bare.cpu(), None if likely is None else likely.cpu(), knots)
