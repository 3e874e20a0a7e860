"""A span as a file of its own: the frames on screen during the span, each and no other, copied where that is exact."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from trace_ves import video
from trace_ves.core import Interval
from trace_ves.video.clip_file import encode_frames, write_clip

FROM_KEY_FRAME = Interval(0.8, 1.59)  # a key frame every 24 frames of 30 a second
FIRST, INSIDE = Interval(0, 0.75), Interval(1.1, 1.4)


KINDS = "b-frames.mp4 open-gop.mp4 open-gop.mkv open-gop.ts one-group.mp4 fragmented.mp4 negative-offsets.mp4"
KINDS += " late-start.mkv variable-rate.mkv one-frame.mp4 four-four-four-odd.mp4 h264.flv hevc.mp4 hevc-open-gop.ts"
KINDS += " vp9.webm av1.mp4 mpeg2.mpg mpeg4.mp4 mjpeg.mov edit-list.mp4 cut-before-keyframe.ts two-streams.mp4"
KINDS += " with-cover.mp4 rotated-90.mp4"


def seen_in(path: Path, span: Interval) -> tuple[list[float], list[NDArray[np.uint8]]]:
    """The frames on screen during a span, their times from the first of them."""
    with video.open(path) as source:
        times = [float(t) for t in source.timestamps]
        first = max((t for t in times if t <= span.start), default=times[0])
        moments = [t for t in times if first <= t <= max(span.end, first)]
        return [t - first for t in moments], [frame.rgb() for frame in source.frames_at(moments)]


def test_frames_are_encoded_into_an_open_file(footage: Callable[[str], Path]) -> None:
    file = BytesIO()
    with video.open(footage("b-frames.mp4")) as source:
        encode_frames(source.frames_at([0.5, 1.0], height=1), file, preset="ultrafast", crf=23)
    file.seek(0)
    with av.open(file) as clip:
        assert [(frame.time, frame.width, frame.height) for frame in clip.decode(video=0)] == [(0, 2, 2), (0.5, 2, 2)]


@pytest.mark.parametrize(
    ("name", "span"),
    [
        *((name, FROM_KEY_FRAME) for name in KINDS.split()),
        *((name, span) for name in ("b-frames.mp4", "variable-rate.mkv", "vp9-odd.webm") for span in (FIRST, INSIDE)),
        ("b-frames.mp4", Interval(0.5, 0.5)),
        ("b-frames.mp4", Interval(2.0, 99)),
    ],
)
def test_the_clip_holds_the_frames_of_its_span(
    name: str, span: Interval, footage: Callable[[str], Path], tmp_path: Path
) -> None:
    copied = write_clip(footage(name), span, tmp_path / "clip.mp4")
    times, pictures = seen_in(footage(name), span)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        plain = list(container.decode(video=0))  # as a player shows it
        assert (plain[0].time, len(plain)) == (0, len(times))
    with video.open(tmp_path / "clip.mp4") as clip:
        assert [float(t) for t in clip.timestamps] == pytest.approx(times, abs=0.002)
        found = [frame.rgb() for frame in clip.frames_at([float(t) for t in clip.timestamps])]
    for one, other in zip(found, pictures, strict=True):
        rows, columns = (side if copied else side // 2 * 2 for side in other.shape[:2])
        assert one.shape == (rows, columns, 3)
        difference = np.abs(one.astype(int) - other[:rows, :columns])
        assert difference.max() == 0 or (not copied and difference.mean() < 8)
    assert name != "b-frames.mp4" or copied == (span == FROM_KEY_FRAME)
