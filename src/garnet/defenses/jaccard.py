"""GCN-Jaccard of Wu, Wang, Tyshetskiy, Docherty, Lu and Zhu (IJCAI 2019): ends of an edge need something in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.backbones.base import require_features
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.linalg.edge_products import inner_products
from garnet.parameters import AnyNumber
from garnet.progress import Clock, Progress
from garnet.purify.base import CleanedGraph, Purifier
from garnet.purify.features import scale
from garnet.purify.relaxed import Frozen, Way, kept_whole
from garnet.purify.result import Ledger

Similarity = Literal["auto", "jaccard", "cosine"]

_CHUNK = 1 << 22  # features gathered at once


@dataclass(frozen=True, kw_only=True)
class Jaccard(Purifier):
    r"""Drops the edges whose ends have too little in common: attacks prefer to join dissimilar nodes.

    For binary features this is the Jaccard similarity of their sets of nonzero features,
    :math:`J_{uv} = |F_u \cap F_v| / |F_u \cup F_v|`; for others the cosine. Edges with a similarity below the threshold
    are dropped; the others keep their weights, and no edge is added. A node without features has nothing in common with
    others, so it loses its edges.

    The paper drops edges of similarity zero. The default here, 0.01, is that of DeepRobust, which also compares with
    `<` in both cases, and must be told which one applies; on Cora and Citeseer, whose nodes have tens of features, it
    means the same.

    Attributes:
        threshold: least similarity of an edge.
        similarity: `jaccard`, `cosine`, or `auto`, which is `jaccard` if all features are 0 or 1.
    """

    needs_features: ClassVar[str] = "compares nothing else"

    threshold: AnyNumber = 0.01
    similarity: Similarity = "auto"

    def _purify(self, graph: Graph, *, progress: Progress | None) -> CleanedGraph:
        clock = Clock(progress)
        with clock("compare"):
            edges = graph.edges
            alike = self._alike(graph, edges)
            kept = alike >= self.threshold
            cleaned = graph.with_edges(edges[:, kept], graph.weights[kept])
            scores, stays = torch.from_numpy(alike).float(), torch.from_numpy(kept)
            given, n = torch.ones_like(stays), graph.num_nodes
            ledger = Ledger(torch.from_numpy(edges), scores, given, stays, n, names=graph.names)
        return CleanedGraph(cleaned, ledger, tuple(clock.stages))

    def relaxed(self, graph: Any, *, device: str = "cpu", way: Way = "still") -> Frozen:
        """See `Purifier.relaxed`: an edge that is given stays if its ends are similar enough."""
        graph = as_graph(graph)

        def judge(pairs: Tensor) -> Tensor:
            kept = self._alike(graph, pairs.cpu().numpy()) >= self.threshold
            return torch.from_numpy(kept.astype(np.float32)).to(pairs.device)

        return Frozen.of(graph, self.purify(graph).graph, kept_whole if way == "open" else judge, device)

    def _alike(self, graph: Graph, edges: Edges) -> NDArray[np.float64]:
        kind = self.similarity
        if kind == "auto":
            kind = "jaccard" if _binary(require_features(graph, "Jaccard compares nothing else")) else "cosine"
        return (jaccard_similarity if kind == "jaccard" else cosine_similarity)(graph, edges)


def jaccard_similarity(graph: Graph, edges: Edges) -> NDArray[np.float64]:
    """Shared nonzero features of the two ends of each edge, over those that either has; 0 if neither has any."""
    features = graph.features
    if isinstance(features, sp.csr_array):
        has = (features != 0).astype(np.float64)
    else:
        has = (np.asarray(features) != 0).astype(np.float32)
    counts = np.asarray(has.sum(axis=1), dtype=np.float64).ravel()
    shared = row_products(has, edges)
    return np.asarray(shared / np.maximum(counts[edges[0]] + counts[edges[1]] - shared, 1))


def cosine_similarity(graph: Graph, edges: Edges) -> NDArray[np.float64]:
    """Cosine of the features of the two ends of each edge; 0 if one has none."""
    return row_products(unit_rows(graph), edges)


def unit_rows(graph: Graph) -> sp.csr_array | NDArray[np.float32]:
    """The features with rows of length one; an empty row stays zero."""
    features = graph.features
    if isinstance(features, sp.csr_array):
        # In double precision no square of a float32 overflows.
        wide = features.astype(np.float64)
        lengths = np.sqrt(np.asarray(wide.multiply(wide).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ wide)
    rows: NDArray[np.float32] = scale(torch.from_numpy(np.asarray(features)), "unit").numpy()
    return rows


def row_products(matrix: sp.csr_array | NDArray[Any], edges: Edges) -> NDArray[np.float64]:
    """Inner products of the rows of the two ends of each edge, a chunk of edges at a time."""
    if not isinstance(matrix, sp.csr_array):
        rows = torch.from_numpy(np.ascontiguousarray(matrix))
        return inner_products(rows, rows, edges).numpy().astype(np.float64)
    # A chunk holds as many entries as its first ends have, averaged over all edges.
    filled = np.diff(matrix.indptr)[edges[0]].mean() if edges.shape[1] else 1.0
    step = max(1, int(_CHUNK / max(filled, 1.0)))
    parts = [edges[:, first : first + step] for first in range(0, edges.shape[1], step)]
    found = [np.asarray(matrix[u].multiply(matrix[v]).sum(axis=1)).ravel() for u, v in parts]
    return np.concatenate(found).astype(np.float64) if found else np.zeros(0)


def _binary(features: sp.csr_array | NDArray[np.float32]) -> bool:
    values = features.data if isinstance(features, sp.csr_array) else features
    return bool(((values == 0) | (values == 1)).all())
