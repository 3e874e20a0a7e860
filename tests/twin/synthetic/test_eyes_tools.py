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


def perfect(chunk: Chunk) -> Detections:
    scores = (chunk.kinds > 0).astype(np.float32)
    scene = np.eye(20, dtype=np.float32)[np.full(len(scores), chunk.scene)]
    return chunk.boxes / np.array([640, 360, 640, 360], np.float32), scores, chunk.labels, scene


def test_frames_show_something_in_every_clear_box(chunk: Chunk) -> None:
    empty = np.median(np.stack([Planes(planes).rgb() for planes in chunk.planes]), axis=0)
    assert (chunk.kinds == CLEAR).any()
    for planes, boxes, kinds in zip(chunk.planes, chunk.boxes, chunk.kinds, strict=True):
        difference = np.abs(Planes(planes).rgb() - empty).max(axis=-1)
        for left, top, right, bottom in boxes[kinds == CLEAR].round().astype(int):
            assert difference[top:bottom, left:right].max() > 20


def test_perfect_eyes_have_perfect_figures(chunk: Chunk) -> None:
    figures = measure([(chunk, perfect(chunk))], threshold=0.5)
    assert figures["recall"]["all"] == 100.0  # type: ignore[index]  figures are plain JSON
    assert figures["precision"]["all"] == 100.0  # type: ignore[index]
    assert figures["scene"] == 100.0


def test_wrong_names_are_misnamed_and_blind_eyes_find_nothing(chunk: Chunk) -> None:
    boxes, scores, labels, scene = perfect(chunk)
    for wrong, misnamed in (((boxes, scores, labels + 1, scene), 100.0), ((boxes, 0 * scores, labels, scene), 0.0)):
        figures = measure([(chunk, wrong)], threshold=0.5)
        assert figures["recall"]["all"] == 0.0  # type: ignore[index]
        assert figures["misnamed"] == misnamed


def test_doubtful_sprites_count_neither_way(chunk: Chunk) -> None:
    doubtful = replace(chunk, kinds=np.where(chunk.kinds > 0, DOUBTFUL, 0))
    boxes, scores, labels, scene = perfect(chunk)
    figures = measure([(doubtful, (boxes, scores, labels + 1, scene))], threshold=0.5)
    assert figures["recall"]["all"] == 0.0  # type: ignore[index]  nothing was asked for
    assert figures["precision"]["all"] == 0.0  # type: ignore[index]  and no report was held against them
    assert figures["misnamed"] == 0.0
