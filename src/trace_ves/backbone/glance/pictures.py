"""Pictures made smaller: where one is too large for the eyes, or where too many come at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trace_ves.core import Frame

FRAME_PIXELS: Final = 640 * 360
"""A frame as most methods ask for it."""


def reduction(frames: Iterable[Frame], sharp_frames: int | None) -> float:
    """By how much to divide the sides of frames, so that together they have the pixels of so many usual ones."""
    if sharp_frames is None:
        return 1.0
    pixels = sum(frame.picture.width * frame.picture.height for frame in frames)
    return max(1.0, math.sqrt(pixels / (sharp_frames * FRAME_PIXELS)))


def reduced(picture: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """The picture with each side divided by a factor of 1 or more: every new pixel is the mean of what it covers."""
    if factor == 1:
        return picture
    rows, columns = (max(1, round(side / factor)) for side in picture.shape[:2])
    shorter = _means(picture, rows)
    smaller = _means(shorter.swapaxes(0, 1), columns).swapaxes(0, 1)
    return np.ascontiguousarray(np.rint(smaller).astype(np.uint8))


def _means(values: NDArray[np.uint8] | NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The first axis cut into `size` equal parts, whole or not, and the mean of each."""
    length = len(values)
    edges = np.linspace(0, length, size + 1)
    starts, ends = edges[:-1], edges[1:]
    total = np.zeros((size, *values.shape[1:]), np.float32)
    for step in range(math.ceil(length / size) + 1):
        rows = starts.astype(int) + step
        shares = np.clip(np.minimum(ends, rows + 1) - np.maximum(starts, rows), 0, None).astype(np.float32)
        if shares.any():
            total += shares[:, None, None] * values[np.minimum(rows, length - 1)]
    return total * np.float32(size / length)
