"""The trained eyes: one picture in, named boxes and the scene out, by onnxruntime on the CPU.

Sees pixels alone: no timestamp, file name or question reaches it. `tools/train_eyes.py` made the weights.
"""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

import numpy as np
import onnxruntime

from trace_ves.backbone.glance.sightings import GLIMPSED, Sighting, View

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MOST_ROWS: Final = 448
"""Pictures with more rows are averaged down first; the eyes were trained on 180 to 448."""
THREADS: Final = 1
"""Threads of one look. Runs answer several questions at once, and each brings a core of its own."""
SURE_OF_SCENE: Final = 0.6

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
    rows, columns = (side // factor * factor for side in picture.shape[:2])
    total = np.zeros((rows // factor, columns // factor, 3), np.uint32)
    for y in range(factor):
        for x in range(factor):
            total += picture[y:rows:factor, x:columns:factor]
    mean: NDArray[np.uint8] = ((total + factor * factor // 2) // (factor * factor)).astype(np.uint8)
    return mean
