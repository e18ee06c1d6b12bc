"""What edges are looked at by, found in the same way wherever the graph lies: rows for all its nodes."""

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

# The linear model of the classes, and what it looks at.
_DOUBTED = 0.3
"""Share of the edges that are not to be among those over which features are averaged."""
FEATURE_RANK = 64
_HOPS = 2
_RIDGE = 1.0
_SHARPNESS = 8.0
"""By how much its scores, from about 0 to 1, are stretched before they become probabilities."""


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
