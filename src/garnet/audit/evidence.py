"""What speaks for an edge, and how much each reason counts, found in the same way wherever the graph lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from garnet.audit.looks import Side, log_odds_of_rank, seen_of, spoken_of, weights_of
from garnet.backbones.matrices import gcn_matrix
from garnet.errors import RecallWarning, warnings_are
from garnet.graph.graph import Graph, Split
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident
from garnet.purify.calibration import Evidence
from garnet.purify.features import alikeness, scale
from garnet.purify.garnet import GARNET
from garnet.purify.memory import GraphInMemory, InMemory
from garnet.purify.place import Block, Work
from garnet.purify.suspicion import knots_of
from garnet.spectral.spectrum import Spectrum
from garnet.training.supervision import MOST_CLASSES

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
        said: by the names of `garnet.audit.looks.spoken_of`, (m,) each: the log-odds of an edge's rank among all.
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
        names: NDArray[np.str_] = np.array(self.counting)[self.strongest.cpu().numpy()]
        return names

    @property
    def strongest(self) -> Tensor:
        """The place of that reason among `counting`, (m,)."""
        return self._weighed().argmin(dim=0)

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
    def counting(self) -> list[str]:
        """The names of the reasons that count anything."""
        return [name for name, weight in self.weights.items() if weight]

    def _weighed(self) -> Tensor:
        return torch.stack([self.weights[name] * self.said[name] for name in self.counting])


class Ground(Protocol):
    """A graph that lies somewhere, and what an audit asks of it beside what a purification does."""

    @property
    def work(self) -> Work:
        """What a purification asks."""

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each node, -1 where unknown; None without labels."""

    @property
    def split(self) -> Split | None:
        """For which nodes labels may be known."""

    def around(self, block: Block) -> Block:
        """The sum of the rows of each node's neighbours."""

    def smoothed(self, graph: Any, block: Block) -> Block:
        """D^(-1/2) (A + I) D^(-1/2) times a block, for the A that `Work.gather` gave."""


class Blocks(NamedTuple):
    """What edges are looked at by: rows of all nodes, as the places keep them; see `Side`.

    Attributes:
        reliable: how much of chance the linear model of classes overcomes; None where there is none.
        spectrum: leading eigenpairs, of which the points were made; None where nobody asks for them any more.
    """

    points: Block
    profiles: tuple[Block, Block] | None
    likely: Block | None
    reliable: float | None
    spectrum: Spectrum | None = None


def purifier(seed: int) -> GARNET:
    """Whose spectrum is looked at, and over whose graph features are averaged."""
    return GARNET(seed=seed, support=_DOUBTED, feature_rank=FEATURE_RANK)


def features_of(work: Work, method: GARNET) -> Block | None:
    """What nodes say of themselves in few directions, (n, d), rows of length one; None where there are no features.

    Edges play no part in it, so that a graph and its copies with other edges have the same.
    """
    block = work.features(method.on(work.shape))
    return None if block is None else work.map(_unit, block, name="features")


def blocks_of(ground: Ground, method: GARNET, features: Block | None) -> Blocks:
    """What the edges of a graph are looked at by; `features` are those of `features_of`.

    Classes are told by a linear model of features that are averaged over the purified graph, from the labels of the
    training nodes.
    """
    work = ground.work
    profiles = None if features is None else (features, ground.around(features))
    if features is None or why_no_classes(ground.labels, ground.split, work.shape.features):
        spectrum = work.spectrum(method.on(work.shape))
        points = work.map(partial(_points, spectrum.values), spectrum.vectors, name="spectral")
        return Blocks(points, profiles, None, None, spectrum)
    # That a few neighbours were missed does not matter to an average over them.
    with warnings_are("ignore", RecallWarning):
        _, embedding, _, pruned = method.stages(work)
    points = work.map(partial(_leading, embedding.spectrum.rank), embedding.points, name="spectral")
    likely, reliable = _classes(ground, pruned.graph, features)
    return Blocks(points, profiles, likely, reliable, embedding.spectrum)


def _unit(rows: Tensor) -> Tensor:
    return scale(rows, "unit")


def _points(values: Tensor, vectors: Tensor) -> Tensor:
    return scale((vectors * values.abs().sqrt()).float(), "unit")


def _leading(rank: int, points: Tensor) -> Tensor:
    return points[:, :rank]


def _classes(ground: Ground, purified: Any, smooth: Block) -> tuple[Block, float]:
    """Probabilities of the classes, (n, c), by ridge regression, and how much of chance it overcomes on validation."""
    for _ in range(_HOPS):
        smooth = ground.smoothed(purified, smooth)
    smooth = ground.work.map(_unit, smooth)
    known, split = ground.labels, ground.split
    if known is None or split is None:
        raise RuntimeError("classes are learnt from labels and a split")
    labels = torch.from_numpy(known)
    count = int(labels.max()) + 1
    train, held = (part[labels[part] >= 0] for part in map(torch.from_numpy, (split.train, split.val)))
    rows = ground.work.take(smooth, train).double()
    target = one_hot(labels[train], count).to(rows)
    mean = target.mean(dim=0)
    ridge = rows.T @ rows + _RIDGE * torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    score = partial(_scores, torch.linalg.solve(ridge, rows.T @ (target - mean)), mean)
    right = 0.0
    if len(held):
        right = float((score(ground.work.take(smooth, held)).argmax(dim=1).cpu() == labels[held]).double().mean())
    reliable = max(0.0, (right - 1 / count) / (1 - 1 / count)) if count > 1 else 0.0
    return ground.work.map(partial(_probabilities, score), smooth, name="likely"), reliable


def _scores(coefficients: Tensor, mean: Tensor, rows: Tensor) -> Tensor:
    return rows.double() @ coefficients + mean


def _probabilities(score: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    return (_SHARPNESS * score(rows)).softmax(dim=1).float()


def why_no_classes(labels: NDArray[np.int64] | None, split: Split | None, features: int) -> str:
    """Why the labels of a graph cannot be a reason, as the end of a sentence; empty where they can."""
    if labels is None or not (labels >= 0).any():
        return "the graph has none"
    if split is None:
        return "the graph has no split that says which of them are for training"
    if not (labels[split.train] >= 0).any():
        return "no training node has one"
    if labels.max(initial=0) >= MOST_CLASSES:
        return f"there are {MOST_CLASSES:,} classes or more"
    return "" if features else "the graph has no features, from which classes are learnt"


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
    """Those of `features_of`, of a graph in memory."""
    method = purifier(seed)
    with place.open(method, graph) as work:
        found: Tensor | None = features_of(work, method)
    return found


def reasons_of(graph: Graph, features: Tensor | None, *, seed: int, place: InMemory, places: bool = False) -> Reasons:
    """The reasons for every edge of a graph in memory, and what they count.

    Weights: the gradient has one. Features count as far as edges join nodes of alike features (Somers' d over
    0.5), their neighbourhood half of that. Classes count three times the square of how much of chance the linear model
    overcomes on the validation nodes. Shared neighbours count an eighth of the mean degree: the more neighbours nodes
    have, the more it says that two share none. A graph without features, or labels, goes without these reasons.

    Args:
        graph: the graph.
        features: those of `unit_features`.
        seed: of everything random.
        place: where to compute.
        places: keep what later edges can be compared by.
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
