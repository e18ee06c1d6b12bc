"""Where the names of points go, so that none lies on another."""

from __future__ import annotations

import math
from collections.abc import Sequence

Box = tuple[float, float, float, float]
"""Left, bottom, right and top."""

_MARKER = 4.0  # half of the side of a point's marker, with a little room
_RADII = range(5, 120, 4)
# To the upper right first, where readers look for a name; then all around.
_ANGLES = tuple(math.radians(degrees) for degrees in (30, 150, -30, 210, 0, 180, 60, 120, -60, 240, 90, -90))


def place(
    points: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], bounds: tuple[float, float]
) -> list[Box]:
    """A box for the name of each point: the nearest place that is within the bounds, and free of names and points.

    Args:
        points: their places, from (0, 0) to the bounds.
        sizes: width and height of each name.
        bounds: width and height of the panel.

    Returns:
        One box a point, in their order. Where there is no free place, it is the first that was tried.
    """
    taken = [(x - _MARKER, y - _MARKER, x + _MARKER, y + _MARKER) for x, y in points]
    boxes = []
    for point, size in zip(points, sizes, strict=True):
        tried = [_around(point, size, radius, angle) for radius in _RADII for angle in _ANGLES]
        free = (box for box in tried if _within(box, bounds) and not any(_overlap(box, other) for other in taken))
        boxes.append(next(free, tried[0]))
        taken.append(boxes[-1])
    return boxes


def _around(point: tuple[float, float], size: tuple[float, float], radius: float, angle: float) -> Box:
    (x, y), (width, height) = point, size
    middle_x = x + math.cos(angle) * (radius + width / 2)
    middle_y = y + math.sin(angle) * (radius + height / 2)
    return middle_x - width / 2, middle_y - height / 2, middle_x + width / 2, middle_y + height / 2


def _within(box: Box, bounds: tuple[float, float]) -> bool:
    left, bottom, right, top = box
    return left >= 0 and bottom >= 0 and right <= bounds[0] and top <= bounds[1]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
