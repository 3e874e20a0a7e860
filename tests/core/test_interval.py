"""Intervals are closed at both ends, and their little arithmetic agrees with counting moments one by one.

Frames, strategies and schedules of looking, and a log that adds up its calls.
"""

import itertools
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core import Frame, Interval, ObservationStrategy, centred_uniform
from trace_ves.core.interval import clip_to_segments, iou, subtract, union, union_length
from trace_ves.records import Call, ObservationLog, Usage

spans = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda pair: Interval(pair[0], pair[0] + pair[1]))


def test_both_ends_belong_to_it() -> None:
    interval = Interval(70, 76)
    assert [moment in interval for moment in (69.999, 70, 76, 76.001)] == [False, True, True, False]
    assert (interval.length, interval.centre, str(interval)) == (6, 73, "70.0-76.0 s")
    shared = [Interval(0, 5).intersection(Interval(start, 9)) for start in (3, 5, 6)]
    assert shared == [Interval(3, 5), Interval(5, 5), None]
    assert subtract(Interval(0, 2), [Interval(1, 1)]) == (Interval(0, 2),)  # a part without length
    assert subtract(Interval(0, 10), [Interval(2, 9)], shortest=1) == (Interval(0, 2),)
    assert clip_to_segments(-math.inf, math.inf, [Interval(0, 10)]) == (Interval(0, 10),)
    assert iou(Interval(0, 0.5), Interval(0, 0.25)) == 0.5


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, math.inf), (math.nan, 1), (0, math.nan)])
def test_what_is_no_interval_is_refused(start: float, end: float) -> None:
    with pytest.raises(ValueError, match="0 <= start <= end"):
        Interval(start, end)


def cells(intervals: tuple[Interval, ...]) -> set[int]:
    """Which half seconds lie inside, tried at their middle."""
    return {n for n in range(120) if any(n / 2 + 0.25 in interval for interval in intervals)}


@given(st.lists(spans, max_size=8).map(tuple))
def test_a_union_has_the_same_moments_and_no_overlap(intervals: tuple[Interval, ...]) -> None:
    merged = union(intervals)
    assert cells(merged) == cells(intervals)
    assert all(one.end < two.start for one, two in itertools.pairwise(merged))
    assert union_length(intervals) == len(cells(intervals)) / 2


@given(spans, st.lists(spans, max_size=8).map(tuple))
def test_what_is_left_and_what_was_taken_make_the_whole(whole: Interval, parts: tuple[Interval, ...]) -> None:
    left = subtract(whole, parts)
    assert cells(left) == cells((whole,)) - cells(parts)
    assert left == union(left)


@given(spans, st.lists(spans, max_size=5).map(tuple))
def test_what_is_clipped_lies_in_both(span: Interval, segments: tuple[Interval, ...]) -> None:
    assert cells(clip_to_segments(span.start, span.end, segments)) == cells((span,)) & cells(segments)


@pytest.mark.parametrize(
    ("start", "end"), [(5, 1), (10, 20), (3, 3), (math.nan, 3), (1, math.nan), (-math.inf, -1), (20, math.inf)]
)
def test_what_is_no_span_or_lies_elsewhere_leaves_nothing(start: float, end: float) -> None:
    assert clip_to_segments(start, end, [Interval(0, 10)]) == ()


@given(spans, spans)
def test_iou_is_a_share_of_the_union(one: Interval, other: Interval) -> None:
    both, either = cells((one,)) & cells((other,)), cells((one, other))
    assert iou(one, other) == iou(other, one) == (len(both) / len(either) if either else 0)


def test_a_log_adds_up_its_calls() -> None:
    calls = (Call("storyboard", (1.0, 2.0, 3.0), usage=Usage(1, 2, 3)), Call("assembly", (2.0, 2.5)), Call("control"))
    log = ObservationLog((*calls, Call("replay", usage=Usage(10, 20, 30))))
    assert log.timestamps == (1.0, 2.0, 2.5, 3.0)
    assert log.frames_supplied == 5
    assert log.usage == Usage(11, 22, 33)


def test_what_holds_where_nobody_says_otherwise() -> None:
    assert ObservationStrategy() == ObservationStrategy(fps=1.0, height=360)
    assert [centred_uniform(Interval(0, 8), 4), centred_uniform(Interval(70, 76), 1)] == [(1, 3, 5, 7), (73,)]
    frame = Frame(0, 0.0, SimpleNamespace(jpeg=lambda quality: bytes([quality])))
    assert (frame.jpeg(), frame.jpeg(50)) == (bytes([90]), bytes([50]))


@pytest.mark.parametrize(("fps", "height"), [(0, 360), (-1, 360), (1, 0), (float("nan"), 360)])
def test_a_strategy_looks_at_something(fps: float, height: int) -> None:
    with pytest.raises(ValueError, match="needs fps > 0 and height > 0"):
        ObservationStrategy(fps=fps, height=height)
