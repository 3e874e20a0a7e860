"""Sampling schedules of other tools: the frames that their own formulas give, on true and on assumed frame times."""

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core.errors import InputError
from trace_ves.core.schedules import FrameTimes, parse_schedule

FRAMES = st.integers(1, 200_000)
COUNTS = st.integers(1, 600)


def picked(name: str, frames: int, fps: float = 30.0) -> list[int]:
    return parse_schedule(name).pick(FrameTimes(np.arange(frames) / fps, fps, is_exact=True)).tolist()


@given(FRAMES, COUNTS)
def test_inner_leaves_both_ends_out(frames: int, count: int) -> None:
    step = frames / (count + 1)
    assert picked(f"inner-{count}", frames) == [int(i * step) for i in range(1, count + 1)]


def test_rounding_moves_a_frame_where_cutting_off_does_not() -> None:
    assert picked("linspace-4", 100) == [0, 33, 66, 99]
    assert picked("linspace-4", 102) == [0, 33, 67, 101]
    assert picked("linspace-round-4", 102) == [0, 34, 67, 101]
    assert picked("linspace-round-8", 3) == [0, 1, 2]  # never more than there are
    assert picked("linspace-5", 3) == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("name", "frames", "count"),
    [
        ("fps-2", 300, 20),  # ten seconds at 30 fps
        ("fps-1", 300, 10),
        ("fps-1", 330, 10),  # eleven are made even
        ("fps-0.1", 300, 4),  # never fewer than four
        ("fps-2", 30 * 3600, 768),  # the cap of qwen-vl-utils
        ("fps-2-max-128", 30 * 3600, 128),
        ("fps-2-max-129", 30 * 3600, 128),
        ("fps-60", 20, 20),  # never more than there are
        ("fps-2", 1, 1),  # one, where there is no pair
        ("fps-2", 3, 2),
    ],
)
def test_fps_takes_an_even_number_of_frames_between_its_bounds(name: str, frames: int, count: int) -> None:
    found = picked(name, frames)
    assert len(found) == count
    assert (found[0], found[-1]) == (0, frames - 1)


def test_step_begins_with_the_first_frame_and_has_no_cap() -> None:
    assert picked("step-1", 95, fps=29.97) == [0, 29, 59]
    assert len(picked("step-2", 30 * 3600)) == 7200
    assert picked("step-1", 20) == [0]  # less than a second
    assert picked("step-90", 4) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]  # more often than there are frames


@given(FRAMES, COUNTS)
def test_uniform_takes_the_frames_on_screen_at_the_middles(frames: int, count: int) -> None:
    assert picked("uniform-2", 4, fps=1.0) == [1, 3]  # the middles are the times of these
    found = picked(f"uniform-{count}", frames, fps=25.0)
    middles = [(j + 0.5) * frames / count for j in range(count)]
    assert all(
        index <= middle + 1e-6 and middle < index + 1 + 1e-6 for index, middle in zip(found, middles, strict=True)
    )


@given(
    st.sampled_from(["uniform-7", "linspace-7", "linspace-round-8", "inner-7", "step-2", "fps-2", "fps-1-max-6"]),
    st.lists(st.floats(0.001, 5.0), max_size=60),
)
def test_every_schedule_picks_shown_frames_in_order(name: str, gaps: list[float]) -> None:
    seconds = np.concatenate([[0.0], np.cumsum(gaps)])
    times = FrameTimes(seconds, fps=len(seconds) / (seconds[-1] + 0.04), is_exact=True)
    seen = parse_schedule(name).timestamps(times)
    assert seen
    assert set(seen) <= set(seconds.tolist())
    assert list(seen) == sorted(seen)


def test_assumed_frames_follow_from_duration_and_rate() -> None:
    times = FrameTimes.assumed(10.0, fps=25.0)
    assert (len(times), times.duration, times.is_exact) == (250, 10.0, False)
    assert len(FrameTimes.assumed(0.001)) == 1
    assert FrameTimes.assumed(10.0).fps == 30.0  # where nobody says otherwise
    assert parse_schedule("linspace-2").timestamps(times) == (0.0, 249 / 25)


@pytest.mark.parametrize(
    "name",
    ["", "linspace", "linspace-0", "uniform--1", "fps-0", "fps-1-max-0", "inner-100001", "step-0.0", "fps-0-max-5"],
)
def test_what_is_no_schedule_is_a_sentence(name: str) -> None:
    with pytest.raises(InputError, match="sampler"):
        parse_schedule(name)
    assert parse_schedule("linspace-100000").name == "linspace-100000"  # the largest number is allowed


@pytest.mark.parametrize(
    ("duration", "fps", "words"),
    [
        *((seconds, 30.0, "the limit is 666667 s") for seconds in (1e12, math.inf, math.nan)),
        (10_000_000.25, 2.0, r"at 2 fps is too long for a schedule; the limit is 1e\+07 s"),
    ],
)
def test_the_longest_video_has_twenty_million_frames(duration: float, fps: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        FrameTimes.assumed(duration, fps=fps)
    with mock.patch("trace_ves.core.schedules.MOST_VIDEO_FRAMES", 100):
        assert len(FrameTimes.assumed(10.0, fps=10.0)) == 100
