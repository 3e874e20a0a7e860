"""The trained eyes: one picture in, named boxes and the scene out, by onnxruntime on the CPU.

Sees pixels alone: no timestamp, file name or question reaches it. `tools/train_eyes.py` made the weights.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

import numpy as np
import onnxruntime

from trace_ves.backbone.glance.sightings import GLIMPSED, Sighting, View

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from trace_ves.backbone.glance.sightings import Eyes

MOST_ROWS: Final = 448
"""Pictures with more rows are averaged down first; the eyes were trained on 180 to 448."""
THREADS: Final = 1
"""Threads of one look. Runs answer several questions at once, and each brings a core of its own."""
SURE_OF_SCENE: Final = 0.6
MEMORY: Final = 4096
"""Views that are kept; the same picture is looked at in several calls of one question."""

_QUIET: Final = 3  # onnxruntime's level for errors alone


class TrainedEyes:
    """The detector that ships with this package, or another of the same form."""

    def __init__(self, path: Path | None = None, *, threads: int = THREADS) -> None:
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
        boxes, scores, labels, scene = self._session.run(None, {"frames": reduced(picture)[None]})
        kept = np.flatnonzero(scores[0] >= GLIMPSED)
        sightings = tuple(
            Sighting(self.classes[labels[0, i]], float(scores[0, i]), (left, top, right, bottom))
            for i in kept
            for left, top, right, bottom in (boxes[0, i].tolist(),)
        )
        likeliest = int(scene[0].argmax())
        return View(sightings, self.scenes[likeliest] if scene[0, likeliest] >= SURE_OF_SCENE else None)


def reduced(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture with at most `MOST_ROWS` rows: blocks of pixels are averaged, rows and columns left over are cut."""
    factor = -(-picture.shape[0] // MOST_ROWS)
    if factor == 1:
        return np.ascontiguousarray(picture)
    rows, columns = picture.shape[0] // factor, max(1, picture.shape[1] // factor)
    blocks = picture[: rows * factor, : columns * factor].reshape(rows, factor, columns, -1, 3)
    return np.ascontiguousarray((blocks.mean(axis=(1, 3), dtype=np.float32) + 0.5).astype(np.uint8))


class RememberingEyes:
    """Other eyes, with the views of the latest pictures kept by their pixels. It only saves time."""

    def __init__(self, eyes: Eyes, size: int = MEMORY) -> None:
        self._eyes = eyes
        self._size = size
        self._views: OrderedDict[bytes, View] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, picture: NDArray[np.uint8]) -> View:
        """The view of this picture, new or remembered."""
        identity = hashlib.blake2b(np.ascontiguousarray(picture).data, digest_size=16)
        identity.update(repr(picture.shape).encode())
        key = identity.digest()
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
        view = self._eyes(picture)
        with self._lock:
            self._views[key] = view
            if len(self._views) > self._size:
                self._views.popitem(last=False)
        return view
