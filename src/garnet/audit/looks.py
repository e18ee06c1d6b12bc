"""How edges are seen: by five agreements between their ends, none of which knows of an attack, and by their degrees.

Everything is written for the edges of one tile: those between the nodes of two parts. In memory there is one tile,
whose rows and columns are all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from garnet.linalg.edge_products import inner_products, squared_distances
from garnet.purify.features import scale

# The weights. All were chosen on the ten published poisoned graphs, one value for all; docs/results/audit.md.
_FEATURES_COUNT_FULLY = 0.5
"""Features have weight one if edges beat chance by this much (Somers' d) in joining nodes with similar features."""
_NEIGHBORHOOD_SHARE = 0.5
"""Weight of the neighbours' features relative to those of the ends: much of it is the same evidence."""
_CLASSES_COUNT = 3.0
"""Weight of classes if the linear model never errs: they are learnt from the features and edges of all nodes."""
_NEIGHBORS_COUNT_FULLY = 8.0
"""At this mean degree, sharing neighbours has weight one."""

_GATHERED, _GATHERED_ON_GPU = 1 << 20, 1 << 24
"""Numbers gathered at a time for the features around edges."""


class Side(NamedTuple):
    """What is known of the nodes at one side of some edges, one row per node.

    Attributes:
        counts: (rows,) numbers of their neighbours.
        points: (rows, r) the spectral embedding, rows of length one.
        profiles: (rows, d) coordinates of their features, rows of length one, and (rows, d) the sum of those of their
            neighbours; None where there are no features.
        likely: (rows, c) class probabilities; None if they carry no information.
    """

    counts: Tensor
    points: Tensor
    profiles: tuple[Tensor, Tensor] | None = None
    likely: Tensor | None = None


def seen_of(ends: Tensor, left: Side, right: Side, shared: Tensor) -> dict[str, Tensor]:
    """Plain quantities of edges to show a reader: (m,) each, by name.

    Args:
        ends: (2, m) row numbers in the one side and in the other; edges of the graph.
        left: the nodes of the first ends.
        right: those of the second.
        shared: (m,) neighbours in common, over the most there could be.
    """
    first, second = left.counts[ends[0]].float(), right.counts[ends[1]].float()
    fewer, more = torch.minimum(first, second), torch.maximum(first, second)
    apart = squared_distances(left.points, right.points, ends)
    seen = {"spectral_distance": apart, "gradient": apart * (1 / fewer + 1 / more).sqrt(), "shared_neighbors": shared}
    seen |= {"smaller_degree": fewer.int(), "larger_degree": more.int()}
    if left.profiles is not None and right.profiles is not None:
        features, around = zip(left.profiles, right.profiles, strict=True)
        seen["feature_similarity"] = inner_products(*features, ends)
        every = torch.ones(ends.shape[1], dtype=torch.bool, device=ends.device)
        seen["neighborhood_similarity"] = of_neighborhood(features, around, ends, every)
    if left.likely is not None and right.likely is not None:
        seen["same_class"] = inner_products(left.likely, right.likely, ends)
    return seen


def spoken_of(seen: Mapping[str, Tensor], mean_degree: float) -> dict[str, Tensor]:
    """What each reason says of edges: the larger, the more in favour; only `degrees` may count for or against.

    `gradient` is minus the squared distance of both ends in the spectral embedding, rows of length one, times the root
    of 1 / d_i + 1 / d_j, which approximates the edge's effective resistance. Both are terms of the gradient of the
    graphical model (equation 4 of the paper): the model would rather do without an edge that is long although its ends
    have few others. `shared_neighbors` are neighbours in common, over those of the end with fewer and the mean degree.
    """
    fewer, more = seen["smaller_degree"].float(), seen["larger_degree"].float()
    said = {"gradient": -seen["gradient"]}
    said["shared_neighbors"] = seen["shared_neighbors"] * (fewer - 1).clamp_min(1) / (fewer - 1 + mean_degree)
    said["degrees"] = fewer.double() * more
    alike = ("feature_similarity", "neighborhood_similarity", "same_class")
    return said | {name: seen[name] for name in alike if name in seen}


def weights_of(mean_degree: float, alike: float | None, reliable: float | None) -> dict[str, float]:
    """The weight of each reason, by the names of `spoken_of`; degrees have none until planted edges were seen.

    Args:
        mean_degree: mean number of neighbours.
        alike: how similar the features of joined nodes are, by `garnet.purify.features.alikeness`; None without any.
        reliable: by how much the linear model of classes beats chance; None without a model.
    """
    weights = {"gradient": 1.0, "shared_neighbors": mean_degree / _NEIGHBORS_COUNT_FULLY, "degrees": 0.0}
    if alike is not None:
        say = max(0.0, alike) / _FEATURES_COUNT_FULLY
        weights |= {"feature_similarity": say, "neighborhood_similarity": _NEIGHBORHOOD_SHARE * say}
    if reliable is not None:
        weights["same_class"] = _CLASSES_COUNT * reliable**2
    return weights


def of_neighborhood(
    features: tuple[Tensor, Tensor], around: tuple[Tensor, Tensor], ends: Tensor, joined: Tensor
) -> Tensor:
    """Mean cosine of each end's features with the sum of the other's neighbours', the end itself excluded.

    Args:
        features: features of the nodes at the one side and at the other, one row per node.
        around: the summed features of their neighbours, likewise.
        ends: (2, m) row numbers in the one side and in the other.
        joined: (m,) which pairs are edges, so that each end is among the other's neighbours.
    """
    total = torch.zeros(ends.shape[1], device=ends.device)
    at_once = max(1, (_GATHERED if ends.device.type == "cpu" else _GATHERED_ON_GPU) // features[0].shape[1])
    for mine, theirs in ((0, 1), (1, 0)):
        for some in torch.split(torch.arange(ends.shape[1], device=ends.device), at_once):
            own = features[mine][ends[mine, some]]
            beside = scale(around[theirs][ends[theirs, some]] - own * joined[some, None], "unit")
            total[some] += (own * beside).sum(dim=1)
    return total / 2


def log_odds_of_rank(values: Tensor) -> Tensor:
    """The log-odds of the rank of each value, in float64; ties share theirs."""
    _, place, counts = torch.unique(values, return_inverse=True, return_counts=True)
    return torch.logit((counts.cumsum(0).double() - counts.double() / 2) / len(values))[place]
