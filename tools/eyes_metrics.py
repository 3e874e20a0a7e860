"""How well eyes see: recall and precision by the size of the sprite, at the score from which a detection counts.

Knows nothing about networks: it compares boxes with boxes. A match needs the right name and an overlap of one half.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from eyes_data import CLEAR, HEIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from eyes_data import Chunk

SIZE_EDGES_PX = (10, 14, 20, 28, 40, 60, 111)
"""Sizes, in pixels of a 360-line frame, between which sprites are counted together."""

Detections = tuple["NDArray[np.float32]", "NDArray[np.float32]", "NDArray[np.int64]", "NDArray[np.float32]"]
"""Boxes (as parts of the frame's sides), scores, labels and scene probabilities of the frames of one chunk."""


def measure(pairs: Iterable[tuple[Chunk, Detections]], threshold: float) -> dict[str, object]:
    """Recall by size, precision by size of what was reported, and how often the scene was named rightly."""
    sizes = len(SIZE_EDGES_PX) - 1
    asked, found, reported, right = (np.zeros(sizes, int) for _ in range(4))
    misnamed = scenes = frames = 0
    for chunk, (boxes, scores, labels, scene) in pairs:
        frames += len(boxes)
        scenes += int((scene.argmax(axis=-1) == chunk.scene).sum())
        for number in range(len(boxes)):
            kept = scores[number] >= threshold
            ours = boxes[number][kept] * np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], np.float32)
            outcome = _compare(
                ours, labels[number][kept], chunk.boxes[number], chunk.labels[number], chunk.kinds[number]
            )
            for bucket, was_found, was_misnamed in outcome[0]:
                asked[bucket] += 1
                found[bucket] += was_found
                misnamed += was_misnamed
            for bucket, was_right in outcome[1]:
                reported[bucket] += 1
                right[bucket] += was_right
    names = [f"{low}-{high - 1} px" for low, high in pairwise(SIZE_EDGES_PX)]
    return {
        "threshold": threshold,
        "frames": frames,
        "recall": {"all": _rate(found.sum(), asked.sum())} | dict(zip(names, map(_rate, found, asked), strict=True)),
        "precision": {"all": _rate(right.sum(), reported.sum())}
        | dict(zip(names, map(_rate, right, reported), strict=True)),
        "misnamed": _rate(misnamed, int(asked.sum())),
        "scene": _rate(scenes, frames),
    }


def _rate(part: int, whole: int) -> float:
    return round(100.0 * int(part) / max(1, int(whole)), 1)


def _bucket(box: NDArray[np.float32]) -> int:
    longest = max(box[2] - box[0], box[3] - box[1])
    return int(np.clip(np.searchsorted(SIZE_EDGES_PX, longest, side="right") - 1, 0, len(SIZE_EDGES_PX) - 2))


def _compare(
    boxes: NDArray[np.float32],
    labels: NDArray[np.int64],
    gold: NDArray[np.float32],
    gold_labels: NDArray[np.int64],
    kinds: NDArray[np.int64],
) -> tuple[list[tuple[int, bool, bool]], list[tuple[int, bool]]]:
    """For each clear sprite: size, found, seen but misnamed. For each report that no doubtful sprite excuses: right."""
    overlap = np.zeros((len(boxes), len(gold)))
    for number in np.flatnonzero(kinds):
        overlap[:, number] = _overlaps(boxes, gold[number])
    named = labels[:, None] == gold_labels[None, :]
    asked = [
        (
            _bucket(gold[number]),
            bool((named[:, number] & (overlap[:, number] >= 0.5)).any()),
            bool((overlap[:, number] >= 0.5).any() and not (named[:, number] & (overlap[:, number] >= 0.5)).any()),
        )
        for number in np.flatnonzero(kinds == CLEAR)
    ]
    reports = []
    for number, box in enumerate(boxes):
        hits = (overlap[number] >= 0.3) & named[number] & (kinds > 0)
        excused = ((overlap[number] >= 0.1) & (kinds > CLEAR)).any()
        if hits.any() or not excused:
            reports.append((_bucket(box), bool(hits.any())))
    return asked, reports


def _overlaps(boxes: NDArray[np.float32], one: NDArray[np.float32]) -> NDArray[np.float32]:
    """Intersection over union."""
    low, high = np.maximum(boxes[:, :2], one[:2]), np.minimum(boxes[:, 2:], one[2:])
    common = np.prod(np.clip(high - low, 0, None), axis=1)
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) + np.prod(one[2:] - one[:2])
    ratio: NDArray[np.float32] = common / np.maximum(areas - common, 1e-6)
    return ratio


def as_lines(figures: dict[str, object]) -> str:
    """The figures as a small table."""
    recall, precision = figures["recall"], figures["precision"]
    assert isinstance(recall, dict)
    assert isinstance(precision, dict)
    lines = [
        f"{figures['frames']} frames, threshold {figures['threshold']}",
        f"{'size':>12}{'recall':>10}{'precision':>11}",
    ]
    lines += [f"{name:>12}{recall[name]:10.1f}{precision[name]:11.1f}" for name in recall]
    return "\n".join([*lines, f"misnamed {figures['misnamed']} %, scene named {figures['scene']} %"])
