"""What speaks for an edge: five agreements between its ends, none of which knows of an attack, and their degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from garnet.backbones.matrices import gcn_matrix
from garnet.errors import RecallWarning, warnings_are
from garnet.graph.graph import Graph, Split
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident
from garnet.linalg.edge_products import inner_products, squared_distances
from garnet.purify.calibration import Evidence
from garnet.purify.features import alikeness, feature_block, scale
from garnet.purify.garnet import GARNET
from garnet.purify.settings import Features
from garnet.purify.suspicion import knots_of
from garnet.spectral.spectrum import Spectrum
from garnet.training.supervision import MOST_CLASSES

# What counts how much. All of these were chosen on the ten published poisons, one value for all; docs/results/audit.md.
_FEATURES_COUNT_FULLY = 0.5
"""Where edges are ahead of chance by so much (Somers' d) in joining nodes of alike features, these count one."""
_NEIGHBORHOOD_SHARE = 0.5
"""What the features of neighbours count beside those of the ends: much of it is the same evidence."""
_CLASSES_COUNT = 3.0
"""What classes count where the linear model never errs: they are learnt from the features and edges of all nodes."""
_NEIGHBORS_COUNT_FULLY = 8.0
"""At this mean degree, sharing neighbours counts one."""

# The linear model of the classes, and what it looks at.
_DOUBTED = 0.3
"""Share of the edges that are not to be among those over which features are averaged."""
FEATURE_RANK = 64
_HOPS = 2
_RIDGE = 1.0
_SHARPNESS = 8.0
"""By how much its scores, from about 0 to 1, are stretched before they become probabilities."""

_OF_ITSELF = ("feature_similarity", "same_class")
"""Reasons that lie in the ends alone, or nearly."""

_KNOTS = 1 << 13
"""Values of a reason between which those of later edges are ranked; the rarest are what tells."""

# Numbers gathered at once for the features around edges.
_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False)
class Places:
    """What an audit knows of nodes, and of its edges as a whole: enough to look at any pair as at an edge.

    Attributes:
        values: (r,) eigenvalues.
        bare: (n, r) the spectral embedding V as it is.
        likely: (n, c) probabilities of classes; None where these tell nothing.
        knots: by name of the reason, some values of it, sorted, and the log-odds of their ranks among the edges.
    """

    values: Tensor
    bare: Tensor
    likely: Tensor | None
    knots: Mapping[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Reasons:
    """What was found of every edge of a graph, and how much of it counts.

    Attributes:
        said: by name, (m,) each: the log-odds of an edge's rank among all; the larger, the more it speaks for the edge,
            but for `degrees`, those of both ends multiplied, which speak for or against.
        weights: by the same names; graph by graph, but from the graph alone. Degrees have none until planted edges were
            seen (`garnet.purify.calibration`).
        columns: what a reader is shown, in plain quantities.
        places: what pairs of nodes that are no edges are compared by, where somebody asked for it.
    """

    said: Mapping[str, Tensor]
    weights: Mapping[str, float]
    columns: Mapping[str, NDArray[Any]]
    places: Places | None = None

    @property
    def belief(self) -> Tensor:
        """The sum of what all reasons say, (m,), each with its weight."""
        return self._weighed().sum(dim=0)

    @property
    def because(self) -> NDArray[np.str_]:
        """The name of the reason that speaks most against each edge, (m,)."""
        names: NDArray[np.str_] = np.array(self._counting)[self._weighed().argmin(dim=0).cpu().numpy()]
        return names

    def profiles(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Evidence | None:
        """What the ends say of themselves, of all edges or of some; None where they say nothing.

        Edges between the same few nodes make each other look true in all other respects.
        """
        own = [self.weights[name] * self.said[name] for name in _OF_ITSELF if self.weights.get(name)]
        if not own:
            return None
        belief = torch.stack(own).sum(dim=0).cpu().numpy()[chosen]
        return Evidence(belief, np.zeros_like(belief))

    def evidence(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Evidence:
        """What `garnet.purify.calibration` learns from, of all edges or of some."""
        belief, degrees = (one.cpu().numpy()[chosen] for one in (self.belief, self.said["degrees"]))
        return Evidence(belief, degrees)

    @property
    def _counting(self) -> list[str]:
        return [name for name, weight in self.weights.items() if weight]

    def _weighed(self) -> Tensor:
        return torch.stack([self.weights[name] * self.said[name] for name in self._counting])


def unit_features(graph: Graph, *, seed: int, device: str) -> Tensor | None:
    """What nodes say of themselves in few directions, (n, d), rows of length one; None where there are no features.

    Edges play no part in it, so that a graph and its copies with other edges have the same.
    """
    kind: Features = "low-rank" if graph.num_features else "none"
    block = feature_block(graph, kind, FEATURE_RANK, seed=seed, device=device)
    return None if block is None else scale(block, "unit")


def reasons_of(graph: Graph, features: Tensor | None, *, seed: int, device: str, places: bool = False) -> Reasons:
    """Five reasons for every edge of a graph, and the degrees of its ends.

    `gradient`: minus the squared distance of both ends in the spectral embedding, rows of length one, times the root of
    1 / d_i + 1 / d_j, which is about the edge's effective resistance. Both are terms of the gradient of the graphical
    model (equation 4 of the paper): an edge that is long, though its ends have few others, is what the model would
    rather be without. `shared_neighbors`: neighbours in common, over those of the end with fewer and the mean degree.
    `feature_similarity`: cosine of the ends' features. `neighborhood_similarity`: cosine of each end's features with
    those of the other's neighbours, itself left out. `same_class`: how likely both ends are of one class, by a linear
    model of features that are averaged over the purified graph, from the labels of the training nodes.

    Weights: the gradient has one. Features count as far as edges join nodes of alike features (Somers' d over
    0.5), their neighbourhood half of that. Classes count three times the square of how much of chance the linear model
    overcomes on the validation nodes. Shared neighbours count an eighth of the mean degree: the more neighbours nodes
    have, the more it says that two share none. A graph without features, or labels, goes without these reasons.

    Args:
        graph: the graph.
        features: those of `unit_features`.
        seed: of everything random.
        device: where to compute.
        places: keep what later edges can be compared by.
    """
    here = Resident.of(graph, device)
    first, second = edges = here.edges
    spectrum, purified = _purified(graph, seed, device)
    bare, likely = spectrum.embedding.float(), None
    points = scale(bare, "unit")
    degrees = here.counts.float()
    mean_degree = float(degrees.mean())
    fewer, more = torch.minimum(degrees[first], degrees[second]), torch.maximum(degrees[first], degrees[second])
    apart, shared = squared_distances(points, points, edges), shared_neighbors(here, edges)
    long = apart * (1 / fewer + 1 / more).sqrt()
    columns = {"spectral_distance": apart, "gradient": long, "shared_neighbors": shared}
    columns |= {"smaller_degree": fewer.int(), "larger_degree": more.int()}
    found = {"gradient": -long, "shared_neighbors": shared * (fewer - 1).clamp_min(1) / (fewer - 1 + mean_degree)}
    found["degrees"] = fewer.double() * more
    weights = {"gradient": 1.0, "shared_neighbors": mean_degree / _NEIGHBORS_COUNT_FULLY, "degrees": 0.0}
    if features is not None:
        of_features = {"feature_similarity": inner_products(features, features, edges)}
        of_features["neighborhood_similarity"] = of_neighborhood(
            sums_around(here, features), features, edges, edges.new_ones(edges.shape[1], dtype=torch.bool)
        )
        say = max(0.0, alikeness(features, edges, seed=seed)) / _FEATURES_COUNT_FULLY
        weights |= {"feature_similarity": say, "neighborhood_similarity": _NEIGHBORHOOD_SHARE * say}
        if purified is not None and purified.labels is not None and purified.split is not None:
            likely, reliable = _classes(purified.labels, purified.split, purified, features)
            of_features["same_class"] = inner_products(likely, likely, edges)
            weights["same_class"] = _CLASSES_COUNT * reliable**2
        found, columns = found | of_features, columns | of_features
    return Reasons(
        {name: log_odds_of_rank(values) for name, values in found.items()},
        weights,
        {name: values.cpu().numpy() for name, values in columns.items()},
        _places(spectrum.values, bare, likely, found) if places else None,
    )


def _places(values: Tensor, bare: Tensor, likely: Tensor | None, found: Mapping[str, Tensor]) -> Places:
    knots = {name: knots_of(told.double().cpu(), _KNOTS) for name, told in found.items()}
    return Places(values.cpu(), bare.cpu(), None if likely is None else likely.cpu(), knots)


def _purified(graph: Graph, seed: int, device: str) -> tuple[Spectrum, Graph | None]:
    """All that the audit asks of GARNET: the spectrum, and the purified graph.

    The latter is None for a graph without features, or without classes that a model can learn.
    """
    purifier = GARNET(seed=seed, support=_DOUBTED)
    if why_no_classes(graph):
        spectrum, purified = purifier.embed(graph, device=device), None
    else:
        # That a few neighbours were missed does not matter to an average over them.
        with warnings_are("ignore", RecallWarning):
            result = purifier.purify(graph, device=device)
        spectrum, purified = result.spectrum, result.graph
    return spectrum, purified


def why_no_classes(graph: Graph) -> str:
    """Why the labels of a graph cannot be a reason, as the end of a sentence; empty where they can."""
    if graph.labels is None or not (graph.labels >= 0).any():
        return "the graph has none"
    if graph.split is None:
        return "the graph has no split that says which of them are for training"
    if not (graph.labels[graph.split.train] >= 0).any():
        return "no training node has one"
    if graph.labels.max(initial=0) >= MOST_CLASSES:
        return f"there are {MOST_CLASSES:,} classes or more"
    return "" if graph.num_features else "the graph has no features, from which classes are learnt"


def sums_around(here: Resident, block: Tensor) -> Tensor:
    """(n, d) the sum of the features of each node's neighbours."""
    return torch.zeros_like(block).index_add_(0, here.rows.long(), block[here.columns.long()])


def of_neighborhood(sums: Tensor, block: Tensor, edges: Tensor, joined: Tensor) -> Tensor:
    """Mean cosine of each end's features with the sum of the other's neighbours', but for the end itself.

    Args:
        sums: (n, d) those of neighbours.
        block: (n, d) features.
        edges: (2, m) pairs of nodes.
        joined: (m,) which of them are edges, so that each end is among the other's neighbours.
    """
    first, second = edges
    total = torch.zeros(len(first), device=block.device)
    for one, other in ((first, second), (second, first)):
        for some in torch.split(torch.arange(len(one), device=block.device), max(1, _AT_ONCE // block.shape[1])):
            itself = block[one[some]] * joined[some, None]
            around = scale(sums[other[some]] - itself, "unit")
            total[some] += (block[one[some]] * around).sum(dim=1)
    return total / 2


def _classes(labelled: NDArray[np.int64], split: Split, purified: Graph, block: Tensor) -> tuple[Tensor, float]:
    """Probabilities of the classes, (n, c), by ridge regression, and how much of chance it overcomes on validation."""
    matrix, smooth = gcn_matrix(purified, str(block.device)), block
    for _ in range(_HOPS):
        smooth = matrix @ smooth
    smooth = scale(smooth, "unit").double()
    labels = torch.from_numpy(labelled)
    count = int(labels.max()) + 1
    train, held = (part[labels[part] >= 0] for part in map(torch.from_numpy, (split.train, split.val)))
    known, target = smooth[train], one_hot(labels[train], count).to(smooth)
    mean = target.mean(dim=0)
    ridge = known.T @ known + _RIDGE * torch.eye(known.shape[1], dtype=known.dtype, device=known.device)
    scores = smooth @ torch.linalg.solve(ridge, known.T @ (target - mean)) + mean
    right = float((scores[held].argmax(dim=1).cpu() == labels[held]).double().mean()) if len(held) else 0.0
    reliable = max(0.0, (right - 1 / count) / (1 - 1 / count)) if count > 1 else 0.0
    return (_SHARPNESS * scores).softmax(dim=1).float(), reliable


def log_odds_of_rank(values: Tensor) -> Tensor:
    """The log-odds of the rank of each value, in float64; ties share theirs."""
    _, place, counts = torch.unique(values, return_inverse=True, return_counts=True)
    return torch.logit((counts.cumsum(0).double() - counts.double() / 2) / len(values))[place]
