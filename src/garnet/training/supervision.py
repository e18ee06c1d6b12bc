"""What models should learn, and the graphs that can teach it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph, Split
from garnet.io.checks import checked_split
from garnet.io.limits import require_memory
from garnet.parameters import Positive

MOST_CLASSES = 5_000
"""Most classes that a model is trained on; its confusion matrix has the square of this many entries."""

ClassWeights = Literal["balanced"] | tuple[Positive, ...]
"""Weight of a node of each class; see `Training.class_weights`."""


@dataclass(frozen=True, eq=False)
class Supervision:
    """What S models should learn.

    Attributes:
        target: (S, n) labels to learn.
        taught: (S, n) which of them to learn.
        known: (S, n) true labels.
        checked: validation nodes.
        classes: number of classes.
        weights: (classes,) weight of a node of each class; None if all weigh the same.
    """

    target: Tensor
    taught: Tensor
    known: Tensor
    checked: Tensor
    classes: int
    weights: Tensor | None = None

    @classmethod
    def of(cls, graph: Graph, seeds: int, device: str, class_weights: ClassWeights | None = None) -> Supervision:
        """The labels of the training nodes, for every seed; see `Training.class_weights`."""
        split, labels, classes = require_trainable(graph)
        known = torch.from_numpy(labels).to(device).expand(seeds, -1)
        taught = torch.zeros_like(known, dtype=torch.bool)
        taught[:, split.train] = True
        weights = None
        if class_weights is not None:
            weights = torch.from_numpy(weights_of(class_weights, labels[split.train], classes)).to(device)
        return cls(known, taught, known, torch.from_numpy(split.val).to(device), classes, weights)

    def taught_by(self, logits: Tensor, confidence: float) -> Supervision:
        """The same with confident predictions of these logits as extra labels, except on the validation nodes."""
        probability, prediction = logits.softmax(dim=2).max(dim=2)
        sure = probability >= confidence
        sure[:, self.checked] = False
        target = torch.where(self.taught, self.target, prediction)
        return replace(self, target=target, taught=self.taught | sure)

    def among(self, nodes: Tensor, asked: int) -> Supervision:
        """The supervision at the first `asked` of some nodes; the others are only inputs."""
        taught = self.taught[:, nodes]
        taught[:, asked:] = False
        target, known = self.target[:, nodes], self.known[:, nodes]
        return replace(self, target=target, taught=taught, known=known, checked=self.checked[:0])

    def losses(self, logits: Tensor) -> Tensor:
        """(S,) mean cross-entropy of each seed on its labels to learn, with class weights."""
        taught, target = self.taught[:, self.nodes], self.target[:, self.nodes]
        masked = torch.where(taught, target, -1)
        losses = cross_entropy(logits[:, self.nodes].transpose(1, 2), masked, ignore_index=-1, reduction="none")
        if self.weights is None:
            # A batch may have nothing for one of the seeds.
            return losses.sum(dim=1) / taught.sum(dim=1).clamp_min(1)
        counts = self.weights[target.clamp_min(0)] * taught
        return (losses * counts).sum(dim=1) / counts.sum(dim=1).clamp_min(self.weights.min())

    def checks(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """(S,) accuracy and mean cross-entropy of each seed on the validation nodes, with class weights."""
        truth, found = self.known[:, self.checked], logits[:, self.checked]
        right = (found.argmax(dim=2) == truth).float()
        losses = cross_entropy(found.transpose(1, 2), truth, reduction="none")
        if self.weights is None:
            return right.mean(dim=1), losses.mean(dim=1)
        counts = self.weights[truth]
        whole = counts.sum(dim=1)
        return (right * counts).sum(dim=1) / whole, (losses * counts).sum(dim=1) / whole

    @cached_property
    def nodes(self) -> Tensor:
        """The nodes whose label some seed should learn."""
        return self.taught.any(dim=0).nonzero()[:, 0]


def weights_of(class_weights: ClassWeights, learnt: NDArray[np.int64], classes: int) -> NDArray[np.float32]:
    """(classes,) weight of a node of each class; with `balanced` the mean is one, and all classes have the same total.

    Args:
        class_weights: see `Training.class_weights`.
        learnt: labels of the training nodes.
        classes: number of classes.

    Raises:
        ParameterError: there are more or fewer weights than classes.

    Example:
        >>> weights_of("balanced", np.array([0, 0, 0, 1]), 2).tolist()  # doctest: +ELLIPSIS
        [0.66..., 2.0]
    """
    if class_weights != "balanced":
        if len(class_weights) != classes:
            raise ParameterError(
                f"The 'class_weights' parameter of Training must be 'balanced' or {classes} numbers, one for each "
                f"class of the labels. Got {len(class_weights)} instead."
            )
        given = np.array(class_weights)
        return np.asarray(np.maximum(given / given.max(), np.finfo(np.float32).tiny), dtype=np.float32)
    counts = np.bincount(learnt, minlength=classes)
    there = counts > 0
    # A class without training nodes cannot be learnt; in validation its nodes have the average weight.
    weights = np.ones(classes)
    weights[there] = len(learnt) / (there.sum() * counts[there])
    return weights.astype(np.float32)


def counts_of(class_weights: ClassWeights | None, graph: Graph) -> Tensor | None:
    """(k,) weight of each validation node of a graph, with mean one; None if all weigh the same."""
    if class_weights is None:
        return None
    split, labels, classes = require_trainable(graph)
    counts = torch.from_numpy(weights_of(class_weights, labels[split.train], classes)[labels[split.val]])
    return counts / counts.mean()


def require_labels(graph: Graph) -> NDArray[np.int64]:
    """The labels of a graph.

    Raises:
        GraphError: it has no labels, or all are unknown.
    """
    if graph.labels is None or graph.labels.max(initial=-1) < 0:
        raise GraphError("The graph has no labels, and a model is trained to predict them; give it some.")
    return graph.labels


def require_trainable(graph: Graph) -> tuple[Split, NDArray[np.int64], int]:
    """The split, labels and number of classes of a graph that can be trained on.

    If no validation node has a label, the returned split has no validation nodes.

    Raises:
        GraphError: the graph lacks labels or a split, the split belongs to another graph, one of its nodes lacks a
            label, all labels to learn are the same, or there are more classes than a model can be trained for.
    """
    labels = require_labels(graph)
    if graph.split is None or not len(graph.split.train):
        raise GraphError(
            "The graph has no training nodes; give it a split, such as garnet.datasets.random_split(graph.labels)."
        )
    split = _checked_parts(graph.split, labels)
    classes = int(labels.max()) + 1
    if classes > MOST_CLASSES:
        raise GraphError(
            f"The labels number {classes} classes, and a model is trained to tell up to {MOST_CLASSES} apart; give it "
            "fewer, or broader ones."
        )
    # The logits, their gradient and what both are computed from.
    require_memory(3 * 4 * graph.num_nodes * classes, f"A model of {classes} classes and {graph.num_nodes} nodes")
    if (labels[labels >= 0] == classes - 1).all():
        raise GraphError(f"All labels of the graph are {classes - 1}; there is nothing to tell apart.")
    learnt = labels[split.train]
    if (learnt == learnt[0]).all():
        raise GraphError(
            f"All {len(learnt)} training nodes have the label {learnt[0]}, and there are other labels to tell it from; "
            "give the split training nodes of those, too."
        )
    return split, labels, classes


def _checked_parts(split: Split, labels: NDArray[np.int64]) -> Split:
    """A split of these nodes, with labels for training and validation."""
    # A graph whose split was replaced by hand has not come through `as_graph`.
    train, val, test = checked_split((split.train, split.val, split.test), len(labels))
    if len(val) and labels[val].max() < 0:
        val = val[:0]
    parts = np.concatenate([train, val])
    unknown = parts[labels[parts] < 0]
    if len(unknown):
        raise GraphError(
            f"Node {unknown[0]} is for training or validation but has no label; {len(unknown)} such in all. Give them "
            "labels, or leave them out of the split."
        )
    return Split(train, val, test)
