"""The trained detector: pixels in, named boxes and the scene out. `tools/train_eyes.py` trained it."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Iterable
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from cachetools import LRUCache, cached

from trace_ves.core.observation import DigestedPicture, Picture
from trace_ves.twin.glance.sightings import GLIMPSED, Eyes, Sighting, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.core import Frame

FRAME_PIXELS: Final = 640 * 360  # the frame size that most methods request


def reduction_factor(frames: Iterable[Frame], sharp_frames: int | None) -> float:
    """The factor that divides the sides of frames, so that all of them have the pixels of `sharp_frames` usual ones."""
    if sharp_frames is None:
        return 1.0
    pixels = sum(frame.picture.width * frame.picture.height for frame in frames)
    return max(1.0, math.sqrt(pixels / (sharp_frames * FRAME_PIXELS)))


def reduce_picture(picture: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """Divide both sides by a factor of 1 or more; every new pixel is the mean of the pixels that it covers."""
    if factor == 1:
        return picture
    rows, columns = (max(1, round(side / factor)) for side in picture.shape[:2])
    shorter = _average(picture, rows)
    smaller = _average(shorter.swapaxes(0, 1), columns).swapaxes(0, 1)
    return np.ascontiguousarray(np.rint(smaller).astype(np.uint8))


def _average(values: NDArray[np.uint8] | NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The means of `size` equal parts of the first axis; parts may cut pixels."""
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


LEAST_ROWS, MOST_ROWS = 180, 448  # of the training pictures; others are scaled first
MOST_COLUMNS: Final = 2048  # limit for enlarging a picture
LEAST_SIDE: Final = 32  # a smaller picture is padded with black
THREADS: Final = 1  # per look; runs answer several questions at once, each on its own core
SURE_OF_SCENE: Final = 0.6

_QUIET: Final = 3  # onnxruntime's log level for errors only


class TrainedEyes:
    """The detector that ships with this package, or another with the same outputs."""

    def __init__(self, path: Path | None = None, *, threads: int = THREADS) -> None:
        import onnxruntime  # the extra glance

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _QUIET
        with as_file(files(__package__) / "eyes.onnx") as shipped:
            self._session = onnxruntime.InferenceSession(
                str(path or shipped), options, providers=["CPUExecutionProvider"]
            )
        notes = self._session.get_modelmeta().custom_metadata_map
        self.classes: tuple[str, ...] = tuple(json.loads(notes["classes"]))
        self.scenes: tuple[str, ...] = tuple(json.loads(notes["scenes"]))

    def __call__(self, picture: NDArray[np.uint8]) -> View:
        """What is in a picture of height x width x 3."""
        boxes, scores, labels, scene = self._session.run(None, {"frames": fit_picture(picture)[None]})
        sure = scores[0] >= GLIMPSED
        detections = zip(labels[0, sure].tolist(), scores[0, sure].tolist(), boxes[0, sure].tolist(), strict=True)
        sightings = tuple(Sighting(self.classes[label], score, tuple(box)) for label, score, box in detections)
        likeliest = int(scene[0].argmax())
        return View(sightings, self.scenes[likeliest] if scene[0, likeliest] >= SURE_OF_SCENE else None)


def fit_picture(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Scale a picture to about the size of the training pictures by averaging or repeating pixels."""
    rows, columns = picture.shape[:2]
    if rows > MOST_ROWS:
        picture = reduce_picture(picture, -(-rows // MOST_ROWS))
    else:
        factor = min(-(-LEAST_ROWS // rows), max(1, MOST_COLUMNS // columns))
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else picture
    missing = [(0, max(0, LEAST_SIDE - side)) for side in picture.shape[:2]]
    return np.ascontiguousarray(np.pad(picture, (*missing, (0, 0))) if any(map(max, missing)) else picture)


MOST_PICTURES: Final = 4096  # several calls and methods look at the same picture


def cache_views(eyes: Eyes, size: int = MOST_PICTURES) -> Callable[[Picture, float], View]:
    """A `glance.Look` that remembers the views of the latest `size` pictures. Thread-safe."""

    @cached(LRUCache(size), key=lambda picture, factor: (_digest(picture), factor), lock=threading.Lock())
    def look(picture: Picture, factor: float) -> View:
        return eyes(reduce_picture(picture.rgb(), factor))

    return look


def _digest(picture: Picture) -> bytes:
    if isinstance(picture, DigestedPicture):
        return picture.digest()
    pixels = picture.rgb()
    return hashlib.blake2b(repr(pixels.shape).encode() + pixels.tobytes(), digest_size=16).digest()
