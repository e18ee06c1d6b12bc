"""The parameters of GARNET resolved for a graph: every default decided once, in one value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph
from garnet.parameters import require_rules
from garnet.spectral.spectrum import End

Features = Literal["auto", "none", "raw", "low-rank", "propagated"]
Scaling = Literal["unit", "none", "standardize", "minmax"]
Score = Literal["distance", "signed", "distortion"]
GammaUnit = Literal["quantile", "absolute"]
Weight = Literal["auto", "trust", "similarity", "score", "one"]

# Constants of the defaults, found on the graphs of the paper, clean and attacked (the studies ablation-* and the tables
# of docs/results); the same for all graphs.
RANK = 70
"""Eigenpairs."""
MOST_BY_GAP = 100
"""Eigenpairs among which to look for the largest gap."""
PAIRS_A_CLASS = 10
"""Eigenpairs for each class, the paper's own rule (appendix F)."""
LOW_PAIRS_A_CLASS, LOW_RANK = 2, 16
"""Eigenpairs for each class where few are wanted; and as many without labels."""
ENOUGH_NEIGHBORS = 15
"""Neighbours of a node in all, those of the input counted, where a share of all edges is doubted."""
SHARED_AMONG = 10
"""Near neighbours that share the weight a node has lost, where planted edges determine it."""
CAUTION = 7.0
"""How many times worse it is to keep a made-up edge than to drop a true one."""
REFILL = 2.0
"""Weight of new edges at a node for each unit of weight it has lost, where edges join similar nodes."""
FEATURE_WEIGHT = 1.5
"""Scale of the features relative to the spectrum, where edges join nodes with similar features."""
ALIKE = 0.4
"""How alike the features of joined nodes must be for the full weight; see `garnet.purify.features.alikeness`."""
LEAST_SAY, ENOUGH_SAY = 0.1, 0.4
"""Share of that weight that features have where edges say nothing about them; and above which edges show well enough
which nodes are alike for suspicious ones to be doubted in full. The latter was decided on squirrel and chameleon."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The properties of a graph that determine its settings.

    Attributes:
        nodes: n.
        edges: undirected edges, m.
        features: number of features; 0 without any.
        classes: number of classes; 0 without labels.
        mean_degree: mean weighted degree.
    """

    nodes: int
    edges: int
    features: int = 0
    classes: int = 0
    mean_degree: float = 0.0

    @classmethod
    def of(cls, graph: Graph) -> Shape:
        """The shape of a graph in memory."""
        return cls(
            nodes=graph.num_nodes,
            edges=graph.num_edges,
            features=graph.num_features,
            classes=count_classes(graph.labels),
            mean_degree=float(graph.adjacency.data.sum(dtype=np.float64)) / max(graph.num_nodes, 1),
        )


def count_classes(labels: Any) -> int:
    """The number of classes, not counting unknown labels; 0 without labels."""
    return 0 if labels is None else int(np.count_nonzero(np.bincount(labels[labels >= 0])))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """GARNET on one graph: stored with every result, and everything its stages depend on.

    The names are those of `GARNET`; all are decided but `feature_weight` and `refill`, which are None until the
    spectrum has shown how alike the features of joined nodes are.

    Attributes:
        support: `planted` where planted edges determine how much each edge is doubted.
        credit: how far it is then doubted: not at all where edges join nodes no more alike in their features than by
            chance, since what looks odd there may be the rule.
        doubted: estimated share of made-up edges, once planted edges have shown it.
        power: how often a planted edge looked worse than one of the graph's own.
    """

    rank: int
    by_eigengap: bool
    end: End
    normalize: bool
    tau: float
    features: Literal["none", "raw", "low-rank", "propagated"]
    feature_rank: int | None
    feature_weight: float | None
    scaling: Scaling
    k: int
    support: float | Literal["planted"] | None
    overlap: float
    score: Score
    sigma2: float
    gamma: float
    gamma_unit: GammaUnit
    weight: Literal["trust", "similarity", "score", "one", "given"]
    seed: int
    only_drop: bool = False
    caution: float = CAUTION
    refill: float | None = None
    credit: float = 1.0
    doubted: float | None = None
    power: float | None = None

    def __str__(self) -> str:
        features: str = self.features
        if self.features != "none" and self.feature_weight is not None:
            features = f"{self.features} x {self.feature_weight:.3g}"
        doubted = "none" if self.support is None else str(self.support)
        if self.doubted is not None:
            doubted = f"{self.doubted:.3g} as planted edges tell"
        only = ", nothing added" if self.only_drop else ""
        return f"rank {self.rank}, k {self.k}, doubted {doubted}, features {features}, weight {self.weight}{only}"

    def told(self, feature_weight: float | None) -> Settings:
        """The same, once the spectrum has determined the weight of features, and thereby whether to add neighbours.

        Where features do not show which nodes are alike, near neighbours in the spectrum only repeat what the edges
        say: the less edges join nodes with similar features, the less of its lost weight a node is given back.
        """
        say = 0.0 if feature_weight is None else min(1.0, feature_weight / FEATURE_WEIGHT)
        found = replace(self, feature_weight=feature_weight)
        if self.support == "planted" and self.feature_weight is None and feature_weight is not None:
            beyond = (say - LEAST_SAY) / (ENOUGH_SAY - LEAST_SAY)
            found = replace(found, credit=min(1.0, max(0.0, round(beyond, 6))))
        if self.weight != "trust" or self.refill is not None:
            return found
        refill = REFILL * say**2 if found.credit else 0.0
        return replace(found, refill=refill, k=self.k if refill else 0)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: plain(value) for name, value in asdict(self).items()}

    @classmethod
    def of_plain(cls, values: dict[str, Any]) -> Settings:
        """From the output of `plain`."""
        found: Any = {name: float(value) if value in ("inf", "-inf") else value for name, value in values.items()}
        return cls(**found)


def plain(value: Any) -> Any:
    """A JSON value: JSON has no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str | None) else repr(value)


def settle(method: Any, shape: Shape) -> Settings:
    """The settings of a `GARNET` on a graph of this shape.

    Raises:
        GraphError: there is nothing to purify.
        ParameterError: the graph does not allow a parameter.
    """
    if shape.edges == 0:
        raise GraphError(f"The graph has {shape.nodes} nodes and no edges between them; there is nothing to purify.")
    require_rules(method, _rules(method, shape.nodes))
    if method.features not in ("auto", "none") and not shape.features:
        raise ParameterError(
            f"The 'features' parameter of GARNET is {method.features!r}, but the graph has no features."
        )
    features = method.features
    if features == "auto":
        features = "low-rank" if shape.features else "none"
    planted = method.support == "auto"
    k = method.k
    if k is None and planted:
        # Where nothing is added, doubted edges are dropped, near or not.
        k = 0 if method.only_drop else min(SHARED_AMONG, shape.nodes - 1)
    elif k is None:
        k = neighbors_lacking(2 * shape.edges / shape.nodes)
    refill = method.refill
    if refill == "auto":
        # Whoever asks for neighbours gets them.
        refill = None if method.k is None else REFILL
    weight = method.weight
    if weight == "auto":
        weight = "given" if method.only_drop else "trust" if planted else "similarity" if k else "given"
    return Settings(
        rank=choose_rank(method.rank, shape.nodes, shape.classes),
        by_eigengap=method.rank == "auto" and not shape.classes,
        end=method.end,
        normalize=method.normalize,
        tau=shape.mean_degree if method.tau == "mean" else method.tau,
        features=features,
        feature_rank=method.feature_rank,
        feature_weight=None if method.feature_weight == "auto" else method.feature_weight,
        scaling=method.scaling,
        k=k,
        support="planted" if planted else method.support,
        overlap=method.overlap,
        score=method.score,
        sigma2=method.sigma2,
        gamma=method.gamma,
        gamma_unit=method.gamma_unit,
        weight=weight,
        seed=method.seed,
        only_drop=method.only_drop,
        caution=method.caution,
        refill=refill,
    )


def _rules(method: Any, n: int) -> Iterator[tuple[str, bool, str]]:
    yield "k", method.k is None or method.k < n, f"below the number of nodes, {n}"
    yield "rank", method.rank in (None, "auto", "low") or method.rank < n, f"below {n}, the node count"


def choose_rank(rank: int | Literal["auto", "low"] | None, nodes: int, classes: int) -> int:
    """How many eigenpairs to ask the solver for: at most half the nodes unless the number is given."""
    most = max(1, nodes // 2)
    if rank is None:
        return min(RANK, most)
    if rank == "low":
        return min(LOW_PAIRS_A_CLASS * classes if classes else LOW_RANK, most)
    if rank == "auto":
        return min(PAIRS_A_CLASS * classes if classes else MOST_BY_GAP, most)
    return rank


def neighbors_lacking(mean_degree: float) -> int:
    """How many neighbours a node lacks, on average, to have enough."""
    return max(0, round(ENOUGH_NEIGHBORS - mean_degree))


def weight_of_features(alike: float) -> float:
    """The weight of features, given how alike the features of joined nodes are."""
    return FEATURE_WEIGHT * min(1.0, max(LEAST_SAY, alike / ALIKE))
