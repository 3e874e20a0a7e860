"""What counts as explored: gaps between frames that are too wide stay open, however they came about."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.agent.exploration import (
    fill_gaps,
    find_unexplored,
    find_unpromising,
    merge_spans,
    overlaps_mostly,
    pick_evenly,
    pick_scan_moments,
    pick_spacing,
)
from trace_ves.agent.settings import TraceSettings
from trace_ves.core import Interval, centred_uniform
from trace_ves.records.search import SegmentNote

WHOLE = Interval(0, 400)


@pytest.mark.parametrize(
    ("end", "moments", "left"),
    [
        (400, centred_uniform(Interval(100, 200), 8), [(0, 400)]),  # a coarse look, a frame every 12.5 seconds
        (400, centred_uniform(Interval(100, 140), 8), [(0, 102.5), (137.5, 400)]),  # a close look, every 5 seconds
        (20, [4, 12], [(4, 20)]),
        (20, [4, 8, 12, 16], []),  # frames of several looks count together
        (20, [], [(0, 20)]),
        (20, [900, 10], [(0, 20)]),
        (10, [5], []),  # a gap as wide as the spacing has been seen
        (10, [4.9], [(4.9, 10)]),
        (10, [-1, 11], [(0, 10)]),
    ],
)
def test_gaps_wider_than_the_spacing_are_unexplored(end: float, moments: Any, left: list[tuple[float, float]]) -> None:
    assert find_unexplored(Interval(0, end), moments, 5.0) == tuple(Interval(*span) for span in left)


@given(st.lists(st.floats(0, 400), max_size=60), st.floats(0.5, 60), st.floats(0, 400), st.floats(0.01, 60))
def test_no_event_longer_than_the_spacing_hides_in_what_is_explored(
    moments: list[float], spacing: float, start: float, extra: float
) -> None:
    """An event of more than `spacing` seconds that no frame shows lies, for the most part, in an unexplored segment."""
    event = Interval(start, min(start + spacing + extra, 400.0))
    unseen = event.length > spacing and not any(moment in event for moment in moments)
    left = find_unexplored(WHOLE, moments, spacing)
    assert not unseen or any(piece.start <= event.start and event.end <= piece.end for piece in left)
    assert all(piece.length > spacing for piece in left)


def test_an_occurrence_like_those_found_cannot_slip_through() -> None:
    settings = TraceSettings(seen_spacing_seconds=5.0, occurrence_share=0.7)
    found = [pick_spacing([Interval(0, 30), Interval(50, end)], settings) for end in (70, 55, 50)]
    assert found == [5.0, 3.5, 1.0]  # 0.7 of the shortest, within bounds


def test_a_gap_between_frames_that_are_not_promising_is_passed_over_if_no_occurrence_fits_into_it() -> None:
    notes = [SegmentNote(5, 25, "a forest", promising=False), SegmentNote(30, 60, "the table")]
    notes.append(SegmentNote(60, 90, "a wall", promising=False))
    shown = [5, 15, 25, 35, 45]
    assert find_unpromising(shown, notes, [Interval(40, 50)]) == (Interval(5, 15), Interval(15, 25))
    assert find_unpromising(shown, notes, [Interval(40, 49)]) == ()
    assert find_unpromising(shown, notes, []) == ()


@given(st.lists(st.floats(10, 90), max_size=8), st.integers(0, 8))
def test_new_moments_lie_in_the_widest_gaps(known: list[float], count: int) -> None:
    span = Interval(10, 90)
    new = fill_gaps(span, known, count)
    assert len(new) == count
    assert all(moment in span for moment in new)
    assert not known or not new or min(abs(a - b) for a in new for b in known) > 0
    assert fill_gaps(span, [], count) == pytest.approx(centred_uniform(span, count) if count else [])
    assert fill_gaps(Interval(0, 10), [5], 2) == pytest.approx([5 / 3, 25 / 3])


def test_a_scan_lies_between_frames_of_the_storyboard_first_where_the_scene_changes() -> None:
    notes = [SegmentNote(0, 25, "a road", promising=False), SegmentNote(25, 60, "a room", promising=False)]
    storyboard = [5, 15, 25.5, 35, 45]
    assert pick_scan_moments(storyboard, notes, [], 1) == [20.25]
    assert pick_scan_moments(storyboard, notes, [], 9) == [10, 20.25, 30.25, 40]
    assert pick_scan_moments(storyboard, notes, [Interval(8, 32)], 9) == [40]
    assert pick_scan_moments(storyboard, (), [], 2) == [20.25, 40]


@pytest.mark.parametrize(("start", "mostly"), [(2, True), (4.9, True), (5, False), (10, False), (11, False)])
def test_more_than_half_of_the_shorter_span_is_most_of_it(start: float, mostly: bool) -> None:
    long, short = Interval(0, 20), Interval(start + 10, start + 20)
    assert overlaps_mostly(long, short) is overlaps_mostly(short, long) is mostly


def test_spans_of_a_count_are_one_up_to_the_gap_unless_something_else_is_seen_between() -> None:
    spans = [Interval(0, 4), Interval(7, 8), Interval(7.5, 7.6), Interval(11.1, 12)]
    assert merge_spans(spans, [4, 7], 3.0) == (Interval(0, 8), Interval(11.1, 12))
    assert merge_spans(spans, [5], 3.0) == (Interval(0, 4), Interval(7, 8), Interval(11.1, 12))
    assert merge_spans([], [], 3.0) == ()
    assert [pick_evenly(range(5), count) for count in (0, 1, 2, 5)] == [[], [2], [1, 3], [0, 1, 2, 3, 4]]
