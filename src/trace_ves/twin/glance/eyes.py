"""The trained eyes: pixels in, named boxes and the scene out, by onnxruntime. `tools/train_eyes.py` made them."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

import numpy as np
from cachetools import LRUCache

from trace_ves.core.observation import DigestedPicture
from trace_ves.twin.glance.sightings import GLIMPSED, Sighting, View

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from trace_ves.core import Frame
    from trace_ves.core.observation import Picture
    from trace_ves.twin.glance.sightings import Eyes

FRAME_PIXELS: Final = 640 * 360  # a frame as most methods ask for it


def reduction_factor(frames: Iterable[Frame], sharp_frames: int | None) -> float:
    """By how much to divide the sides of frames, so that together they have the pixels of so many usual ones."""
    if sharp_frames is None:
        return 1.0
    pixels = sum(frame.picture.width * frame.picture.height for frame in frames)
    return max(1.0, math.sqrt(pixels / (sharp_frames * FRAME_PIXELS)))


def reduce_picture(picture: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """The picture with each side divided by a factor of 1 or more: every new pixel is the mean of what it covers."""
    if factor == 1:
        return picture
    rows, columns = (max(1, round(side / factor)) for side in picture.shape[:2])
    shorter = _average(picture, rows)
    smaller = _average(shorter.swapaxes(0, 1), columns).swapaxes(0, 1)
    return np.ascontiguousarray(np.rint(smaller).astype(np.uint8))


def _average(values: NDArray[np.uint8] | NDArray[np.float32], size: int) -> NDArray[np.float32]:
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


LEAST_ROWS, MOST_ROWS = 180, 448  # of the pictures that the eyes were trained on; others are scaled first
MOST_COLUMNS: Final = 2048  # a picture is not made larger beyond this
LEAST_SIDE: Final = 32  # a picture that is thinner is continued in black
THREADS: Final = 1  # threads of one look. Runs answer several questions at once, each on its own core.
SURE_OF_SCENE: Final = 0.6

_QUIET: Final = 3  # onnxruntime's level for errors alone


class TrainedEyes:
    """The detector that ships with this package, or another of the same form."""

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
        kept = scores[0] >= GLIMPSED
        found = zip(labels[0, kept].tolist(), scores[0, kept].tolist(), boxes[0, kept].tolist(), strict=True)
        sightings = tuple(Sighting(self.classes[label], score, tuple(box)) for label, score, box in found)
        likeliest = int(scene[0].argmax())
        return View(sightings, self.scenes[likeliest] if scene[0, likeliest] >= SURE_OF_SCENE else None)


def fit_picture(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture with about as many rows as the eyes know: pixels are averaged in blocks, or repeated."""
    rows, columns = picture.shape[:2]
    if rows > MOST_ROWS:
        picture = reduce_picture(picture, -(-rows // MOST_ROWS))
    else:
        factor = min(-(-LEAST_ROWS // rows), max(1, MOST_COLUMNS // columns))
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else picture
    missing = [(0, max(0, LEAST_SIDE - side)) for side in picture.shape[:2]]
    return np.ascontiguousarray(np.pad(picture, (*missing, (0, 0))) if any(map(max, missing)) else picture)


MOST_PICTURES: Final = 4096  # one picture is looked at in several calls of a question and by several methods


class PictureCache:
    """Eyes that look once at a picture, for the latest `size` pictures. Threads may share it."""

    def __init__(self, eyes: Eyes, size: int = MOST_PICTURES) -> None:
        self._eyes = eyes
        self._views: LRUCache[tuple[bytes, float], View] = LRUCache(size)
        self._lock = threading.Lock()

    def __call__(self, picture: Picture, factor: float = 1.0) -> View:
        """What is in this picture, its sides divided by a factor."""
        digest = picture.digest() if isinstance(picture, DigestedPicture) else _digest(picture.rgb())
        with self._lock:
            view = self._views.get((digest, factor))
        if view is None:
            view = self._eyes(reduce_picture(picture.rgb(), factor))
            with self._lock:
                self._views[digest, factor] = view
        return view


def _digest(pixels: NDArray[np.uint8]) -> bytes:
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(pixels.tobytes())
    return digest.digest()
