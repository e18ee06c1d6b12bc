"""What models are to learn, and which of their states was best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from garnet.backbones.base import Parameters, require_features
from garnet.errors import GraphError
from garnet.graph.graph import Graph, Split
from garnet.io.limits import require_memory

MOST_CLASSES = 5_000
"""That a model is trained to tell apart; its confusion matrix has the square of it."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """What S models are to learn.

    Attributes:
        target: (S, n) labels to learn.
        taught: (S, n) which of them are learnt.
        known: (S, n) true labels.
        checked: validation nodes.
        classes: number of classes.
    """

    target: Tensor
    taught: Tensor
    known: Tensor
    checked: Tensor
    classes: int

    @classmethod
    def of(cls, graph: Graph, seeds: int, device: str) -> Lesson:
        """The labels of the training nodes, for every seed."""
        split, labels, classes = require_trainable(graph)
        known = torch.from_numpy(labels).to(device).expand(seeds, -1)
        taught = torch.zeros_like(known, dtype=torch.bool)
        taught[:, split.train] = True
        return cls(known, taught, known, torch.from_numpy(split.val).to(device), classes)

    def taught_by(self, logits: Tensor, confidence: float) -> Lesson:
        """The same with what those logits predict surely, outside of the validation nodes, as labels too."""
        probability, prediction = logits.softmax(dim=2).max(dim=2)
        sure = probability >= confidence
        sure[:, self.checked] = False
        target = torch.where(self.taught, self.target, prediction)
        return Lesson(target, self.taught | sure, self.known, self.checked, self.classes)

    def among(self, nodes: Tensor, asked: int) -> Lesson:
        """What is taught at the first `asked` of some nodes; the others are only there to be looked at."""
        taught = self.taught[:, nodes]
        taught[:, asked:] = False
        return Lesson(self.target[:, nodes], taught, self.known[:, nodes], self.checked[:0], self.classes)

    def losses(self, logits: Tensor) -> Tensor:
        """(S,) mean cross-entropy of each seed on what it is taught."""
        taught, target = self.taught[:, self.nodes], self.target[:, self.nodes]
        target = torch.where(taught, target, -1)
        losses = cross_entropy(logits[:, self.nodes].transpose(1, 2), target, ignore_index=-1, reduction="none")
        # A batch may have nothing for one of the seeds.
        return losses.sum(dim=1) / taught.sum(dim=1).clamp_min(1)

    @cached_property
    def nodes(self) -> Tensor:
        """The nodes at which some seed is taught."""
        return self.taught.any(dim=0).nonzero()[:, 0]


class Best:
    """The best state of each of S models so far; one whose patience is spent keeps it whatever comes.

    Attributes:
        epoch: (S,) when it was reached.
        accuracy: (S,) on the validation nodes.
        loss: (S,) likewise.
        logits: (S, n, classes).
        parameters: what had been learnt by then.
        all_done: whether the patience of all is spent.
    """

    parameters: Parameters
    logits: Tensor

    def __init__(self, seeds: int, patience: int | None, device: str) -> None:
        self.epoch = torch.zeros(seeds, dtype=torch.long, device=device)
        self.accuracy = torch.full((seeds,), -1.0, device=device)
        self.loss = torch.full((seeds,), torch.inf, device=device)
        self.all_done = False
        self._patience = patience

    def update(self, epoch: int, parameters: Parameters, logits: Tensor, lesson: Lesson) -> None:
        """Take over the state of the models that did better than ever on the validation nodes."""
        nodes = lesson.checked
        truth = lesson.known[:, nodes]
        accuracy = (logits[:, nodes].argmax(dim=2) == truth).float().mean(dim=1)
        loss = cross_entropy(logits[:, nodes].transpose(1, 2), truth, reduction="none").mean(dim=1)
        better = _beats(accuracy, loss, self.accuracy, self.loss)
        if not len(nodes):  # nothing to choose by: the last is the best
            better[:] = True
        elif self._patience is not None and not (self.accuracy < 0).all():
            waited = epoch - self.epoch
            better &= waited <= self._patience
            self.all_done = bool(((waited >= self._patience) & ~better).all())
        self._take(better, parameters, logits, accuracy, loss, torch.full_like(self.epoch, epoch))

    def merge(self, other: Best) -> None:
        """Take over the other state of each model that did better there."""
        better = _beats(other.accuracy, other.loss, self.accuracy, self.loss)
        self._take(better, other.parameters, other.logits, other.accuracy, other.loss, other.epoch)

    def _take(
        self, chosen: Tensor, parameters: Parameters, logits: Tensor, accuracy: Tensor, loss: Tensor, epoch: Tensor
    ) -> None:
        if not hasattr(self, "logits"):
            self.logits = logits.clone()
            self.parameters = {name: value.detach().clone() for name, value in parameters.items()}
        elif chosen.any():
            self.logits[chosen] = logits[chosen]
            for name, value in parameters.items():
                self.parameters[name][chosen] = value.detach()[chosen]
        self.epoch = torch.where(chosen, epoch, self.epoch)
        self.accuracy = torch.where(chosen, accuracy, self.accuracy)
        self.loss = torch.where(chosen, loss, self.loss)


def _beats(accuracy: Tensor, loss: Tensor, old_accuracy: Tensor, old_loss: Tensor) -> Tensor:
    """Where the accuracy is higher, or the same with a lower loss."""
    return (accuracy > old_accuracy) | ((accuracy == old_accuracy) & (loss < old_loss))


def require_trainable(graph: Graph) -> tuple[Split, NDArray[np.int64], int]:
    """The split, labels and number of classes of a graph that can be trained on.

    Raises:
        GraphError: the graph lacks features, labels or a split, a node of the split lacks a label, all labels are the
            same, or they number more classes than a model is trained for.
    """
    require_features(graph)
    if graph.labels is None:
        raise GraphError("The graph has no labels, and a model is trained to predict them; give it some.")
    if graph.split is None or not len(graph.split.train):
        raise GraphError(
            "The graph has no training nodes; give it a split, such as garnet.datasets.random_split(graph.labels)."
        )
    parts = np.concatenate([graph.split.train, graph.split.val])
    unknown = parts[graph.labels[parts] < 0]
    if len(unknown):
        raise GraphError(
            f"Node {unknown[0]} is for training or validation but has no label; {len(unknown)} such in all."
        )
    classes = int(graph.labels.max()) + 1
    if classes > MOST_CLASSES:
        raise GraphError(
            f"The labels number {classes} classes, and a model is trained to tell up to {MOST_CLASSES} apart; give it "
            "fewer, or broader ones."
        )
    # The logits, their gradient and what both are computed from.
    require_memory(3 * 4 * graph.num_nodes * classes, f"A model of {classes} classes and {graph.num_nodes} nodes")
    if (graph.labels[graph.labels >= 0] == classes - 1).all():
        raise GraphError(f"All labels of the graph are {classes - 1}; there is nothing to tell apart.")
    return graph.split, graph.labels, classes
