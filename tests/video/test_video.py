"""What a caller sees: facts of the file, moments, heights, spans, and sentences for what cannot be."""

import math
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import video_footage
from video_oracle import Footage

from trace_ves import video
from trace_ves.core import Interval, VideoError, centred_uniform
from trace_ves.video import Video


@pytest.fixture
def opened(footage: Footage) -> Iterator[Video]:
    with video.open(str(footage("b-frames.mp4"))) as found:
        yield found


def test_facts(opened: Video, footage: Footage) -> None:
    assert opened.path == footage("b-frames.mp4")
    assert (opened.width, opened.height, opened.frame_count) == (96, 64, 75)
    assert opened.duration == 2.5
    assert opened.average_fps == 30
    assert opened.codec == "h264"
    assert opened.warnings == ()
    assert repr(opened).endswith("2.500 s, 96x64, h264)")


def test_frames_come_in_the_order_asked_and_one_for_each_request(opened: Video) -> None:
    frames = opened.frames_at([2.0, 0.5, 2.0, 0.51])
    assert [frame.seconds for frame in frames] == [2.0, 0.5, 2.0, 0.5]
    assert opened.frames_at([]) == ()


def test_the_frame_on_screen_is_the_last_that_began(opened: Video) -> None:
    third = float(opened.timestamps[3])
    just_before, at = opened.frames_at([math.nextafter(third, 0), third])
    assert (just_before.seconds, at.seconds) == (float(opened.timestamps[2]), third)
    assert opened.frames_at([opened.duration])[0].pts == opened.pts[-1]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        *(
            ({"seconds": [1.0, moment]}, f"there is no frame at {moment} s; moments go from 0 to 2.5 s.")
            for moment in (-0.001, 2.501, math.nan, math.inf, -math.inf)
        ),
        *(
            ({"seconds": [1.0], "height": height}, f"a picture needs at least 1 row of pixels, got height={height}.")
            for height in (0, -3)
        ),
        *(
            (
                {"span": Interval(0, 1), "fps": fps, "limit": limit},
                f"frames between need fps > 0 and limit >= 1, got fps={fps}, limit={limit}.",
            )
            for fps, limit in ((0.0, None), (-1.0, None), (math.nan, None), (math.inf, None), (1.0, 0))
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_allowed_range(
    opened: Video, request_: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(VideoError) as refusal:
        opened.frames_between(**request_) if "span" in request_ else opened.frames_at(**request_)
    assert str(refusal.value) == f"{opened.path}: {sentence}"


@pytest.mark.parametrize(
    ("height", "size"),
    [(None, (96, 64)), (32, (48, 32)), (1, (2, 1)), (33, (50, 33)), (64, (96, 64)), (4000, (96, 64))],
)
def test_height_keeps_the_aspect_and_never_enlarges(opened: Video, height: int | None, size: tuple[int, int]) -> None:
    (frame,) = opened.frames_at([1.0], height=height)
    assert (frame.picture.width, frame.picture.height) == size
    assert frame.rgb().shape == (size[1], size[0], 3)
    assert simplejpeg.decode_jpeg_header(frame.jpeg())[:2] == (size[1], size[0])


def test_timestamps_cannot_be_changed_by_a_caller(opened: Video) -> None:
    for column in (opened.timestamps, opened.pts):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_a_span_is_looked_at_evenly_with_no_frame_twice_and_no_more_than_the_limit(opened: Video) -> None:
    span = Interval(0.4, 2.0)
    assert opened.frames_between(span, fps=5, height=32) == opened.frames_at(centred_uniform(span, 8), height=32)
    assert len(opened.frames_between(Interval(1.0, 1.1), fps=1000)) == 3
    assert len(opened.frames_between(Interval(0, 2.5), fps=30, limit=7)) == 7
    assert len(opened.frames_between(Interval(0, 2.5), fps=30, limit=1)) == 1
    assert len(opened.frames_between(Interval(1.0, 1.0), fps=1)) == 1


def test_after_close_there_are_no_frames_but_a_sentence(footage: Footage) -> None:
    opened = video.open(footage("b-frames.mp4"))
    (kept,) = opened.frames_at([1.0])
    opened.close()
    opened.close()
    with pytest.raises(VideoError, match="was closed; open it again"):
        opened.frames_at([1.0])
    assert kept.rgb().shape == (64, 96, 3)


def test_a_jpeg_is_made_once_and_pictures_can_be_pickled(opened: Video) -> None:
    (frame,) = opened.frames_at([1.0], height=32)
    again = pickle.loads(pickle.dumps(frame))
    assert again == frame
    assert again.jpeg() == frame.jpeg()
    assert np.array_equal(again.rgb(), frame.rgb())
    assert frame.jpeg(80) is frame.jpeg(80)
    assert len(frame.jpeg(30)) < len(frame.jpeg(95))
    with pytest.raises(ValueError, match="from 1 to 100"):
        frame.jpeg(0)


@pytest.mark.parametrize("name", ["b-frames.mp4", "full-range.mp4", "ten-bit.mp4", "mjpeg.mov", "animated.gif"])
def test_pixels_are_those_that_were_drawn(name: str, footage: Footage) -> None:
    with video.open(footage(name)) as opened:
        (frame,) = opened.frames_at([float(opened.timestamps[4])])
    drawn = video_footage.drawing(4, frame.picture.width, frame.picture.height)
    patch = (slice(4, 16), slice(4, 24))
    for made in (frame.rgb(), simplejpeg.decode_jpeg(frame.jpeg(95))):
        assert np.abs(made[patch].astype(int) - drawn[patch].astype(int)).mean() < 8


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("rotated-90", lambda shown: np.rot90(shown, -1)),
        ("rotated-180", lambda shown: shown[::-1, ::-1]),
        ("rotated-270", np.rot90),
        ("mirrored", lambda shown: shown[:, ::-1]),
    ],
)
def test_turned_videos_are_shown_upright(
    name: str, turn: Callable[[Any], Any], footage: Footage, tmp_path: Path
) -> None:
    path = Path(shutil.copy(footage("rotated-0.mp4"), tmp_path))
    video_footage.turn(path, video_footage.MATRICES[name])
    with video.open(footage("rotated-0.mp4")) as plain, video.open(path) as opened:
        expected = turn(plain.frames_at([0.0])[0].rgb())
        assert np.array_equal(opened.frames_at([0.0])[0].rgb(), expected)
        assert (opened.height, opened.width) == expected.shape[:2]
        (small,) = opened.frames_at([0.0], height=30)
        assert (small.picture.height, small.picture.width) == (30, round(30 * opened.width / opened.height))


def test_the_default_stream_is_taken_and_said(footage: Footage) -> None:
    with video.open(footage("two-streams.mp4")) as opened:
        assert opened.warnings == ("stream 0 is used, one of 2 video streams",)
    with video.open(footage("with-cover.mp4")) as opened:
        assert opened.warnings == ()


def test_of_several_equal_streams_the_largest_is_taken(shared: Path) -> None:
    with video.open(shared / "media" / "nasa_13013.mp4") as opened:
        assert (opened.width, opened.height) == (480, 270)
