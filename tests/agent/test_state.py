"""How each action changes what a search carries on, and where a closer look goes."""

from dataclasses import replace
from typing import Any

import pytest

from tests.agent.test_budget import Blank
from trace_ves.agent.anchor_extraction import drop_repeats
from trace_ves.agent.anchors import Look, SeenEvent, VisualAnchor
from trace_ves.agent.settings import TraceSettings
from trace_ves.agent.state import State, refine
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy
from trace_ves.records.search import Candidate, Drop, Expand, Refine, Refinement, Relevance, SegmentNote, Stop

WHOLE = Interval(0, 100)
LOOK = ObservationStrategy(fps=0.5, height=360)
SETTINGS = TraceSettings(candidate_frames=6)


def anchor(name: str, start: float, end: float, candidate: tuple[float, float]) -> VisualAnchor:
    span = Interval(start, end)
    clip = Clip(span, LOOK, (Frame(0, start, Blank()),))
    return VisualAnchor(name, Candidate(Interval(*candidate), LOOK, 6), clip)


A1, A2 = anchor("a1", 10, 14, (4, 20)), anchor("a2", 90, 94, (80, 96))
STATE = State(WHOLE, (A1, A2))


def test_drop_removes_anchors_and_has_the_trajectory_read_again_once() -> None:
    focused = replace(STATE, focus=(Interval(30, 40),))
    after = focused.after(Drop(frozenset({"a1"})), SETTINGS)
    assert after == replace(STATE, anchors=(A2,), rebuild=True)  # no span comes first any more
    assert after.with_looks((), ()) == replace(STATE, anchors=(A2,), notes=())
    with pytest.raises(ValueError, match="leaves no state behind"):
        STATE.after(Stop(0), SETTINGS)


def test_refine_marks_the_anchor_and_leaves_a_look_to_do() -> None:
    focused = replace(STATE, focus=(Interval(30, 40),))
    way = Refinement.RAISE_RESOLUTION
    again = Candidate(Interval(80, 96), replace(LOOK, height=720), 6, replaces="a2")
    marked = replace(A2, refined=frozenset({way}))
    assert focused.after(Refine("a2", way), SETTINGS) == replace(STATE, anchors=(A1, marked), pending=(again,))


def test_expand_leaves_looks_at_its_spans_to_do_the_first_part_of_each_first() -> None:
    assert STATE.after(Expand((), "text"), SETTINGS).pending == ()
    after = STATE.after(Expand((Interval(30, 80), Interval(0, 9)), "text"), SETTINGS)
    assert (after.anchors, after.rebuild, after.focus) == ((A1, A2), False, (Interval(30, 80), Interval(0, 9)))
    assert [look.span for look in after.pending] == [Interval(30, 55), Interval(0, 9), Interval(55, 80)]
    assert {look.strategy.height for look in after.pending} == {720}


def test_a_look_that_found_nothing_stays_on_record_and_can_be_refined() -> None:
    clip = Clip(Interval(30, 50), LOOK, tuple(Frame(n, 32 + 4 * n, Blank()) for n in range(5)))
    look = Look(Candidate(Interval(30, 50), LOOK, 5, id="look-1"), clip, seen="a road", between=(41,))
    state = STATE.with_looks([look], [])
    assert (state.looks, state.anchors) == ((look,), STATE.anchors)
    assert state.notes == (SegmentNote(30, 50, "a road", promising=False),)
    [note] = STATE.with_looks([replace(look, seen="x" * 400)], []).notes or ()
    assert note.note == "x" * 300
    again = state.after(Refine("look-1", Refinement.NARROW_SPAN), SETTINGS)
    assert [each.refined for each in again.looks] == [{Refinement.NARROW_SPAN}]
    [closer] = again.pending
    assert (closer.span, closer.replaces, closer.frames) == (Interval(36, 46), None, 5)


def test_a_closer_look_takes_the_old_anchors_place_and_one_that_finds_nothing_changes_nothing() -> None:
    refined = STATE.after(Refine("a1", Refinement.NARROW_SPAN), SETTINGS)
    closer = VisualAnchor("a3", refined.pending[0], A1.clip)
    assert [a.id for a in refined.with_looks([], [closer]).anchors] == ["a2", "a3"]
    assert refined.with_looks([], []) == replace(refined, pending=(), notes=())


@pytest.mark.parametrize(
    ("found", "way", "span", "frames"),
    [
        (A1, "raise-frame-rate", (4, 20), 12),
        (A1, "raise-resolution", (4, 20), 6),
        (A1, "narrow-span", (8, 16), 6),
        (A1, "shift-centre", (12, 28), 6),  # found behind the middle, so it goes on behind it
        (anchor("a", 42, 44, (40, 56)), "shift-centre", (32, 48), 6),  # found before it
        (A2, "shift-centre", (84, 100), 6),  # moved back into the video, as long as it was
        (anchor("a", 1, 2, (0, 16)), "shift-centre", (0, 16), 6),  # the same at the start
        (anchor("a", 95, 99, (84, 100)), "narrow-span", (92, 100), 6),
        (anchor("a", 0, 2, (0, 16)), "narrow-span", (0, 8), 6),
        (anchor("a", 50, 60, (0, 300)), "shift-centre", (0, 100), 6),  # longer than the video
    ],
)
def test_a_closer_look_stays_inside_the_video(found: VisualAnchor, way: str, span: Any, frames: int) -> None:
    again = refine(found, Refinement(way), WHOLE, SETTINGS)
    assert (again.span.start, again.span.end, again.frames) == pytest.approx((*span, frames))
    assert again.strategy.fps == (1.0 if way in ("raise-frame-rate", "narrow-span") else 0.5)


def look_at(name: str, *spans: tuple[float, float], claim: str = "c1", relevant: Relevance = Relevance.YES) -> Look:
    clip = Clip(Interval(0, 100), LOOK, (Frame(0, 1, Blank()),))
    events = tuple(SeenEvent(Interval(start, end), frozenset({claim})) for start, end in spans)
    return Look(Candidate(clip.span, LOOK, 1, id=name), clip, relevant, "a dog", events)


def test_a_look_that_saw_evidence_is_never_listed_as_one_that_found_nothing() -> None:
    known, doubtful = look_at("look-1", (12, 15)), look_at("look-2", relevant=Relevance.PERHAPS)
    partly = look_at("look-3", (12, 15), relevant=Relevance.PERHAPS)
    assert STATE.with_looks([known, doubtful, partly], []).looks == (doubtful,)


def test_one_event_seen_in_two_looks_gives_one_anchor_and_two_events_of_one_look_give_two() -> None:
    one, two = look_at("look-1", (20, 30), (22, 25)), look_at("look-2", (24, 30), (60, 64), (12, 14))
    events = [(look, event) for look in (one, two) for event in look.events]
    spans = [event.span for _, event in drop_repeats(events, STATE.anchors, (), 2)]
    assert spans == [Interval(20, 30), Interval(22, 25), Interval(60, 64)]  # 12-14 s lies in an anchor


@pytest.mark.parametrize(("claim", "seen", "count"), [("c1", (), 1), ("c1", (33,), 2), ("c2", (), 2)])
def test_near_spans_for_one_claim_are_one_event_unless_a_frame_between_shows_none(
    claim: str, seen: tuple[float, ...], count: int
) -> None:
    looks = (look_at("look-1", (20, 31)), look_at("look-2", (36, 40), claim=claim))
    assert len(drop_repeats([(look, look.events[0]) for look in looks], (), seen, 10)) == count
