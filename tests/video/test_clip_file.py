"""A span as a file of its own: the frames on screen during the span, each and no other, copied where that is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import video_footage

from trace_ves import video
from trace_ves.core import Interval
from trace_ves.video.clip_file import write_clip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

SPANS = [Interval(0, 0.75), Interval(0.8, 1.59), Interval(1.1, 1.4), Interval(0.5, 0.5), Interval(2.0, 99)]


def seen_in(path: Path, span: Interval) -> tuple[list[float], list[NDArray[np.uint8]]]:
    """The frames on screen during a span, their times from the first of them."""
    with video.open(path) as source:
        times = [float(t) for t in source.timestamps]
        first = max((t for t in times if t <= span.start), default=times[0])
        moments = [t for t in times if first <= t <= max(span.end, first)]
        return [t - first for t in moments], [frame.rgb() for frame in source.frames_at(moments)]


@pytest.mark.parametrize("name", sorted({*video_footage.PLAIN, *video_footage.SPECIAL}))
def test_the_clip_holds_the_frames_of_its_span(name: str, footage: Callable[[str], Path], tmp_path: Path) -> None:
    for span in SPANS[:3]:
        copied = write_clip(footage(name), span, tmp_path / "clip.mp4")
        times, pictures = seen_in(footage(name), span)
        with av.open(str(tmp_path / "clip.mp4")) as container:
            assert next(container.decode(video=0)).time == pytest.approx(0, abs=0.25)  # a copy waits for reordering
        with video.open(tmp_path / "clip.mp4") as clip:
            assert [float(t) for t in clip.timestamps] == pytest.approx(times, abs=0.002)
            found = [frame.rgb() for frame in clip.frames_at([float(t) for t in clip.timestamps])]
        for one, other in zip(found, pictures, strict=True):
            rows, columns = min(len(one), len(other)), min(one.shape[1], other.shape[1])
            difference = np.abs(one[:rows, :columns].astype(int) - other[:rows, :columns])
            assert difference.max() == 0 or (not copied and difference.mean() < 8)


def test_a_span_that_begins_with_a_key_frame_is_copied_and_others_are_not(
    footage: Callable[[str], Path], tmp_path: Path
) -> None:
    path = footage("b-frames.mp4")  # a key frame every 24 frames of 30 a second
    assert write_clip(path, Interval(0.8, 1.599), tmp_path / "whole.mp4")
    assert not write_clip(path, Interval(0.9, 1.5), tmp_path / "inside.mp4")


@pytest.mark.parametrize("span", SPANS[3:])
def test_a_moment_is_one_frame_and_the_end_is_the_end(
    footage: Callable[[str], Path], tmp_path: Path, span: Interval
) -> None:
    write_clip(footage("b-frames.mp4"), span, tmp_path / "clip.mp4")
    times, _ = seen_in(footage("b-frames.mp4"), span)
    with video.open(tmp_path / "clip.mp4") as clip:
        assert clip.frame_count == len(times) >= 1
