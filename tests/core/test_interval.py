"""Intervals are closed at both ends, and their little arithmetic agrees with counting moments one by one."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core import Interval
from trace_ves.core.interval import clipped, iou, subtract, union, union_length

spans = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda pair: Interval(pair[0], pair[0] + pair[1]))


def test_both_ends_belong_to_it() -> None:
    interval = Interval(70, 76)
    assert 70 in interval
    assert 76 in interval
    assert 76.001 not in interval
    assert (interval.length, interval.centre, str(interval)) == (6, 73, "70.0-76.0 s")


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, math.inf), (math.nan, 1), (0, math.nan)])
def test_what_is_no_interval_is_refused(start: float, end: float) -> None:
    with pytest.raises(ValueError, match="0 <= start <= end"):
        Interval(start, end)


def test_intersection() -> None:
    assert Interval(0, 5).intersection(Interval(3, 9)) == Interval(3, 5)
    assert Interval(0, 5).intersection(Interval(5, 9)) == Interval(5, 5)
    assert Interval(0, 5).intersection(Interval(6, 9)) is None


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


def test_a_part_without_length_takes_nothing_away() -> None:
    assert subtract(Interval(0, 2), [Interval(1, 1)]) == (Interval(0, 2),)


@given(spans, st.lists(spans, max_size=5).map(tuple))
def test_what_is_clipped_lies_in_both(span: Interval, segments: tuple[Interval, ...]) -> None:
    assert cells(clipped(span.start, span.end, segments)) == cells((span,)) & cells(segments)


@pytest.mark.parametrize(
    ("start", "end"), [(5, 1), (10, 20), (3, 3), (math.nan, 3), (1, math.nan), (-math.inf, -1), (20, math.inf)]
)
def test_what_is_no_span_or_lies_elsewhere_leaves_nothing(start: float, end: float) -> None:
    assert clipped(start, end, [Interval(0, 10)]) == ()


def test_any_two_numbers_are_cut_to_the_segment() -> None:
    assert clipped(-math.inf, math.inf, [Interval(0, 10)]) == (Interval(0, 10),)


def test_iou_of_short_spans_and_of_moments() -> None:
    assert iou(Interval(0, 0.5), Interval(0, 0.25)) == 0.5
    assert iou(Interval(3, 4), Interval(3, 4)) == 1
    assert iou(Interval(3, 3), Interval(3, 3)) == 0
    assert iou(Interval(0, 1), Interval(1, 2)) == 0


@given(spans, spans)
def test_iou_is_a_share_of_the_union(one: Interval, other: Interval) -> None:
    both, either = cells((one,)) & cells((other,)), cells((one, other))
    assert iou(one, other) == iou(other, one) == (len(both) / len(either) if either else 0)
