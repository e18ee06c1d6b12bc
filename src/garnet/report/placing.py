"""Where the nodes of a neighbourhood are drawn: rings around the middle, relaxed by springs; nothing is random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEPS = 80
_RADII = (0.0, 0.5, 1.0)


def place(rings: NDArray[np.int64], edges: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Points in the square from -1 to 1.

    Args:
        rings: (n,) 0 for the node in the middle, which comes first, 1 for its neighbours, 2 for theirs.
        edges: (2, m) places among the nodes.
        groups: (n,) nodes of one group are begun side by side.

    Returns:
        (n, 2) points, the first at the origin.
    """
    points = _begin(rings, edges, groups)
    radii = np.asarray(_RADII)[rings]
    free = (rings > 0)[:, None]
    # So that the mean distance between neighbours suits how many there are.
    apart = 1.1 / np.sqrt(max(len(rings), 4))
    for step in range(_STEPS):
        force = _repulsion(points, apart) + _springs(points, edges, apart) + _towards(points, radii)
        size = np.linalg.norm(force, axis=1, keepdims=True)
        most = 0.08 * (1 - step / _STEPS) + 0.002
        points = points + np.where(free, force * np.minimum(1.0, most / np.maximum(size, 1e-9)), 0.0)
    furthest = np.abs(points).max(initial=0.0)
    return points / furthest if furthest > 0 else points


def _begin(rings: NDArray[np.int64], edges: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Neighbours on a circle, by group; theirs on a wider one, in the direction of those that they hang on."""
    points = np.zeros((len(rings), 2))
    inner = np.flatnonzero(rings == 1)
    inner = inner[np.argsort(groups[inner], kind="stable")]
    points[inner] = _circle(len(inner)) * _RADII[1]
    outer = np.flatnonzero(rings == 2)
    pull = np.zeros_like(points)
    for one, other in (edges, edges[::-1]):
        np.add.at(pull, one, points[other])
    # What hangs on opposite sides has no direction of its own; its number gives it one.
    angles = np.arctan2(pull[outer, 1], pull[outer, 0]) + 1e-6 * outer
    points[outer[np.argsort(angles, kind="stable")]] = _circle(len(outer), np.min(angles, initial=np.pi))
    return points


def _circle(count: int, start: float = 0.0) -> NDArray[np.float64]:
    angles = start + 2 * np.pi * np.arange(count) / max(count, 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _repulsion(points: NDArray[np.float64], apart: float) -> NDArray[np.float64]:
    norms = (points**2).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * points @ points.T, 0.0) + 1e-6
    push = np.where(squared < (4 * apart) ** 2, apart**2 / squared, 0.0)
    moved: NDArray[np.float64] = 0.5 * (points * push.sum(axis=1, keepdims=True) - push @ points)
    return moved


def _springs(points: NDArray[np.float64], edges: NDArray[np.int64], apart: float) -> NDArray[np.float64]:
    """Pulls the ends of an edge together, but those of many edges no harder than those of one."""
    force = np.zeros_like(points)
    counts = np.bincount(edges.ravel(), minlength=len(points))[:, None]
    gaps = points[edges[1]] - points[edges[0]]
    length = np.linalg.norm(gaps, axis=1, keepdims=True)
    pull = gaps * np.maximum(0.0, 1 - apart / np.maximum(length, 1e-9))
    np.add.at(force, edges[0], pull)
    np.add.at(force, edges[1], -pull)
    return 0.25 * force / np.maximum(counts, 1)


def _towards(points: NDArray[np.float64], radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pulls each node to its ring."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    pull: NDArray[np.float64] = 0.3 * points * (radii[:, None] / np.maximum(length, 1e-9) - 1)
    return pull
