"""A floor without any neural network: what a defence has to beat to be worth its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.backbones.base import dense_features, require_features
from garnet.defenses.base import Defense
from garnet.defenses.feature_knn import FeatureKNN
from garnet.defenses.jaccard import jaccard_similarity
from garnet.errors import GraphError
from garnet.graph.graph import Graph, Split
from garnet.parameters import Count, NonNegative, Share
from garnet.progress import Clock, Progress
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable

_HOPS = 4
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_MOST_TRAINING_NODES = 20_000


@dataclass(frozen=True, kw_only=True)
class LinearFloor(Defense):
    r"""Drops edges of unlike features, adds nearest features, propagates, and solves a ridge regression.

    :math:`\hat A` is the normalised matrix of the edges whose features have a Jaccard similarity of at least
    `least_similarity`, of `knn_weight` times the graph of the k nearest features, and of loops. With the unit rows Z of
    :math:`\hat A^t X` the labels Y of the training nodes T are fitted in closed form,
    :math:`Z Z_T^T (Z_T Z_T^T + \lambda I)^{-1} Y`. The similarity, the hops t, up to four, and :math:`\lambda` are
    chosen on the validation nodes, and the last of each are taken without such. Nothing is random: every seed gives the
    same.

    Attributes:
        least_similarity: edges below it are dropped; the Jaccard similarity of nonzero features. Each is tried.
        k: nearest neighbours by features.
        knn_weight: weight of their edges beside those of the input.
    """

    gives_model: ClassVar[bool] = False
    learns_one_graph: ClassVar[bool] = True

    least_similarity: Share | tuple[Share, ...] = (0.02, 0.05)
    k: Count = 10
    knn_weight: NonNegative = 0.5

    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        split, labels, classes = require_trainable(graph)
        given = require_features(graph, "LinearFloor compares them")
        if len(split.train) > _MOST_TRAINING_NODES:
            raise GraphError(
                f"The linear floor solves a dense system of the training nodes; {len(split.train)} are more than "
                f"{_MOST_TRAINING_NODES}."
            )
        clock = Clock(progress)
        with clock("fit"):
            similarities, features = jaccard_similarity(graph, graph.edges), dense_features(given)
            near = FeatureKNN(k=self.k).purify(graph).graph.adjacency.astype(bool).astype(np.float32)
            best, best_accuracy = np.zeros((graph.num_nodes, classes)), -1.0
            tried = self.least_similarity
            for least in tried if isinstance(tried, tuple | list) else (tried,):
                believed = graph.with_edges(graph.edges[:, similarities >= least]).adjacency
                for hidden in _propagated(features, sp.csr_array(believed + np.float32(self.knn_weight) * near)):
                    for scores in _regressions(hidden, split, labels, classes):
                        accuracy = _accuracy(scores, split.val, labels)
                        # Without validation nodes there is nothing to choose by, and the last counts.
                        if accuracy > best_accuracy or not len(split.val):
                            best, best_accuracy = scores, accuracy
        logits = torch.from_numpy(best.astype(np.float32))
        one = Predictor(graph, logits, val_accuracy=best_accuracy, stages=tuple(clock.stages))
        return tuple(replace(one, seed=seed) for seed in seeds)


def _propagated(features: NDArray[np.float32], adjacency: sp.csr_array) -> Iterator[NDArray[np.float32]]:
    """The unit rows of the features after each number of hops."""
    adjacency = sp.csr_array(adjacency + sp.eye_array(len(features), dtype=np.float32))
    root = sp.diags_array(1 / np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel()))
    step = sp.csr_array(root @ adjacency @ root).astype(np.float32)
    for hop in range(_HOPS + 1):
        features = step @ features if hop else features
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        yield (features / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _regressions(
    hidden: NDArray[np.float32], split: Split, labels: NDArray[np.int64], classes: int
) -> Iterator[NDArray[np.float64]]:
    """Scores of all nodes for each strength of the ridge, from one eigendecomposition."""
    taught = hidden[split.train].astype(np.float64)
    values, vectors = np.linalg.eigh(taught @ taught.T)
    targets = vectors.T @ (labels[split.train][:, None] == np.arange(classes)).astype(np.float64)
    unit = max(float(values.mean()), 1e-12)
    for ridge in _RIDGES:
        yield hidden @ (taught.T @ (vectors @ (targets / (np.maximum(values, 0) + ridge * unit)[:, None])))


def _accuracy(scores: NDArray[np.float64], nodes: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    return float((scores[nodes].argmax(axis=1) == labels[nodes]).mean()) if len(nodes) else float("nan")
