"""Where the labels of a plot go so that they hide neither points, lines nor one another. Plain geometry in pixels."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Box(NamedTuple):
    """A rectangle by its lower left and upper right corner."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The area that two boxes share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return width * height if width > 0 and height > 0 else 0.0


SIDES: Final = ((-1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0), (-1.0, -1.0))
"""Left, right, above, below, then the corners: the order is the preference among equals."""
REACHES: Final = (1.0, 2.2)
OUTSIDE_COST: Final = 3.0
"""A pixel outside the frame weighs as much as this many hidden ones."""


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    frame: Box,
    *,
    gap: float,
) -> list[tuple[float, float]]:
    """The centre of each label: beside its point, on the side where it hides the least."""
    taken = list(obstacles)
    centres = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        candidates = [
            (x + side * (reach * gap + width / 2), y + rise * (reach * gap + height / 2))
            for reach in REACHES
            for side, rise in SIDES
        ]
        boxes = [Box(cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2) for cx, cy in candidates]
        best = min(range(len(boxes)), key=lambda index: _cost(boxes[index], taken, frame))
        centres.append(candidates[best])
        taken.append(boxes[best])
    return centres


def _cost(box: Box, taken: Sequence[Box], frame: Box) -> float:
    area = (box.right - box.left) * (box.top - box.bottom)
    return sum(box.overlap(other) for other in taken) + OUTSIDE_COST * (area - box.overlap(frame))


def boxes_along(points: Sequence[tuple[float, float]], radius: float) -> list[Box]:
    """Small boxes along a line through the points, so that labels keep off it."""
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(points):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / (2 * radius)))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            boxes.append(Box(x - radius, y - radius, x + radius, y + radius))
    return boxes
