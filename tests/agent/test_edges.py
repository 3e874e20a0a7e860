"""Rules of the modules at their edges: the last number that counts, and the first that does not."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.agent.conftest import QUESTION
from tests.agent.test_budget import LOOK, SMALL, TWO, ClockVideo, anchor
from tests.fake_models import complete, full
from trace_ves.agent.anchor_extraction import add_frames, drop_repeats, extract, make_anchor, plan_closer_looks
from trace_ves.agent.anchor_prioritization import prioritize
from trace_ves.agent.anchors import Inquiry, Look, SeenEvent, VisualAnchor, anchor_ids
from trace_ves.agent.evidence_assembly import make_assembly_reply
from trace_ves.agent.final_answer_replay import answer_from_clips
from trace_ves.agent.settings import TraceSettings
from trace_ves.agent.temporal_proposal import ProposalContext, ProposedCandidates, propose, split_span
from trace_ves.agent.trajectory_reconciler import ControlReply, ReconcilerContext, check_action, reconcile
from trace_ves.backbone.protocol import ModelFault, Request, ScriptedBackbone
from trace_ves.core import Clip, Interval
from trace_ves.core.subtitles import Cue, Subtitles
from trace_ves.observer import Observer
from trace_ves.records.search import (
    AtLeast,
    Candidate,
    Claim,
    ClaimKind,
    Expand,
    Flags,
    PrefixRecord,
    Refinement,
    Relevance,
    SegmentNote,
    Status,
)

THREE = (anchor("a1", 3), anchor("a2", 4), anchor("a3", 5))


def asked_with(said: Any, budget: int = 40, seconds: float = 100.0) -> tuple[Inquiry, list[Request[Any]]]:
    """An inquiry whose model says this, or what a function of the request says; and what it was asked."""
    requests: list[Request[Any]] = []

    def answer(request: Request[Any]) -> Any:
        requests.append(request)
        return full(request, said(request) if callable(said) else said)

    observer = Observer(ClockVideo(seconds), ScriptedBackbone(answer), budget=budget)
    return Inquiry(QUESTION, (Claim("c1", "the colour"), Claim("c2", "how many", ClaimKind.COUNT)), observer), requests


def inquiry(said: Any = None, budget: int = 50) -> Inquiry:
    return asked_with(said or {}, budget)[0]


@pytest.mark.parametrize(
    ("said", "order"),
    [
        ([3, 1], ("a3", "a1", "a2")),
        ([3, 2, 1], ("a3", "a2", "a1")),
        ([0, 4, 2, 2, -1], ("a2", "a1", "a3")),  # no such clips, and one named twice
        ([], ("a1", "a2", "a3")),
    ],
)
def test_anchors_come_in_the_order_named_and_forgotten_ones_behind(said: list[int], order: tuple[str, ...]) -> None:
    assert anchor_ids(prioritize(inquiry({"order": said}), THREE, frozenset())) == order


def test_an_anchor_is_shown_by_its_middle_frame_with_the_claims_that_are_open() -> None:
    asked, requests = asked_with({"order": [2, 1]})
    assert anchor_ids(prioritize(asked, TWO, frozenset({"c2"}))) == ("a2", "a1")
    [request] = requests
    assert [[frame.seconds for frame in clip.frames] for clip in request.clips] == [[2], [1]]
    assert request.variables["unmet_needs"] == ["c2"]


def looked_at(start: float, end: float) -> Look:
    """A look at 8 to 12 seconds with five frames whose reply names this span."""
    spans = [{"start": start, "end": end, "claims": ["c1"]}]
    asked = inquiry({"seen": "a dog", "relevant": "yes", "spans": spans})
    [look] = extract(asked, [Candidate(Interval(8, 12), LOOK, 5)], (), (), ())
    return look


@pytest.mark.parametrize(
    ("start", "end", "most", "kept"),
    [
        (8, 12, 4, [8.4, 9.2, 10.0, 10.8]),  # the look's own frames, the middle of them if there are too many
        (9, 11, 4, [9.2, 10.0, 10.8]),
        (9.9, 10.1, 4, [9.3, 10.0, 10.6]),  # one frame showed it: more are taken close to it
        (10.3, 10.5, 3, [9.5, 10.0, 10.8]),  # it lies between two frames: the nearer one and new ones
    ],
)
def test_an_anchor_keeps_the_frames_that_showed_it(start: float, end: float, most: int, kept: list[float]) -> None:
    look = looked_at(start, end)
    anchor = make_anchor(inquiry(), "a1", (look, look.events[0]), most, TraceSettings())
    assert [frame.seconds for frame in anchor.clip.frames] == kept
    assert (anchor.seen, anchor.claims) == ("a dog", {"c1"})


def test_an_anchor_for_what_one_frame_showed_in_part_looks_beside_it() -> None:
    look = replace(looked_at(9.9, 10.1), relevant=Relevance.PERHAPS)
    anchor = make_anchor(inquiry(), "a1", (look, look.events[0]), 3, TraceSettings())
    assert [frame.seconds for frame in anchor.clip.frames] == [8.3, 10.0, 11.6]


@given(st.lists(st.floats(0, 100), max_size=8), st.floats(0, 80), st.floats(2, 20), st.floats(0, 1), st.integers(3, 8))
def test_a_look_contains_the_frame_that_suggested_it(
    shown: list[float], start: float, length: float, part: float, frames: int
) -> None:
    asked, moment = inquiry({"relevant": "no"}), start + part * length
    candidate = Candidate(Interval(start, start + length), LOOK, frames, moment=moment)
    [look] = extract(asked, [candidate], (), (*shown, moment), ())
    assert any(abs(frame.seconds - moment) <= 0.5 for frame in look.clip.frames)
    assert len(look.clip.frames) <= frames


def test_a_look_shows_the_nearest_frames_that_were_shown_and_one_frame_at_least() -> None:
    asked = inquiry({"relevant": "no"})
    near = Candidate(Interval(0, 20), LOOK, 4, moment=10)
    alone = Candidate(Interval(40, 44), LOOK)
    same = Candidate(Interval(0, 9), LOOK, 3, moment=0)  # as the frame at 0.4 s
    looks = [*extract(asked, [near, alone], (), (1, 9, 11.5, 19), ()), *extract(asked, [same], (), (0.4,), ())]
    assert [[frame.seconds for frame in look.clip.frames] for look in looks] == [
        *([7.5, 9, 10, 11.5], [42], [0.4, 2.5, 6.8]),
    ]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(9, 11)], [(9, 11)]),
        ([(9, 9)], [(9, 9)]),  # a moment
        ([(2, 11)], [(8, 11)]),
        ([(8, 9), (11, 30)], [(8, 9), (11, 12)]),  # two events
        ([(11, 9)], []),
        ([(30, 40)], []),
        ([(1, 2), (9, 10)], [(9, 10)]),
    ],
)
def test_spans_of_a_look_are_cut_to_it(spans: list[tuple[float, float]], expected: list[tuple[float, float]]) -> None:
    said = [{"start": start, "end": end, "claims": ["c1"] if start < 9.5 else None} for start, end in spans]
    asked = inquiry({"relevant": True, "spans": said, "look_between": None})
    [look] = extract(asked, [Candidate(Interval(8, 12), LOOK, 5)], (), (), ())
    events = [SeenEvent(Interval(a, b), frozenset({"c1"} if a < 9.5 else ())) for a, b in expected]
    assert (list(look.events), look.relevant is Relevance.YES) == (events, bool(events))


def test_what_the_model_is_not_sure_of_is_looked_at_closely() -> None:
    asked = inquiry({"relevant": "perhaps", "look_between": [10.5, 23.5, 25.5, 90]})
    looks = extract(asked, [Candidate(Interval(0, 20), LOOK, 4)], (), (), ())
    inside, beside = plan_closer_looks(looks, Interval(0, 24), TraceSettings())
    assert (inside.span, inside.frames, inside.moment) == (Interval(9, 12), 3, 10.5)
    assert (beside.span, beside.moment) == (Interval(22, 24), 23.5)


def perhaps_seen(between: list[float]) -> Look:
    """A look at 0 to 20 seconds that saw a part of something from 10 to 18 and asks for these moments."""
    spans = [{"start": 10, "end": 18, "claims": ["c1"]}]
    asked = inquiry({"seen": "its result", "relevant": "perhaps", "spans": spans, "look_between": between})
    [look] = extract(asked, [Candidate(Interval(0, 20), LOOK, 4)], (), (), ())
    return look


def test_moments_close_together_are_one_closer_look_with_a_frame_for_each() -> None:
    looks = [perhaps_seen([3.0, 4.0, 5.5, 7.0, 14.0, 15.0])]
    first, second = plan_closer_looks(looks, Interval(0, 24), TraceSettings())
    assert (first.span, first.frames) == (Interval(2.5, 7.5), 4)
    assert (second.span, second.frames) == (Interval(13, 16), 3)


def test_an_anchor_of_a_part_has_the_moments_asked_for_that_no_look_has_shown() -> None:
    look, asked = perhaps_seen([11.0, 12.0, 13.0, 14.0, 17.5]), inquiry()  # 17.5 is a smaller group
    anchor = make_anchor(asked, "a1", (look, look.events[0]), 3, TraceSettings(), seen=[14.0])
    assert [frame.seconds for frame in anchor.clip.frames] == [11.0, 12.5, 13.0]  # 12.5 is a frame of the look
    assert anchor.requests == (12.0,)
    [fuller] = add_frames(asked, (anchor,), 5)
    assert [frame.seconds for frame in fuller.clip.frames] == [11.0, 12.0, 12.5, 13.0]
    assert add_frames(asked, (anchor,), 0) == (anchor,)


def test_a_sure_event_is_kept_before_a_longer_one_seen_in_part() -> None:
    part, sure = perhaps_seen([]), looked_at(10, 11)
    events = [(part, part.events[0]), (sure, sure.events[0])]
    assert drop_repeats(events, (), (), 3.0) == [events[1]]


def test_a_span_is_split_only_where_it_is_longer_than_one_look() -> None:
    assert split_span(Interval(0, 25), 25) == (Interval(0, 25),)
    assert split_span(Interval(0, 90), 30) == (Interval(0, 30), Interval(30, 60), Interval(60, 90))
    assert split_span(Interval(0, 25.5), 25) == (Interval(0, 12.75), Interval(12.75, 25.5))
    assert split_span(Interval(3, 3), 25) == (Interval(3, 3),)


def test_cues_that_share_words_with_the_question_come_first() -> None:
    asked = inquiry()
    cues = tuple(Cue(n, n + 1, words) for n, words in enumerate(("some words", "a frightened", "more words")))
    asked.observer.subtitles = Subtitles("v.srt", cues)
    found = asked.subtitles([Interval(0, 9)], 44 + len("a frightened"))  # room for one
    assert found is not None
    assert [cue.text for cue in found.cues] == ["a frightened"]


def test_a_forced_answer_names_an_option() -> None:
    asked, requests = asked_with({"answer": "B"})
    assert answer_from_clips(asked, (asked.observer.survey(asked.observer.whole, 2, height=90),), forced=True) == "B"
    with pytest.raises(ValidationError):
        requests[0].reply.model_validate({"answer": None})


def test_what_a_model_names_is_cut_before_it_is_said_back() -> None:
    settled = PrefixRecord(None, Status.INSUFFICIENT, {}, frozenset())
    flags = Flags(None, frozenset({"a1"}), frozenset())
    context = ReconcilerContext((TWO,), (settled,), flags, unexplored=(), expand_limit=3)
    said = {"target_anchors": ["x" * 60], "target_intervals": [], "observation_strategy": Refinement.NARROW_SPAN}
    refusal = f"DROP of {'x' * 40!r}: neither in the conflict set nor redundant"
    assert check_action(ControlReply(action="DROP", **said), context) == (None, (refusal,))
    refusal = f"REFINE of {'x' * 40!r}: no such anchor or look"
    assert check_action(ControlReply(action="REFINE", **said), context) == (None, (refusal,))


ODD = VisualAnchor("a1", Candidate(Interval(10, 20), LOOK), Clip(Interval(12.345, 18.06), LOOK, ()))
"""An anchor between tenths of a second."""


def test_control_is_told_times_to_a_tenth_and_claims_in_words() -> None:
    inquiry, requests = asked_with({"action": "EXPAND", "target_intervals": [[0, 9]]}, seconds=99.96)
    record = PrefixRecord("A", Status.ANSWERABLE, {"c1": "red", "c2": AtLeast(2)}, frozenset({"c2", "c1"}))
    context = ReconcilerContext(
        bundles=((ODD,),),
        trajectory=(record,),
        flags=Flags(None, frozenset({"b", "a1"}), frozenset({"c2"})),
        unexplored=(Interval(0.04, 9.96),),
        expand_limit=3,
        notes=(SegmentNote(1.25, 2.5, "a dog", promising=True),),
        costs={"DROP": 4, "REFINE": 14, "EXPAND": 13},
    )
    assert reconcile(inquiry, context).action == Expand((Interval(0.04, 9),))
    [told] = [request.variables for request in requests]
    assert told["unexplored_segments"] == [{"start": 0.0, "end": 10.0, "seconds": 9.9}]
    assert told["anchors"] == [{"anchor": "a1", "start": 12.3, "end": 18.1}]
    assert told["notes"] == [{"start": 1.2, "end": 2.5, "note": "a dog", "promising": True}]
    assert (told["conflict_set"], told["unmet_needs"]) == (["a1", "b"], ["how many"])
    assert (told["budget_remaining"], told["limit"]) == (40, 3)
    assert told["actions"] == "REFINE, EXPAND"  # one anchor alone is not dropped
    assert told["trajectory"] == [
        {
            "prefix_id": "a1",
            "answer": "A",
            "status": "answerable",
            "facts_supported": {"the colour": "red", "how many": "at least 2"},
            "unmet_needs": ["the colour", "how many"],
        }
    ]


def test_a_proposal_is_told_times_to_a_tenth_and_how_many_looks_can_be_paid_for() -> None:
    wish = {"start": 3, "end": 9}
    cats = [{"start": start, "end": end, "note": "a cat"} for start, end in ((-1, 1.1), (3, 4), (9, 9), (9, math.inf))]
    inquiry, requests = asked_with({"notes": cats, "candidates": [wish]}, seconds=99.96)
    storyboard = replace(inquiry.observer.survey(inquiry.observer.whole, 4, height=90), title="Storyboard")
    before = (SegmentNote(1.25, 2.5, "a dog", promising=True),)
    context = ProposalContext(
        Interval(0, 99.96), (10.04,), anchors=(ODD,), needs=frozenset({"c2"}), notes=before, limit=4
    )
    found = propose(inquiry, storyboard, context, TraceSettings())
    [request] = requests
    told = request.variables
    assert (told["duration"], told["look_seconds"], told["fast_seconds"], told["limit"]) == (100.0, 25, 8, 4)
    assert told["anchors"] == [{"start": 12.3, "end": 18.1, "seen": ""}]
    assert told["unexplored_segments"] == [{"start": 0.0, "end": 100.0}]
    assert told["unmet_needs"] == ["c2"]
    assert request.clips == (storyboard,)
    assert "Above is the storyboard" in request.text
    assert found.notes == (SegmentNote(0, 1.1, "a cat"), *before, SegmentNote(3, 4, "a cat"))
    assert [candidate.span for candidate in found.candidates] == [Interval(3, 9)]
    again = propose(inquiry, None, context, TraceSettings())
    assert requests[1].clips == ()
    assert "You see no frames now" in requests[1].text
    assert again.notes == before  # who sees nothing has nothing to note


def test_what_cannot_be_read_changes_no_notes_and_is_said() -> None:
    observer = Observer(ClockVideo(60), ScriptedBackbone(lambda _: ModelFault("nonsense")))
    note = (SegmentNote(1, 2, "a dog", promising=True),)
    for notes in (note, ()):
        found = propose(Inquiry(QUESTION, (), observer), None, ProposalContext(observer.whole, notes=notes), SMALL)
        assert found == ProposedCandidates((), notes, ("the reply could not be read: nonsense",))
    somewhere = ReconcilerContext((), (), Flags(None, frozenset(), frozenset()), (Interval(0, 9),), expand_limit=3)
    decision = reconcile(Inquiry(QUESTION, (), observer), somewhere)
    expected = (Expand((Interval(0, 9),)), ("the reply could not be read: nonsense",))
    assert (decision.action, decision.refused) == expected


def test_control_is_not_asked_where_no_action_has_anything_to_act_on_or_can_be_paid_for() -> None:
    asked, requests = asked_with({"action": "EXPAND"})
    nothing = ReconcilerContext((), (), Flags(None, frozenset(), frozenset()), (), expand_limit=3)
    dear = replace(nothing, unexplored=(Interval(0, 9),), costs={"EXPAND": 41})
    for context in (nothing, dear):
        assert reconcile(asked, context).action is None
    assert requests == []


def test_a_reply_names_claims_of_the_question_alone() -> None:
    kind = make_assembly_reply(inquiry())
    said = complete("evidence-assembly", {"status": "insufficient", "answer": None})
    assert kind.model_validate({**said, "facts_supported": [{"claim": "c1", "value": "red"}], "unmet_needs": ["c2"]})
    empty = kind.model_validate(said)  # nothing was supported, and nothing called open
    assert (empty.facts_supported, empty.unmet_needs) == ([], [])
    for wrong in ({"facts_supported": [{"claim": "c3", "value": "red"}]}, {"unmet_needs": ["c3"]}):
        with pytest.raises(ValidationError, match="'c1' or 'c2'"):
            kind.model_validate(said | wrong)
