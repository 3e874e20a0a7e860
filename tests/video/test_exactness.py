"""Every frame of every kind of file is the one that a plain sequential decode shows, by its pixels."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import video_footage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from video_oracle import HEIGHT, Footage, Truths, check, pixels

from trace_ves import video
from trace_ves.video import decoder, reader, survey

REAL = {
    "av1_video.mkv": None,
    "car-detection.mp4": None,
    "h264_10bits.mp4": None,
    "h265_video.mp4": None,
    "nasa_13013.mp4": 3,
    "rotated_90.mov": None,
    "tree.avi": None,
}
"""Real files, and the stream to look at where there are several."""


FILES = [*video_footage.PLAIN, *video_footage.SPECIAL, *video_footage.WITHOUT_TIMES, *video_footage.ODD_TIMES]


@pytest.mark.parametrize("name", FILES)
def test_frames_and_times_are_those_of_a_sequential_decode(name: str, footage: Footage, truth: Truths) -> None:
    expected = truth(footage(name), height=HEIGHT)
    if name in video_footage.ODD_TIMES:  # they are put in order, and the last frame of a moment is seen
        by_pts = {frame.pts: frame for frame in expected}
        expected = [by_pts[pts] for pts in sorted(by_pts)]
    with video.open(footage(name)) as opened:
        if name in video_footage.WITHOUT_TIMES:  # frames follow each other at the frame rate
            assert list(opened.timestamps) == [row / video_footage.RATE for row in range(len(expected))]
            assert opened.duration == len(expected) / video_footage.RATE
            placed = "it has no timestamps; frames are placed at 30 a second"
            assert (placed in opened.warnings) == name.startswith("raw.")
        else:
            assert list(opened.pts) == [frame.pts for frame in expected]
        assert opened.timestamps[0] == 0
        warnings = opened.warnings
        check(opened, expected)
        assert opened.warnings == warnings


@pytest.mark.parametrize("name", ["vp9.webm", "vp8.webm"])
def test_threads_within_a_decoder_give_the_same_frames(
    name: str, footage: Footage, truth: Truths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "_MIN_PIXELS_FOR_THREADS", 0)
    monkeypatch.setattr(decoder, "_usable_cores", lambda: 2)
    expected = truth(footage(name), height=HEIGHT)
    with video.open(footage(name)) as opened:
        check(opened, expected, most=40)
        assert {threads for _, threads in opened._decoder._readers} == {1, 2}


@pytest.mark.parametrize(
    ("cores", "moments", "readers"),
    [
        (1, [0.1, 1.5], {(0, 1)}),
        (2, [0.1], {(0, 1)}),
        (2, [0.1, 1.5], {(0, 1), (1, 1)}),
        (3, [0.1, 1.5], {(0, 1), (1, 1)}),
        (2, [0.1, 0.9, 1.7, 2.4], {(0, 1), (1, 1)}),
        (9, [0.0, 0.9, 1.7, 2.4], {(0, 1), (1, 1), (2, 1), (3, 1)}),
    ],
)
def test_groups_are_shared_among_readers(
    footage: Footage, monkeypatch: pytest.MonkeyPatch, cores: int, moments: list[float], readers: set[tuple[int, int]]
) -> None:
    monkeypatch.setattr(decoder, "_usable_cores", lambda: cores)
    with video.open(footage("b-frames.mp4")) as opened:
        opened.frames_at(moments, height=HEIGHT)
        assert opened._decoder._readers.keys() == readers


def test_a_start_that_is_none_is_not_tried_again(
    footage: Footage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packet is called a keyframe, and that it is none shows only in the pictures."""
    careful: list[object] = []
    decode = decoder.FrameDecoder._decode_carefully

    def counted(self: decoder.FrameDecoder, *arguments: Any) -> Any:
        careful.append(arguments)
        return decode(self, *arguments)

    monkeypatch.setattr(decoder.FrameDecoder, "_decode_carefully", counted)
    read_table = survey._read_table

    def with_another_key(*arguments: Any) -> Any:
        packets, broken = read_table(*arguments)
        packets.is_key[18] = True
        return packets, broken

    monkeypatch.setattr(survey, "_read_table", with_another_key)
    monkeypatch.setattr(reader, "start_check", lambda *_: None)
    film = shutil.copy(footage("wmv2.asf"), tmp_path / "film.asf")  # of which no survey is stored
    with video.open(film) as opened:
        moment = [float(opened.timestamps[19])]
        assert pixels(opened.frames_at(moment)) == pixels(opened.frames_at(moment))
    assert len(careful) == 1


@pytest.mark.parametrize("name", REAL)
def test_real_footage(name: str, shared: Path, truth: Truths) -> None:
    path = shared / "media" / name
    expected = truth(path, stream=REAL[name], height=HEIGHT)
    with video.open(path) as opened:
        assert list(opened.pts) == [frame.pts for frame in expected]
        check(opened, expected, most=60)


@pytest.mark.parametrize("name", ["open-gop.mkv", "hevc-open-gop.ts", "raw.h264"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_requests_in_any_order_from_several_threads(
    name: str, footage: Footage, truth: Truths, data: st.DataObject
) -> None:
    expected = truth(footage(name), height=HEIGHT)
    with video.open(footage(name)) as opened, ThreadPoolExecutor(3) as pool:
        moment = st.floats(min_value=0, max_value=opened.duration)
        requests = data.draw(st.lists(st.lists(moment, max_size=12), min_size=1, max_size=6))
        answers = list(pool.map(lambda request: opened.frames_at(request, height=HEIGHT), requests))
        for request, frames in zip(requests, answers, strict=True):
            rows = [sum(time <= asked for time in opened.timestamps) - 1 for asked in request]
            assert pixels(frames) == [expected[row].digest for row in rows]
