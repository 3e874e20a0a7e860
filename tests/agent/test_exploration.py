"""What counts as explored: gaps between frames that are too wide stay open, however they came about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_budget import Blank
from trace_ves.agent.anchors import VisualAnchor
from trace_ves.agent.exploration import counting_spacing, unexplored
from trace_ves.agent.settings import TraceSettings
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy, centred_uniform
from trace_ves.records.search import Candidate

WHOLE = Interval(0, 400)


def test_a_coarse_look_removes_nothing() -> None:
    coarse = centred_uniform(Interval(100, 200), 8)  # a frame every 12.5 seconds
    assert unexplored(WHOLE, coarse, 5.0) == (WHOLE,)


def test_a_close_look_removes_what_lies_between_its_frames() -> None:
    close = centred_uniform(Interval(100, 140), 8)  # a frame every 5 seconds
    assert unexplored(WHOLE, close, 5.0) == (Interval(0, 102.5), Interval(137.5, 400))


def test_frames_of_several_looks_count_together() -> None:
    assert unexplored(Interval(0, 20), [4, 12], 5.0) == (Interval(4, 20),)
    assert unexplored(Interval(0, 20), [4, 8, 12, 16], 5.0) == ()
    assert unexplored(Interval(0, 20), [], 5.0) == (Interval(0, 20),)
    assert unexplored(Interval(0, 20), [900, 10], 5.0) == (Interval(0, 20),)


@given(
    st.lists(st.floats(0, 400), max_size=60),
    st.floats(0.5, 60),
    st.floats(0, 400),
    st.floats(0.01, 60),
)
def test_no_event_longer_than_the_spacing_hides_in_what_is_explored(
    moments: list[float], spacing: float, start: float, extra: float
) -> None:
    """An event of more than `spacing` seconds that no frame shows lies, for the most part, in an unexplored segment."""
    event = Interval(start, min(start + spacing + extra, 400.0))
    unseen = event.length > spacing and not any(moment in event for moment in moments)
    left = unexplored(WHOLE, moments, spacing)
    assert not unseen or any(piece.start <= event.start and event.end <= piece.end for piece in left)
    assert all(piece.length > spacing for piece in left)


def anchor(start: float, end: float) -> VisualAnchor:
    look, span = ObservationStrategy(0.5), Interval(start, end)
    return VisualAnchor("a", Candidate(span, look), Clip(span, look, (Frame(0, start, Blank()),)))


def test_an_occurrence_like_those_found_cannot_slip_through() -> None:
    settings = TraceSettings(seen_spacing_seconds=5.0, occurrence_share=0.7)
    assert counting_spacing([], settings) == 5.0
    assert counting_spacing([anchor(0, 30), anchor(50, 70)], settings) == 14.0  # 0.7 of the shortest
    assert counting_spacing([anchor(0, 30), anchor(50, 52)], settings) == 5.0
