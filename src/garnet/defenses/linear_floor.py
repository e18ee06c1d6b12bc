"""A baseline without a neural network: what a defence has to beat to be worth its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.attacks.models import EdgeFunction
from garnet.backbones.base import dense_features, require_features
from garnet.defenses.base import Defense
from garnet.defenses.feature_knn import FeatureKNN
from garnet.defenses.jaccard import jaccard_similarity
from garnet.defenses.relaxed import ThroughPurifier
from garnet.errors import GraphError
from garnet.graph.graph import Graph, Split
from garnet.linalg.sparse import WeightedMatrix
from garnet.parameters import Count, NonNegative, Share
from garnet.progress import Clock, Progress
from garnet.purify.relaxed import Frozen, Way, kept_whole
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable

_HOPS = 4
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_MOST_TRAINING_NODES = 20_000


@dataclass(frozen=True, kw_only=True)
class LinearFloor(Defense):
    r"""Drops edges between dissimilar features, adds nearest neighbours, propagates, and solves a ridge regression.

    :math:`\hat A` is the normalised matrix of the edges whose features have a Jaccard similarity of at least
    `least_similarity`, plus `knn_weight` times the graph of the k nearest features, plus loops. With the unit rows Z of
    :math:`\hat A^t X` the labels Y of the training nodes T are fitted in closed form,
    :math:`Z Z_T^T (Z_T Z_T^T + \lambda I)^{-1} Y`. The similarity, the hops t, up to four, and :math:`\lambda` are
    chosen on the validation nodes; without these, the last of each is taken. Nothing is random: every seed gives the
    same.

    Attributes:
        least_similarity: thresholds to try for the Jaccard similarity of nonzero features; edges below are dropped.
        k: nearest neighbours by features.
        knn_weight: weight of their edges relative to those of the input.
    """

    gives_model: ClassVar[bool] = False

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
            similarities, near = jaccard_similarity(graph, graph.edges), self._near(graph)
            features = dense_features(given)
            best, scores, best_accuracy = dict[str, torch.Tensor](), np.zeros((graph.num_nodes, classes)), -1.0
            tried = self.least_similarity
            for least in tried if isinstance(tried, tuple | list) else (tried,):
                believed = self._believed(graph, similarities >= least, near)
                for hops, hidden in enumerate(_propagated(features, believed)):
                    for weights in _regressions(hidden, split, labels, classes):
                        said = hidden @ weights
                        accuracy = _accuracy(said, split.val, labels)
                        # Without validation nodes there is nothing to choose by, and the last one is kept.
                        if accuracy > best_accuracy or not len(split.val):
                            best, scores, best_accuracy = _learnt(weights, least, hops), said, accuracy
        logits = torch.from_numpy(scores.astype(np.float32))
        one = Predictor(graph, logits, parameters=best, val_accuracy=best_accuracy, stages=tuple(clock.stages))
        return tuple(replace(one, seed=seed) for seed in seeds)

    def _predict(self, predictor: Predictor, graph: Graph) -> Predictor:
        """The edges and neighbours of the other graph, read with the learnt weights."""
        weights, least, hops = self._known(predictor, graph)
        believed = self._believed(graph, jaccard_similarity(graph, graph.edges) >= least, self._near(graph))
        *_, hidden = islice(_propagated(dense_features(graph.features), believed), hops + 1)
        return Predictor(
            graph,
            torch.from_numpy((hidden @ weights).astype(np.float32)),
            predictor.seed,
            parameters=predictor.parameters,
        )

    def relaxed(self, predictor: Predictor, graph: Graph, *, way: Way = "still") -> EdgeFunction:
        """See `Defense.relaxed`: an edge that is given stays if its ends are similar enough."""
        weights, least, hops = self._known(predictor, graph)
        judge, near = partial(_judged, graph, least), sp.triu(self._near(graph), format="coo")
        kept = graph.with_edges(graph.edges[:, jaccard_similarity(graph, graph.edges) >= least])
        read = replace(
            Frozen.of(graph, kept, kept_whole if way == "open" else judge),
            added=torch.from_numpy(np.stack([near.row, near.col]).astype(np.int64)),
            added_weights=torch.full((near.nnz,), float(self.knn_weight)),
        )
        features = torch.from_numpy(dense_features(graph.features))
        return ThroughPurifier(read, _Linear(features, torch.from_numpy(weights.astype(np.float32)), hops))

    def _known(self, predictor: Predictor, graph: Graph) -> tuple[NDArray[np.float64], float, int]:
        """The learnt weights, least similarity and hops.

        Raises:
            GraphError: the predictor is not from a linear floor, or was trained on other features.
        """
        learnt = predictor.parameters
        if "linear" not in learnt:
            raise GraphError("These predictions are not those of a LinearFloor; give it what its own 'fit' gave back.")
        width = require_features(graph, "LinearFloor compares them").shape[1]
        if width != len(learnt["linear"]):
            raise GraphError(
                f"The graph has {width} features, and the model was trained on {len(learnt['linear'])}; give it the "
                "same ones."
            )
        return learnt["linear"].numpy(), float(learnt["least"]), int(learnt["hops"])

    def _near(self, graph: Graph) -> sp.csr_array:
        return FeatureKNN(k=self.k).purify(graph).graph.adjacency.astype(bool).astype(np.float32)

    def _believed(self, graph: Graph, kept: NDArray[np.bool_], near: sp.csr_array) -> sp.csr_array:
        """The edges that are kept, plus those between near features."""
        return sp.csr_array(graph.with_edges(graph.edges[:, kept]).adjacency + np.float32(self.knn_weight) * near)


@dataclass(frozen=True, eq=False)
class _Linear:
    """The fitted weights as a function of edges."""

    features: torch.Tensor
    weights: torch.Tensor
    hops: int
    device: str = "cpu"

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.features)

    def edges(self, graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
        """See `EdgeFunction`."""
        return torch.from_numpy(graph.edges), torch.from_numpy(graph.weights)

    def logits(self, edges: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """See `EdgeFunction`."""
        step, hidden = WeightedMatrix.normalized(edges, weights, self.nodes), self.features
        for _ in range(self.hops):
            hidden = step @ hidden
        # Without hops, edges do not matter and their gradient is zero.
        return torch.nn.functional.normalize(hidden, dim=1) @ self.weights + 0 * weights.sum()


def _judged(graph: Graph, least: float, pairs: torch.Tensor) -> torch.Tensor:
    """(q,) what pairs (2, q) would weigh as edges."""
    return torch.from_numpy((jaccard_similarity(graph, pairs.numpy()) >= least).astype(np.float32))


def _learnt(weights: NDArray[np.float64], least: float, hops: int) -> dict[str, torch.Tensor]:
    return {
        "linear": torch.from_numpy(weights),
        "least": torch.tensor(least, dtype=torch.float64),
        "hops": torch.tensor(hops),
    }


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
    """(d, classes) weights for each strength of the ridge, from one eigendecomposition."""
    taught = hidden[split.train].astype(np.float64)
    values, vectors = np.linalg.eigh(taught @ taught.T)
    targets = vectors.T @ (labels[split.train][:, None] == np.arange(classes)).astype(np.float64)
    unit = max(float(values.mean()), 1e-12)
    for ridge in _RIDGES:
        yield taught.T @ (vectors @ (targets / (np.maximum(values, 0) + ridge * unit)[:, None]))


def _accuracy(scores: NDArray[np.float64], nodes: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    return float((scores[nodes].argmax(axis=1) == labels[nodes]).mean()) if len(nodes) else float("nan")
