"""A graph of the features alone, for comparison (the row "NodeFeat" of the paper's table 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from garnet.backbones.base import require_features
from garnet.graph.edges import canonical, contains
from garnet.graph.graph import Graph
from garnet.linalg.edge_products import inner_products
from garnet.neighbors.search import choose_neighbors, union
from garnet.parameters import Count, Seed
from garnet.progress import Clock, Progress
from garnet.purify.base import CleanedGraph, Purifier
from garnet.purify.features import feature_block, scale
from garnet.purify.relaxed import Frozen, Way, never_kept
from garnet.purify.result import Ledger


@dataclass(frozen=True, kw_only=True)
class FeatureKNN(Purifier):
    """Joins each node to the k nodes with the most similar features; the input's edges are ignored.

    Edges are weighted by the cosine of the features, which is also their score.

    Attributes:
        k: neighbours of each node.
        feature_rank: number of singular directions of the features to compare; None compares the features themselves.
        seed: seed of the search.
    """

    needs_features: ClassVar[str] = "joins by nothing else"

    k: Count = 15
    feature_rank: Count | None = None
    seed: Seed = 0

    def _purify(self, graph: Graph, *, progress: Progress | None) -> CleanedGraph:
        clock, n = Clock(progress), graph.num_nodes
        with clock("neighbours"):
            points = unit_features(graph, "FeatureKNN joins by nothing else", rank=self.feature_rank, seed=self.seed)
            edges = union(choose_neighbors(n, "cpu")(points, min(self.k, n - 1), seed=self.seed)).numpy()
            weights = inner_products(points, points, edges).numpy()
            positive = weights > 0
            joined = graph.with_edges(edges[:, positive], np.minimum(weights[positive], 1))
            first, second = np.concatenate([graph.edges, joined.edges], axis=1)
            old_and_new = canonical(first, second, n)
            given, stays = (torch.from_numpy(contains(one.edges, old_and_new, n)) for one in (graph, joined))
            scores = inner_products(points, points, old_and_new)
        ledger = Ledger(torch.from_numpy(old_and_new), scores, given, stays, n, names=graph.names)
        return CleanedGraph(joined, ledger, tuple(clock.stages))

    def relaxed(self, graph: Any, *, device: str = "cpu", way: Way = "still") -> Frozen:
        """See `Purifier.relaxed`: no edge of the graph matters."""
        joined = self.purify(graph).graph
        return Frozen.of(joined.with_edges(joined.edges[:, :0]), joined, never_kept, device)


def unit_features(graph: Graph, why: str, *, rank: int | None = None, seed: int = 0, device: str = "cpu") -> Tensor:
    """(n, d) features as rows of unit length: all of them, or their leading singular directions.

    Raises:
        GraphError: the graph has none; `why` says what they are needed for.
    """
    require_features(graph, why)
    block = feature_block(graph, "raw" if rank is None else "low-rank", rank, seed=seed, device=device)
    return scale(cast(Tensor, block), "unit")
