"""The tools that train and measure eyes: frames with true boxes, and figures that fall when eyes err."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from eyes_data import CLEAR, DOUBTFUL, Chunk, draw_chunk
from eyes_metrics import Detections, measure
from trace_ves.twin.synthetic.drawing import Planes


@pytest.fixture(scope="module")
def chunk() -> Chunk:
    return draw_chunk(np.random.default_rng(4))


def test_frames_show_something_in_every_clear_box(chunk: Chunk) -> None:
    empty = np.median(np.stack([Planes(planes).rgb() for planes in chunk.planes]), axis=0)
    assert (chunk.kinds == CLEAR).any()
    for planes, boxes, kinds in zip(chunk.planes, chunk.boxes, chunk.kinds, strict=True):
        difference = np.abs(Planes(planes).rgb() - empty).max(axis=-1)
        for left, top, right, bottom in boxes[kinds == CLEAR].round().astype(int):
            assert difference[top:bottom, left:right].max() > 20


def test_figures_fall_when_eyes_err(chunk: Chunk) -> None:
    scores = (chunk.kinds > 0).astype(np.float32)
    scene = np.eye(20, dtype=np.float32)[np.full(len(scores), chunk.scene)]
    boxes = chunk.boxes / np.array([640, 360, 640, 360], np.float32)
    doubtful = replace(chunk, kinds=np.where(chunk.kinds > 0, DOUBTFUL, 0))

    def figures(chunk: Chunk, seen: Detections) -> tuple[object, ...]:
        said = measure([(chunk, seen)], threshold=0.5)
        return said["recall"]["all"], said["precision"]["all"], said["misnamed"], said["scene"]  # type: ignore[index]

    assert figures(chunk, (boxes, scores, chunk.labels, scene)) == (100, 100, 0, 100)
    assert figures(chunk, (boxes, scores, chunk.labels + 1, scene)) == (0, 0, 100, 100)  # wrong names
    assert figures(chunk, (boxes, 0 * scores, chunk.labels, scene)) == (0, 0, 0, 100)  # blind
    # Nothing clear was there to find, and no report is held against them.
    assert figures(doubtful, (boxes, scores, chunk.labels + 1, scene)) == (0, 0, 0, 100)
