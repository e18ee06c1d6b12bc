"""Metrics of predictions: shares of a confusion matrix, and how well scores rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def recalls(confusion: NDArray[np.integer]) -> Floats:
    """(classes,) share of each class that is found; NaN for a class that no node has.

    Args:
        confusion: (classes, classes) counts, true classes in rows, predicted in columns.

    Example:
        >>> recalls(np.array([[8, 0], [1, 1]]))
        array([1. , 0.5])
    """
    return _shares(confusion.diagonal(), confusion.sum(axis=1))


def precisions(confusion: NDArray[np.integer]) -> Floats:
    """(classes,) share of the predictions of each class that are right; NaN for a class that is never predicted.

    Args:
        confusion: see `recalls`.
    """
    return _shares(confusion.diagonal(), confusion.sum(axis=0))


def f1_scores(confusion: NDArray[np.integer]) -> Floats:
    """(classes,) harmonic mean of precision and recall; NaN for a class that no node has or is predicted to have.

    Args:
        confusion: see `recalls`.

    Example:
        >>> f1_scores(np.array([[8, 0], [2, 0]])).round(3)
        array([0.889, 0.   ])
    """
    return _shares(2 * confusion.diagonal(), confusion.sum(axis=0) + confusion.sum(axis=1))


def accuracy(confusion: NDArray[np.integer]) -> float:
    """Share of the nodes that are classified correctly; NaN without nodes.

    Args:
        confusion: see `recalls`.
    """
    return float(_shares(confusion.trace(), confusion.sum()))


def balanced_accuracy(confusion: NDArray[np.integer]) -> float:
    """Mean recall of the classes that some node has: a constant prediction scores one over their number.

    Args:
        confusion: see `recalls`.

    Example:
        >>> balanced_accuracy(np.array([[98, 0], [2, 0]]))
        0.5
    """
    return _mean(recalls(confusion))


def macro_f1(confusion: NDArray[np.integer]) -> float:
    """Mean F1 of the classes that some node has or is predicted to have.

    Args:
        confusion: see `recalls`.
    """
    return _mean(f1_scores(confusion))


def roc_auc(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """How often a positive node scores higher than a negative one; ties count one half, and 0.5 is chance.

    This is the area under the curve of the true over the false positive rate. NaN if all nodes are positive, or none.

    Args:
        scores: (k,) the higher, the likelier a node is positive.
        positive: (k,) which nodes are positive.

    Example:
        >>> roc_auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, True, False, True]))
        0.875
    """
    total = int(positive.sum())
    others = len(positive) - total
    if not total or not others:
        return float("nan")
    found, flagged = _thresholds(scores, positive)
    gained, wrong = np.diff(found, prepend=0), np.diff(flagged - found, prepend=0)
    below = others - (flagged - found) + wrong / 2  # half of the equal scores count as lower
    return float((gained * below).sum()) / (total * others)


def average_precision(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    r"""Mean precision over the positive nodes, each at the threshold where it is found; chance is their share.

    It is :math:`\sum_k (R_k - R_{k-1}) P_k` over the different scores as thresholds, from the highest on, without
    interpolation. NaN if none is positive.

    Args:
        scores: see `roc_auc`.
        positive: see `roc_auc`.

    Example:
        >>> round(average_precision(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])), 3)
        0.833
    """
    total = int(positive.sum())
    if not total:
        return float("nan")
    found, flagged = _thresholds(scores, positive)
    return float((np.diff(found, prepend=0) * found / flagged).sum() / total)


def macro_roc_auc(probabilities: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """Mean `roc_auc` of each class against the rest, without classes that no node has or every node has.

    Args:
        probabilities: (k, classes) of each node.
        labels: (k,) true classes.
    """
    return _mean(
        np.array([roc_auc(column, labels == one) for one, column in enumerate(probabilities.T)], dtype=np.float64)
    )


def macro_average_precision(probabilities: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """Mean `average_precision` of each class against the rest, without classes that no node has.

    Args:
        probabilities: see `macro_roc_auc`.
        labels: see `macro_roc_auc`.
    """
    return _mean(
        np.array(
            [average_precision(column, labels == one) for one, column in enumerate(probabilities.T)], dtype=np.float64
        )
    )


def _thresholds(
    scores: NDArray[np.floating], positive: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of positive nodes, and of all nodes, at or above each distinct score, from the highest down."""
    order = np.argsort(-scores)
    ends = np.flatnonzero(np.diff(scores[order], append=np.nan))  # the last one always counts as different
    return np.cumsum(positive[order], dtype=np.int64)[ends], ends + 1


def _shares(parts: NDArray[np.integer], wholes: NDArray[np.integer]) -> Floats:
    parts, wholes = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    shares: Floats = np.divide(parts, wholes, out=np.full_like(parts, np.nan), where=wholes > 0)
    return shares


def _mean(values: Floats) -> float:
    """Mean of the values that are not NaN; NaN without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
