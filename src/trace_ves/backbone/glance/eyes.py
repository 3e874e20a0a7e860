"""The trained eyes: one picture in, named boxes and the scene out, by onnxruntime on the CPU.

Sees pixels alone: no timestamp, file name or question reaches it. `tools/train_eyes.py` made the weights.
"""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

import numpy as np
import onnxruntime

from trace_ves.backbone.glance.pictures import reduced
from trace_ves.backbone.glance.sightings import GLIMPSED, Sighting, View

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

LEAST_ROWS, MOST_ROWS = 180, 448
"""Rows of the pictures that the eyes were trained on; others are made smaller or larger first."""
MOST_COLUMNS: Final = 2048
"""A picture is not made larger beyond this."""
LEAST_SIDE: Final = 32
"""A picture that is thinner is continued in black."""
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
        boxes, scores, labels, scene = self._session.run(None, {"frames": fitted(picture)[None]})
        kept = scores[0] >= GLIMPSED
        found = zip(labels[0, kept].tolist(), scores[0, kept].tolist(), boxes[0, kept].tolist(), strict=True)
        sightings = tuple(Sighting(self.classes[label], score, tuple(box)) for label, score, box in found)
        likeliest = int(scene[0].argmax())
        return View(sightings, self.scenes[likeliest] if scene[0, likeliest] >= SURE_OF_SCENE else None)


def fitted(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture with about as many rows as the eyes know: pixels are averaged in blocks, or repeated."""
    rows, columns = picture.shape[:2]
    if rows > MOST_ROWS:
        picture = reduced(picture, -(-rows // MOST_ROWS))
    else:
        factor = min(-(-LEAST_ROWS // rows), max(1, MOST_COLUMNS // columns))
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else picture
    missing = [(0, max(0, LEAST_SIDE - side)) for side in picture.shape[:2]]
    return np.ascontiguousarray(np.pad(picture, (*missing, (0, 0))) if any(map(max, missing)) else picture)
