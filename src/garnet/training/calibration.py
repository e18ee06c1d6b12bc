"""How sure a model may be: probabilities that mean what they say."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

# Temperatures that are tried, a fortieth of an octave apart. Beyond a factor of eight a model knows nothing, or all.
_TEMPERATURES = torch.logspace(-3, 3, 241, base=2.0)


def expected_calibration_error(
    probabilities: NDArray[np.floating], labels: NDArray[np.integer], *, bins: int = 15
) -> float:
    """By how much confidence and accuracy differ, on the mean, where nodes are put into bins by confidence.

    The measure of Guo, Pleiss, Sun and Weinberger (ICML 2017): bins of equal width, weighted by their nodes.

    Args:
        probabilities: (k, classes) of each node.
        labels: (k,) true classes.
        bins: how many.

    Example:
        >>> sure = np.array([[0.9, 0.1]] * 10)
        >>> expected_calibration_error(sure, np.array([0] * 9 + [1])) < 1e-9
        True
        >>> round(expected_calibration_error(sure, np.array([0] * 5 + [1] * 5)), 3)
        0.4
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(which, right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / max(len(labels), 1))


def likeliest_temperature(logits: Tensor, labels: Tensor, counts: Tensor | None = None) -> float:
    """By what to divide logits, (k, classes), so that the labels become likeliest; 1 without any.

    One number for all nodes: it changes how sure a model is, never what it says.

    Args:
        logits: of each node.
        labels: (k,) true classes.
        counts: (k,) how much each counts; None is the same.
    """
    if not len(labels):
        return 1.0
    if counts is None:
        losses = torch.stack([cross_entropy(logits / temperature, labels) for temperature in _TEMPERATURES])
    else:
        each = [cross_entropy(logits / temperature, labels, reduction="none") for temperature in _TEMPERATURES]
        losses = torch.stack(each) @ counts.to(logits)
    return float(_TEMPERATURES[losses.argmin()])
