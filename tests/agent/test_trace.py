"""Algorithm 1 end to end on real decoded video: every action, every frame accounted for."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.agent.conftest import EVENTS, QUESTION, Observing, Searching, Witness, actions, stages, within
from tests.agent.test_budget import ClockVideo
from trace_ves.agent import TRACE, TraceSettings
from trace_ves.backbone.protocol import ScriptedBackbone
from trace_ves.core import Interval, Question, Termination
from trace_ves.observer import Observer


def test_a_stable_prefix_confirmed_by_replay_is_returned_with_its_clips(searching: Searching) -> None:
    answer, witness, _ = searching()
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert actions(answer) == ["STOP"]
    assert len(answer.bundle) == 3
    for clip, span in zip(sorted(answer.bundle, key=lambda c: c.span), sorted(EVENTS.values()), strict=True):
        assert sum(frame.seconds in span for frame in clip.frames) >= 2
    assert not witness.of("trajectory-reconciler")


def test_every_supplied_frame_is_logged_with_its_stage(searching: Searching) -> None:
    _, witness, observer = searching()
    assert [call.stage for call in observer.log.calls] == [
        "temporal-proposal",
        *["anchor-extraction"] * 3,
        "anchor-prioritization",
        *["evidence-assembly"] * 3,
        "final-answer-replay",
    ]
    for call, request in zip(observer.log.calls, witness.requests, strict=True):
        assert call.timestamps == tuple(frame.seconds for clip in request.clips for frame in clip.frames)
    storyboard = observer.log.calls[0].timestamps
    assert len(storyboard) == 32
    assert all(abs(t - (j + 0.5) * 650 / 32) <= 0.25 for j, t in enumerate(storyboard))
    supplied = [len(request.clips[-1].frames) for request in witness.of("evidence-assembly")]
    assert stages(observer)[5:8] == [("evidence-assembly", sum(supplied[: j + 1])) for j in range(3)]
    assert observer.log.frames_supplied == sum(n for _, n in stages(observer))


def test_anchors_of_5_4_4_3_frames_cost_43_frames_over_four_calls(searching: Searching) -> None:
    """The paper's worked example of sum_j |E_j|; an anchor keeps the frames of its look that show the evidence."""
    parts = {60: 16.0, 110: 13.0, 300: 13.0, 586: 9.0}

    def extraction(request: Any) -> Any:
        start = request.clips[0].span.start
        return {"relevant": "yes", "spans": [{"start": start, "end": start + parts[start], "claims": EVERY}]}

    candidates = [{"start": a, "end": a + 16, "moment": a + 8, "claims": EVERY} for a in parts]
    said = {"temporal-proposal": {"candidates": candidates}, "anchor-extraction": extraction}
    method = replace(TRACE, settings=TraceSettings(most_anchor_frames=5, max_rounds=1))
    _, _, observer = searching(said, method=method)
    assembly = [n for stage, n in stages(observer) if stage == "evidence-assembly"]
    assert assembly == [5, 9, 13, 16]
    assert sum(assembly) == 43


EVERY = ["event-1", "event-2", "event-3"]


def test_prefixes_are_read_independently_and_as_literal_prefixes(searching: Searching) -> None:
    _, witness, _ = searching()
    requests = witness.of("evidence-assembly")
    assert [len(request.clips) for request in requests] == [1, 2, 3]
    assert requests[0].clips == requests[1].clips[:1] == requests[2].clips[:1]
    assert requests[0].text == requests[1].text == requests[2].text  # nothing is carried over
    assert all("day" not in request.text for request in requests)  # notes never reach assembly


def test_expand_looks_for_what_is_missing_and_reads_only_new_bundles(searching: Searching) -> None:
    answer, witness, _ = searching(None, [(65, 80), (112, 128)], [(591, 599)])
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert actions(answer) == ["EXPAND", "STOP"]
    assert len(witness.of("temporal-proposal")) == 1  # what EXPAND names is looked at directly
    assert witness.of("anchor-extraction")[-1].clips[0].span == Interval(591, 599)
    assert len(witness.of("trajectory-reconciler")[0].variables["unmet_needs"]) == 1
    assert len(witness.of("evidence-assembly")) == 3  # two, then only the grown one
    assert answer.record["rounds"][1]["assembled"] == [2]


def test_the_control_call_sees_the_inputs_of_the_appendix_what_they_mean_and_no_frame(searching: Searching) -> None:
    _, witness, _ = searching(None, [(65, 80)], [(112, 128)], [(586, 601)])
    control = witness.of("trajectory-reconciler")[0]
    assert control.clips == ()
    assert set(control.variables) == {
        *("question", "options", "trajectory", "conflict_set", "unmet_needs", "unexplored_segments"),
        *("budget_remaining", "limit", "actions", "notes", "anchors", "costs", "looks", "redundant"),
        "answer_form",
    }
    assert control.variables["costs"] == {"REFINE": 9, "EXPAND": 9}


def test_drop_removes_the_conflicting_anchor_and_rebuilds(observing: Observing) -> None:
    """The last anchor makes the model doubt; without it the bundle is answerable."""

    def assembly(request: Any) -> Any:
        said = witness.evidence_assembly(request)
        doubtful = any(clip.span.start > 600 for clip in request.clips)
        return said | ({"status": "conflicted", "answer": "B"} if doubtful else {})

    def control(request: Any) -> Any:
        if "DROP" not in request.variables["actions"]:
            return witness.trajectory_reconciler(request)
        return {"action": "DROP", "target_anchors": request.variables["conflict_set"]}

    said = {
        "anchor-extraction": {"relevant": "yes"},
        "evidence-assembly": assembly,
        "trajectory-reconciler": control,
        # replay disagrees once with what the first proposal finds, so the search goes on and meets the doubtful clip
        "final-answer-replay": [{"answer": letter} for letter in "BAA"],
    }
    witness = Witness(said, [[(70, 76), (118, 125), (592, 598)], [(620, 640)]])
    answer = TRACE(QUESTION, observing(witness, budget=400))
    rounds = answer.record["rounds"]
    assert rounds[0]["replay"] == {"prefix": ["a1", "a2", "a3"], "answer": "B", "agrees": False}
    assert actions(answer)[:2] == ["STOP", "DROP"]
    assert rounds[0]["decisions"][1]["action"]["anchors"] == ["a3"]
    assert rounds[1]["bundles"] == [["a1"], ["a1", "a2"]]
    assert rounds[1]["candidates"] == []  # the trajectory is read again before anything else is looked at


def test_refine_looks_at_the_same_anchor_again_in_another_way(observing: Observing) -> None:
    def control(request: Any) -> Any:
        if len(witness.of("trajectory-reconciler")) > 1:
            return witness.trajectory_reconciler(request)
        return {"action": "REFINE", "target_anchors": ["a1"], "observation_strategy": "narrow-span"}

    witness = Witness(candidates=[[(65, 81)], [(112, 128), (586, 602)]], overrides={"trajectory-reconciler": control})
    answer = TRACE(QUESTION, observing(witness, budget=400))
    assert actions(answer)[0] == "REFINE"
    again = witness.of("anchor-extraction")[1].clips[0]
    assert (again.span.start, again.span.end) == pytest.approx((69, 77), abs=2)
    assert len(again.frames) == 5
    second = answer.record["rounds"][1]
    assert [candidate["replaces"] for candidate in second["candidates"]] == ["a1"]
    assert second["bundles"][:1] == [["a2"]]  # a refined anchor takes the old one's place


def test_anchors_that_were_read_keep_their_places_when_new_ones_are_ordered(searching: Searching) -> None:
    backwards = {
        "anchor-extraction": lambda r: within(r.clips[0].span.start, r.clips[0].span.end),
        "anchor-prioritization": lambda r: {"order": list(range(len(r.clips), 0, -1))},
    }
    answer, witness, _ = searching(backwards, [(65, 80)], [(112, 128), (300, 312)])
    assert len(witness.of("anchor-prioritization")[0].clips) == 2
    assert answer.record["rounds"][1]["bundles"] == [["a1"], ["a1", "a3"], ["a1", "a3", "a2"]]
    assert answer.record["rounds"][1]["assembled"] == [1, 2]


def test_notes_stay_when_nothing_is_left_to_look_at() -> None:
    """Every second of a short video has been seen, so nobody is asked where to look; the notes are still on record."""
    undecided = {"status": "insufficient", "answer": None}
    seen = {"anchor-extraction": {"relevant": "yes"}, "evidence-assembly": undecided}
    witness = Witness(candidates=[[(0, 12)]], overrides=seen)
    answer = TRACE(QUESTION, Observer(ClockVideo(12.0), ScriptedBackbone(witness), budget=200))
    assert len(witness.of("temporal-proposal")) == 1
    assert len(answer.record["rounds"]) > 1
    assert [note["note"] for note in answer.record["notes"]] == ["day"]


BELL = ((1, 9), (60, 68))


def test_a_count_stops_when_the_timeline_has_been_seen_closely_enough(observing: Observing) -> None:
    """Twice seen, of "2" to "5": the record alone is answerable; the stop waits until nothing is unexplored."""
    question = Question("n", "v.mp4", "How many times does the bell ring?", ("2", "3", "4", "5"), "event-counting")

    def extraction(request: Any) -> Any:
        rings = [ring for ring in BELL if any(ring[0] <= frame.seconds <= ring[1] for frame in request.clips[0].frames)]
        spans = [{"start": start, "end": end, "claims": ["count"]} for start, end in rings]
        return {"relevant": "yes" if spans else "no", "spans": spans}

    def assembly(request: Any) -> Any:
        seen = [frame.seconds for clip in request.clips for frame in clip.frames]
        spans = [{"start": a, "end": b} for a, b in BELL if any(a <= moment <= b for moment in seen)]
        fact = {"claim": "count", "value": len(spans), "spans": spans}
        answer = "A" if len(spans) == 2 else None
        return {"facts_supported": [fact], "status": "answerable" if answer else "insufficient", "answer": answer}

    def proposal(request: Any) -> Any:
        quiet = {"start": 20, "end": 40, "note": "nothing", "promising": False}
        return witness.temporal_proposal(request) | ({"notes": [quiet]} if request.clips else {})

    said = {"anchor-extraction": extraction, "evidence-assembly": assembly, "final-answer-replay": {"answer": "A"}}
    witness = Witness(said | {"temporal-proposal": proposal}, candidates=[[(0, 12)]])
    answer = TRACE(question, Observer(ClockVideo(90.0), ScriptedBackbone(witness), budget=200))
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    [passed] = answer.record["not_promising"]
    assert passed == pytest.approx([20, 40], abs=3)
    assert not any(r["bundles"] for r in answer.record["rounds"][:-1])  # no bundle could be sufficient
    assert len(answer.record["rounds"]) > 2
    claims = [claim["id"] for claim in witness.of("evidence-assembly")[0].variables["claims"]]
    assert claims == ["count"]  # nobody who sees clips alone is asked whether they are all


def test_an_open_question_is_answered_in_words(observing: Observing) -> None:
    question = Question("open", "v.mp4", "What does the hunter look like?")
    facts = [{"claim": "c1", "value": "frightened"}]
    said = {
        "claims": {"claims": [{"claim": "the look on his face"}]},
        "evidence-assembly": {"facts_supported": facts, "status": "answerable", "answer": "He is frightened."},
        "final-answer-replay": {"answer": "he is FRIGHTENED"},
    }
    answer = TRACE(question, observing(Witness(said)))
    assert answer.termination is Termination.STABLE_PREFIX_FOUND
    assert answer.option == "he is FRIGHTENED"


def test_the_record_is_plain_json_and_the_run_is_deterministic(observing: Observing) -> None:
    one, two = (TRACE(QUESTION, observing(Witness())).record for _ in range(2))
    assert json.loads(json.dumps(one)) == one == two
    assert one["claims"][0]["kind"] == "time"
