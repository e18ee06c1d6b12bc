"""Node data of other libraries and formats, given node by node, as the arrays of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, brief
from garnet.io.arrays import as_array


def names_of(nodes: Sequence[Any]) -> NDArray[Any]:
    """Names of any kind: integers if all of them are, otherwise their texts."""
    integers = all(isinstance(node, int | np.integer) and -(2**63) <= node < 2**63 for node in nodes)
    return np.array(nodes, dtype=np.int64) if integers else np.array([str(node) for node in nodes])


def classes_of(labels: Sequence[Any]) -> NDArray[Any] | None:
    """Labels of nodes as classes, -1 where a node has none; None if they are not integers, but texts for display."""
    known = [label for label in labels if label is not None]
    if not known or not all(isinstance(label, int | np.integer) for label in known):
        return None
    return np.array([-1 if label is None else label for label in labels])


def vectors_of(values: Sequence[Any]) -> NDArray[Any] | None:
    """Vectors of nodes as features; None if they are not vectors, but coordinates for drawing.

    Raises:
        GraphError: some nodes have vectors, and others none or vectors of another length.
    """
    if not any(isinstance(value, list | tuple | np.ndarray) for value in values):
        return None
    width = next(len(value) for value in values if isinstance(value, list | tuple | np.ndarray))
    for number, value in enumerate(values):
        if not isinstance(value, list | tuple | np.ndarray) or len(value) != width:
            raise GraphError(
                f"The vectors 'x' of the nodes must all have {width} numbers, as the first has. Got {brief(value)} for "
                f"node number {number}; complete them, or give features=..."
            )
    return as_array(list(values), "The vectors 'x' of the nodes")
