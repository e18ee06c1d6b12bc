"""A graph of the features alone, for comparison (the row "NodeFeat" of the paper's table 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor

from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.neighbors.search import choose_neighbors, union
from garnet.parameters import Count, Seed, require_parameters
from garnet.progress import Clock, Progress, Stage
from garnet.purify.features import Features, feature_block, scale
from garnet.purify.scores import inner_products


@dataclass(frozen=True, eq=False)
class FeatureGraph:
    """The graph of nearest features, and what it cost."""

    graph: Graph
    stages: tuple[Stage, ...]


@dataclass(frozen=True, kw_only=True)
class FeatureKNN:
    """Joins each node to the k nodes with the most similar features; the input's edges do not count.

    Attributes:
        k: neighbours of each node.
        feature_rank: singular directions of the features that are compared; None compares all of them.
        seed: of what is random in the search.
    """

    k: Count = 15
    feature_rank: Count | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        require_parameters(self)

    def purify(self, graph: Graph, *, progress: Progress | None = None) -> FeatureGraph:
        """The graph of nearest features, its edges weighted by the cosine."""
        if graph.features is None or not graph.features.shape[1]:
            raise GraphError("The graph has no features, and FeatureKNN joins by nothing else; give it some.")
        clock = Clock(progress)
        with clock("neighbours"):
            kind: Features = "raw" if self.feature_rank is None else "low-rank"
            block = feature_block(graph, kind, self.feature_rank, seed=self.seed, device="cpu")
            points = scale(cast(Tensor, block), "unit")
            k = min(self.k, graph.num_nodes - 1)
            edges = union(choose_neighbors(graph.num_nodes, "cpu")(points, k, seed=self.seed)).numpy()
            weights = inner_products(points, points, edges).numpy()
            positive = weights > 0
            joined = graph.with_edges(edges[:, positive], np.minimum(weights[positive], 1))
        return FeatureGraph(joined, tuple(clock.stages))
