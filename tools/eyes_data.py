"""Frames to train and to test the eyes on, drawn by the twin's own renderer, with the box of every sprite.

Needs only numpy. Frames come as the video's planes (YUV 4:2:0, 360 lines), before any damage by compression.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # so that it runs where the package is not installed

from trace_ves.twin.synthetic.drawing import Planes, blend, make_planes, track_stamp
from trace_ves.twin.synthetic.layout import FPS, HEIGHT, WIDTH
from trace_ves.twin.synthetic.scenery import Backdrop, paint
from trace_ves.twin.synthetic.tracks import Track, pose
from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLASSES = tuple(vocabulary().sprites)
SCENES = tuple(vocabulary().scenes)
MOST_SPRITES = 7
FRAMES_PER_BACKDROP = 8
"""Painting a backdrop costs as much as drawing a dozen frames on it."""
SMALLEST_PX, LARGEST_PX = 10, 110
CLEAR, DOUBTFUL = 1, 2
"""Kinds of boxes: one to be found, and one too faint, cut or hidden to be asked for or held against the eyes."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A few frames on one backdrop."""

    planes: NDArray[np.uint8]
    """frames x 540 x 640."""
    boxes: NDArray[np.float32]
    """frames x sprites x (left, top, right, bottom), in pixels of the 360-line frame."""
    labels: NDArray[np.int64]
    """frames x sprites: the number of the class."""
    kinds: NDArray[np.int64]
    """frames x sprites: 0 for no box, else CLEAR or DOUBTFUL."""
    scene: int


def draw_chunk(rng: np.random.Generator) -> Chunk:
    """A random scene with random sprites at random moments of their visits."""
    scene = int(rng.integers(len(SCENES)))
    backdrop = paint(SCENES[scene], [int(rng.integers(2**31))])
    base = make_planes(backdrop)
    shape = (FRAMES_PER_BACKDROP, MOST_SPRITES)
    planes = np.empty((FRAMES_PER_BACKDROP, *base.packed.shape), np.uint8)
    boxes, labels, kinds = np.zeros((*shape, 4), np.float32), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for number in range(FRAMES_PER_BACKDROP):
        frame = Planes(base.packed.copy())
        for slot in range(int(rng.choice(MOST_SPRITES + 1, p=_COUNTS))):
            labels[number, slot] = label = _draw_class(rng, SCENES[scene])
            track = _draw_track(rng, label)
            boxes[number, slot], kinds[number, slot] = _place(frame, backdrop, track, rng)
        _mark_hidden(boxes[number], kinds[number])
        planes[number] = frame.packed
    return Chunk(planes, boxes, labels, kinds, scene)


_COUNTS = np.array([0.12, 0.2, 0.2, 0.16, 0.12, 0.08, 0.07, 0.05])
_HOMES = {
    scene: [number for number, name in enumerate(CLASSES) if scene in vocabulary().sprites[name].homes]
    for scene in SCENES
}


def _draw_class(rng: np.random.Generator, scene: str) -> int:
    """Half of the time one that belongs here, else any."""
    return int(rng.choice(_HOMES[scene]) if rng.random() < 0.5 else rng.integers(len(CLASSES)))


def _draw_track(rng: np.random.Generator, label: int) -> Track:
    sprite = vocabulary().sprites[CLASSES[label]]
    size = round(float(np.exp(rng.uniform(np.log(SMALLEST_PX), np.log(LARGEST_PX)))))
    return Track(
        sprite.name,
        sprite.motion,
        first=0,
        last=int(rng.integers(3 * FPS, 30 * FPS)),
        size_px=size,
        place=float(rng.random()),
        depth=float(rng.random()),
        rightward=bool(rng.random() < 0.5),
    )


def _place(
    frame: Planes, backdrop: Backdrop, track: Track, rng: np.random.Generator
) -> tuple[tuple[float, float, float, float], int]:
    """Draw the sprite at a random moment of its visit; its visible box and kind."""
    stamp = track_stamp(track)
    width, height = stamp.size
    at = pose(track, int(rng.integers(track.last + 1)), backdrop.bands, stamp.size)
    blend(frame, stamp, at)
    left, right = max(0.0, at.x - width / 2), min(float(WIDTH), at.x + width / 2)
    top, bottom = max(0.0, at.foot_y - height), min(float(HEIGHT), at.foot_y)
    seen = max(0.0, right - left) * max(0.0, bottom - top) / (width * height)
    return (left, top, right, bottom), CLEAR if seen >= 0.5 and at.opacity >= 0.5 else DOUBTFUL


def _mark_hidden(boxes: NDArray[np.float32], kinds: NDArray[np.int64]) -> None:
    """A sprite that a later one covers by more than a third is not asked for."""
    for under in np.flatnonzero(kinds):
        for over in np.flatnonzero(kinds):
            if over > under:
                low, high = np.maximum(boxes[under, :2], boxes[over, :2]), np.minimum(boxes[under, 2:], boxes[over, 2:])
                area = np.prod(boxes[under, 2:] - boxes[under, :2])
                if np.prod(np.clip(high - low, 0, None)) > area / 3:
                    kinds[under] = DOUBTFUL
