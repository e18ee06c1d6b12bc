"""The verdict on a model's predictions: every metric on its test nodes, and which of them comes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GarnetWarning, GraphError
from garnet.training import metrics
from garnet.training.supervision import MOST_CLASSES

IMBALANCED = 0.8
"""If one class has more than this share of the labelled nodes, accuracy says more about the labels than the model."""

Headline = Literal["accuracy", "balanced accuracy"]


_MOST_NAMED = 5


class NeverFoundWarning(GarnetWarning):
    """A model finds none of the nodes of a class on which it is judged."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How good predictions are, by all metrics at once.

    With two classes, the rarer among the labelled nodes is the positive one, or class 1 in a tie. F1
    and average precision are then those of the positive class; with more classes, they and the AUC are means over
    classes, each against the rest.

    Attributes:
        nodes: number of nodes it is based on: test nodes with a label, unless others were asked for.
        counts: number of these in each class.
        largest: the largest class among all labelled nodes of the graph.
        largest_share: its share of them.
        headline: the metric that suits the labels: `balanced accuracy` if `largest_share` exceeds 0.8, else `accuracy`.
        accuracy: share of the nodes that are classified correctly.
        balanced_accuracy: mean recall of the classes.
        always_largest: accuracy of predicting the largest class everywhere; below it, a model has learnt nothing.
        positive: the class to find, of two; None if there are more.
        f1: F1 of the positive class if there are two; else macro F1.
        macro_f1: mean F1 of the classes.
        auc: area under the ROC curve; 0.5 is chance. NaN if all nodes are of one class.
        average_precision: area under the curve of precision over recall.
        recall: of each class, NaN if no node has it.
        precision: of each class, NaN if it is never predicted.
        never_predicted: classes that some node has but none is predicted to have.
    """

    nodes: int
    counts: tuple[int, ...]
    largest: int
    largest_share: float
    headline: Headline
    accuracy: float
    balanced_accuracy: float
    always_largest: float
    positive: int | None
    f1: float
    macro_f1: float
    auc: float
    average_precision: float
    recall: tuple[float, ...]
    precision: tuple[float, ...]
    never_predicted: tuple[int, ...]

    @classmethod
    def of(
        cls,
        probabilities: NDArray[np.floating],
        labels: NDArray[np.integer],
        *,
        predicted: NDArray[np.integer] | None = None,
        known: NDArray[np.integer] | None = None,
    ) -> Verdict:
        """The verdict on predictions for some nodes.

        Args:
            probabilities: (k, classes) of each node.
            labels: (k,) true classes.
            predicted: (k,) predicted classes; None takes the likeliest.
            known: labels of all labelled nodes, which decide the headline and the positive class; None takes `labels`.

        Raises:
            GraphError: there is no node, or there are too many classes.

        Example:
            >>> Verdict.of(np.array([[0.9, 0.1]] * 9 + [[0.7, 0.3]]), np.array([0] * 9 + [1])).headline
            'balanced accuracy'
        """
        if not len(labels):
            raise GraphError("A verdict needs at least one node with a label, and there is none.")
        every = np.bincount(labels if known is None else known)
        predicted = probabilities.argmax(axis=1) if predicted is None else predicted
        confusion = confusion_of(predicted, labels, classes=probabilities.shape[1])
        classes, counts = len(confusion), confusion.sum(axis=1)
        largest = int(every.argmax())
        positive = None if max(classes, len(every)) > 2 else _rarer(every)
        # A class that the model does not know gets no probability.
        scores = np.pad(probabilities, ((0, 0), (0, classes - probabilities.shape[1])))
        if positive is None:
            f1, area = metrics.macro_f1(confusion), metrics.macro_roc_auc(scores, labels)
            average = metrics.macro_average_precision(scores, labels)
        else:
            found, column = labels == positive, scores[:, positive]
            f1, area = float(metrics.f1_scores(confusion)[positive]), metrics.roc_auc(column, found)
            average = metrics.average_precision(column, found)
        return cls(
            nodes=len(labels),
            counts=tuple(counts.tolist()),
            largest=largest,
            largest_share=float(every[largest] / every.sum()),
            headline="balanced accuracy" if is_imbalanced(labels if known is None else known) else "accuracy",
            accuracy=metrics.accuracy(confusion),
            balanced_accuracy=metrics.balanced_accuracy(confusion),
            always_largest=float((labels == largest).mean()),
            positive=positive,
            f1=f1,
            macro_f1=metrics.macro_f1(confusion),
            auc=area,
            average_precision=average,
            recall=tuple(metrics.recalls(confusion).tolist()),
            precision=tuple(metrics.precisions(confusion).tolist()),
            never_predicted=tuple(np.flatnonzero((counts > 0) & (confusion.sum(axis=0) == 0)).tolist()),
        )

    @property
    def never_found(self) -> tuple[int, ...]:
        """The classes that some node has but of which none is found, predicted elsewhere or not."""
        return tuple(one for one, share in enumerate(self.recall) if share == 0)

    @property
    def score(self) -> float:
        """The metric that the headline names."""
        return self.balanced_accuracy if self.headline == "balanced accuracy" else self.accuracy

    @property
    def imbalanced(self) -> bool:
        """Whether accuracy says more about the labels than about the model."""
        return self.headline != "accuracy"

    def __str__(self) -> str:
        parts = [f"{self.headline} {self.score:.1%}"]
        if self.imbalanced:
            parts.append(
                f"accuracy {self.accuracy:.1%}, where always saying {self.largest} has {self.always_largest:.1%}"
            )
        of = "" if self.positive is None else f" of class {self.positive}"
        named = {"F1": self.f1, "AUC": self.auc, "average precision": self.average_precision}
        parts += [
            f"{name}{'' if name == 'AUC' else of} {value:.3f}" for name, value in named.items() if np.isfinite(value)
        ]
        return f"{'; '.join(parts)}; {self.nodes:,} nodes"


def is_imbalanced(labels: NDArray[np.integer]) -> bool:
    """Whether one class has more than 80 % of the nodes whose label is known, so that accuracy says little.

    Example:
        >>> is_imbalanced(np.array([0, 0, 0, 0, 1])), is_imbalanced(np.array([0, 0, 0, 0, 0, 1, -1]))
        (False, True)
    """
    counts = np.bincount(labels[labels >= 0])
    return bool(counts.max(initial=0) > IMBALANCED * counts.sum())


def confusion_of(predicted: NDArray[np.integer], labels: NDArray[np.integer], *, classes: int = 0) -> NDArray[np.int64]:
    """(classes, classes) counts of nodes: true classes in rows, predicted in columns.

    Args:
        predicted: (k,) classes.
        labels: (k,) true classes.
        classes: least number of rows.

    Raises:
        GraphError: there are too many classes for such a matrix.
    """
    classes = max(classes, int(labels.max(initial=-1)) + 1, int(predicted.max(initial=-1)) + 1)
    if classes > MOST_CLASSES:
        raise GraphError(f"A confusion matrix is made for up to {MOST_CLASSES} classes. Got {classes} instead.")
    return np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def never_found(verdicts: Iterable[Verdict], cure: str = "") -> list[str]:
    """A sentence on the classes that models fail to find, given their verdicts on the same nodes; or nothing.

    Args:
        verdicts: verdicts on one or more models.
        cure: what to do about it, in words that follow "try"; may be empty.
    """
    found = list(verdicts)
    missed = sorted({one for verdict in found for one in verdict.never_found})
    if not missed:
        return []
    counts, nodes = found[0].counts, found[0].nodes
    missing = [verdict for verdict in found if verdict.never_found]
    by = "" if len(missing) == len(found) else f" by {len(missing)} of {len(found)} models"
    if len(missed) == 1:
        never = all(verdict.never_predicted for verdict in missing)
        said = f"Class {missed[0]} is never {'predicted' if never else 'found'}{by}, though {counts[missed[0]]:,}"
        said += f" of {nodes:,} nodes have it"
    else:
        others = f" and {len(missed) - _MOST_NAMED} others" if len(missed) > _MOST_NAMED else ""
        said = f"Classes {', '.join(map(str, missed[:_MOST_NAMED]))}{others} are never found{by}, though "
        said += f"{sum(counts[one] for one in missed):,} of {nodes:,} nodes have them"
    return [f"{said}; try {cure}." if cure else f"{said}."]


def _rarer(counts: NDArray[np.integer]) -> int:
    """The positive one of two classes."""
    return int(len(counts) < 2 or counts[1] <= counts[0])
