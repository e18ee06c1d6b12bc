"""Calibration: probabilities that mean what they say."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

# The temperatures to try, a fortieth of an octave apart. Beyond a factor of eight a model knows nothing, or all.
_TEMPERATURES = torch.logspace(-3, 3, 241, base=2.0)


def expected_calibration_error(
    probabilities: NDArray[np.floating], labels: NDArray[np.integer], *, bins: int = 15
) -> float:
    """Mean difference between confidence and accuracy over bins of nodes with similar confidence.

    The measure of Guo, Pleiss, Sun and Weinberger (ICML 2017): bins of equal width, weighted by their numbers of nodes.

    Args:
        probabilities: (k, classes) of each node.
        labels: (k,) true classes.
        bins: number of bins.

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
    """The temperature by which to divide logits, (k, classes), to make the labels likeliest; 1 without labels.

    One number for all nodes: it changes how confident a model is, never what it predicts.

    Args:
        logits: logits of each node.
        labels: (k,) true classes.
        counts: (k,) weight of each node; None weights all the same.
    """
    if not len(labels):
        return 1.0
    if counts is None:
        losses = torch.stack([cross_entropy(logits / temperature, labels) for temperature in _TEMPERATURES])
    else:
        each = [cross_entropy(logits / temperature, labels, reduction="none") for temperature in _TEMPERATURES]
        losses = torch.stack(each) @ counts.to(logits)
    return float(_TEMPERATURES[losses.argmin()])
