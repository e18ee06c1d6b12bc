"""What edges are compared by: a row for every node, found in the same way wherever the graph is stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from garnet.errors import RecallWarning, warnings_are
from garnet.graph.graph import Split
from garnet.purify.features import scale
from garnet.purify.garnet import GARNET
from garnet.purify.place import Block, Work
from garnet.spectral.spectrum import Spectrum
from garnet.training.supervision import MOST_CLASSES

# The linear model of the classes, and its input.
_DOUBTED = 0.3
"""Share of the edges to leave out when features are averaged."""
FEATURE_RANK = 64
_HOPS = 2
_RIDGE = 1.0
_SHARPNESS = 8.0
"""Factor on its scores, from about 0 to 1, before they become probabilities."""


class Ground(Protocol):
    """A graph stored somewhere, and what an audit needs of it beyond a purification's needs."""

    @property
    def work(self) -> Work:
        """What a purification needs."""

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
    """What edges are compared by: rows of all nodes, as each place stores them; see `Side`.

    Attributes:
        reliable: by how much the linear model of classes beats chance; None without a model.
        spectrum: leading eigenpairs, from which the points were made; None once they are no longer needed.
    """

    points: Block
    profiles: tuple[Block, Block] | None
    likely: Block | None
    reliable: float | None
    spectrum: Spectrum | None = None


def purifier(seed: int) -> GARNET:
    """The purifier that provides the spectrum, and the graph over which features are averaged."""
    return GARNET(seed=seed, support=_DOUBTED, feature_rank=FEATURE_RANK)


def features_of(work: Work, method: GARNET) -> Block | None:
    """Features of the nodes in few dimensions, (n, d), rows of length one; None if there are no features.

    Edges play no part, so a graph and its copies with other edges have the same.
    """
    block = work.features(method.on(work.shape))
    return None if block is None else work.map(_unit, block, name="features")


def blocks_of(ground: Ground, method: GARNET, features: Block | None) -> Blocks:
    """What the edges of a graph are compared by; `features` come from `features_of`.

    A linear model predicts classes from features averaged over the purified graph, trained on the labels of the
    training nodes.
    """
    work = ground.work
    profiles = None if features is None else (features, ground.around(features))
    if features is None or why_no_classes(ground.labels, ground.split, work.shape.features):
        spectrum = work.spectrum(method.on(work.shape))
        points = work.map(partial(_points, spectrum.values), spectrum.vectors, name="spectral")
        return Blocks(points, profiles, None, None, spectrum)
    # A few missed neighbours do not matter to an average.
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
    """Class probabilities, (n, c), by ridge regression, and by how much it beats chance on validation."""
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
    """Why the labels of a graph cannot be a reason, as the end of a sentence; empty if they can."""
    if labels is None or not (labels >= 0).any():
        return "the graph has none"
    if split is None:
        return "the graph has no split that says which of them are for training"
    if not (labels[split.train] >= 0).any():
        return "no training node has one"
    if labels.max(initial=0) >= MOST_CLASSES:
        return f"there are {MOST_CLASSES:,} classes or more"
    return "" if features else "the graph has no features, from which classes are learnt"
