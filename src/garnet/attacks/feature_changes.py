"""Which features an attack may change, how far, and which of the changes are worth making."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.attacks.feature_model import FeatureGradient, FeatureModel, Gains
from garnet.attacks.models import attack_loss
from garnet.graph.perturbation import Entries


@dataclass(frozen=True, eq=False)
class FeatureGroup:
    """Nodes that are attacked together.

    Attributes:
        nodes: which.
        classes: what they are to lose.
        budget: changes for all of them.
        kind: name of the loss.
        open: nodes whose features may be changed; None if those of all may.
        width: number of features.
    """

    nodes: Tensor
    classes: Tensor
    budget: int
    kind: str
    open: Tensor | None
    width: int

    def loss(self, logits: Tensor) -> Tensor:
        """What the attacker wants large, of the logits of all nodes."""
        return attack_loss(self.kind, logits[self.nodes], self.classes)

    def quota(self, taken: Tensor) -> int:
        """The budget, or as many entries as are left."""
        if self.open is None:
            return self.budget
        return min(self.budget, len(self.open) * self.width - int(torch.isin(taken[0], self.open).sum()))

    def best(self, gradient: FeatureGradient, count: int, gains: Gains, taken: Tensor) -> tuple[Tensor, Tensor]:
        """Entries to change, the best first, and what they are worth."""
        if self.open is not None:
            return gradient.largest(count, gains, self.open, taken)
        felt = gradient.left.any(dim=1)
        if int(felt.sum()) * self.width - int(felt[taken[0]].sum()) < count:
            felt = torch.ones_like(felt)
        return gradient.largest(count, gains, felt.nonzero()[:, 0], taken)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Where entries may go: (d,) how far a feature's entries move, and the least and largest value it has anywhere."""

    model: FeatureModel
    reach: Tensor
    least: Tensor
    largest: Tensor

    @classmethod
    def of(cls, model: FeatureModel, epsilon: float, unit: str) -> Bounds:
        """Of numbers: each moves by so much, or so many times the `spread` of its feature."""
        matrix: Any = model.features
        ends = [one.toarray() if sp.issparse(one) else one for one in (matrix.min(axis=0), matrix.max(axis=0))]
        least, largest = (torch.from_numpy(np.ravel(end).astype(np.float32)).to(model.device) for end in ends)
        if unit == "absolute":
            return cls(model, torch.full_like(least, epsilon), least, largest)
        wide = matrix.astype(np.float64)
        mean, square = (np.asarray(one.mean(axis=0)).ravel() for one in (wide, wide * wide))
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        return cls(model, torch.from_numpy((epsilon * spread).astype(np.float32)).to(model.device), least, largest)

    @classmethod
    def binary(cls, model: FeatureModel) -> Bounds:
        """Of words: each is flipped, to 0 or 1."""
        ones = torch.ones(model.features.shape[1], device=model.device)
        return cls(model, ones, torch.zeros_like(ones), ones)

    def corner(self, gradient: FeatureGradient, places: Tensor) -> Tensor:
        """(m,) what is added to entries if each goes as far as it may where the loss grows."""
        limits = (one[places[1]] for one in (self.reach, self.least, self.largest))
        return _farthest(gradient.at(places), self.model.at(places), *limits)

    def inside(self, places: Tensor, values: Tensor) -> Tensor:
        """Values (m,) of entries, after rounding has put some just outside of what a feature may be."""
        return values.clamp(self.least[places[1]], self.largest[places[1]])

    def worth(self, nodes: Tensor, slopes: Tensor) -> Tensor:
        """(b, d) by how much the loss then grows, to first order, for each entry of some nodes."""
        return slopes * _farthest(slopes, self.model.rows(nodes), self.reach, self.least, self.largest)


def _farthest(slopes: Tensor, clean: Tensor, reach: Tensor, least: Tensor, largest: Tensor) -> Tensor:
    return torch.where(slopes > 0, torch.minimum(reach, largest - clean), torch.maximum(-reach, least - clean))


def promising(step: int, growing: int, renewed: float, quota: int, worth: Tensor) -> tuple[Tensor, int]:
    """Which of the changes stay after a step, and how many there shall be.

    Args:
        step: which.
        growing: steps in which the changes become as many as the quota.
        renewed: share of them that makes room in the first step after that; in the t-th it is that over the root of t.
        quota: changes in the end.
        worth: (m,) of each change that there is.
    """
    if step < growing:
        return torch.arange(len(worth), device=worth.device), quota * (step + 1) // growing
    staying = math.ceil(quota * (1 - renewed / math.sqrt(step - growing + 1)))
    kept = worth.argsort(descending=True, stable=True)[:staying]
    return kept[worth[kept] > 0], quota


def no_changes(device: str) -> tuple[Tensor, Tensor]:
    """No entries, and no changes of them."""
    return torch.zeros((2, 0), dtype=torch.int64, device=device), torch.zeros(0, device=device)


def as_entries(model: FeatureModel, places: Tensor, after: Tensor) -> Entries:
    """Changes as an attack yields them, without those that come to nothing."""
    before = model.at(places)
    moved = before != after
    values = [one[moved].cpu().numpy() for one in (before, after)]
    return Entries(places[:, moved].cpu().numpy(), *values)


def is_binary(features: Any) -> bool:
    """Whether features are words that are there or not."""
    values = features.data if sp.issparse(features) else features
    return bool(((values == 0) | (values == 1)).all())
