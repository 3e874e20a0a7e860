"""Algorithm 1 end to end on real decoded video: every action, every frame, every ending, its numbers and ablations."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from tests.agent.conftest import EVENTS, QUESTION, Observing, Searching, Witness, actions, stages, within
from tests.agent.test_budget import ClockVideo
from trace_ves.agent import TRACE, VARIANTS, TraceSettings
from trace_ves.agent.settings import STRATEGIES
from trace_ves.backbone.protocol import ModelFault, ScriptedBackbone
from trace_ves.core import InputError, Interval, Question, Termination
from trace_ves.observer import Observer

EVERY = ["event-1", "event-2", "event-3"]


def test_a_stable_prefix_confirmed_by_replay_is_returned_with_its_clips(searching: Searching) -> None:
    answer, witness, _ = searching()
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert actions(answer) == ["STOP"]
    assert len(answer.bundle) == 3
    for clip, span in zip(sorted(answer.bundle, key=lambda c: c.span), sorted(EVENTS.values()), strict=True):
        assert sum(frame.seconds in span for frame in clip.frames) >= 2
    assert not witness.of("trajectory-reconciler")
    assert json.loads(json.dumps(answer.record)) == answer.record == searching()[0].record  # always the same
    assert answer.record["claims"][0]["kind"] == "time"


def test_every_supplied_frame_is_logged_and_prefixes_are_read_independently(searching: Searching) -> None:
    _, witness, observer = searching()
    requests = witness.of("evidence-assembly")
    assert [len(request.clips) for request in requests] == [1, 2, 3]
    assert requests[0].clips == requests[1].clips[:1] == requests[2].clips[:1]
    assert requests[0].text == requests[1].text == requests[2].text  # nothing is carried over
    assert all("day" not in request.text for request in requests)  # notes never reach assembly
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


def test_a_replay_that_never_agrees_ends_without_a_stable_prefix(searching: Searching) -> None:
    answer, _, _ = searching({"final-answer-replay": {"answer": "D"}})
    assert (answer.option, answer.termination) == ("C", Termination.NO_STABLE_PREFIX)
    assert answer.record["stable_prefix"] is None
    refuted = [r["replay"]["prefix"] for r in answer.record["rounds"] if r["replay"]]
    assert len({tuple(sorted(prefix)) for prefix in refuted}) == len(refuted)  # never proposed for STOP again


def test_a_video_without_evidence_is_answered_from_the_storyboard(searching: Searching) -> None:
    answer, witness, observer = searching({"anchor-extraction": {"relevant": "no"}}, budget=112)
    assert (answer.option, answer.termination) == ("C", Termination.NO_STABLE_PREFIX)
    (forced,) = witness.of("forced-answer")
    assert (forced.clips[0].title, answer.bundle) == ("Storyboard", ())  # the storyboard is no evidence
    assert 16 <= len(forced.clips[0].frames) <= 32  # half of it stays payable
    assert observer.remaining < 5


def test_what_cannot_grow_any_more_is_read_whole_and_then_answered_from(searching: Searching) -> None:
    """Six anchors of four frames: their prefixes would cost 84 frames, the largest of them alone 24."""
    spans = [(100.0 * n, 100.0 * n + 6) for n in range(6)]
    method = replace(TRACE, settings=TraceSettings(candidates_per_round=6))
    said = {"anchor-extraction": {"relevant": "yes"}}
    answer, witness, observer = searching(said, spans, method=method, budget=32 + 18 + 24 + 24)
    assert [len(request.clips) for request in witness.of("evidence-assembly")] == [6]
    assert len(answer.bundle) == 6
    assert observer.remaining == 0


def test_anchors_that_could_not_be_read_are_in_the_forced_answer(searching: Searching) -> None:
    """One event of three is found, and no look is left: its anchor of three frames cannot be read and replayed."""
    one = [{"start": 65, "end": 80, "moment": 73, "claims": ["event-1"]}]
    said = {
        "temporal-proposal": {"candidates": one},
        "anchor-extraction": {"relevant": "yes", "spans": [{"start": 70, "end": 76, "claims": ["event-1"]}]},
    }
    method = replace(TRACE, settings=TraceSettings(storyboard_frames=3, scan_frames=0))
    answer, witness, _ = searching(said, method=method, budget=3 + 5 + 5)
    assert not witness.of("evidence-assembly")
    assert [clip.span for clip in answer.bundle] == [clip.span for clip in witness.of("forced-answer")[0].clips]
    assert (len(answer.bundle), answer.option) == (1, "C")


def test_faults_of_the_model_never_stop_the_search(searching: Searching) -> None:
    said = dict.fromkeys(("anchor-prioritization", "trajectory-reconciler"), ModelFault("nonsense"))
    answer, _, observer = searching(said, [(65, 80), (112, 128)])
    assert answer.option is not None
    assert len(answer.record["rounds"]) > 1  # the longest unexplored spans are looked at instead
    assert {call.fault for call in observer.log.calls if call.fault} == {"nonsense"}


@pytest.mark.parametrize(
    "stage", ["temporal-proposal", "anchor-extraction", "evidence-assembly", "final-answer-replay"]
)
def test_a_stage_that_always_fails_ends_honestly(searching: Searching, stage: str) -> None:
    answer, _, _ = searching({stage: ModelFault("nonsense")})
    assert answer.termination is Termination.NO_STABLE_PREFIX
    assert answer.option == ("A" if stage == "evidence-assembly" else "C")  # something is always there to choose from


def test_a_budget_without_a_look_is_an_answer_from_the_storyboard_and_a_smaller_one_is_refused(
    searching: Searching,
) -> None:
    for budget in (40, 38):
        answer, witness, _ = searching(budget=budget)
        [request] = witness.requests  # no proposal that nothing can follow
        assert (answer.option, request.stage, len(request.clips[0].frames)) == ("C", "forced-answer", 32)
    with pytest.raises(InputError, match=r"a budget of 37 frames is too small.*need 38"):
        searching(budget=37)


NUMBERS = {
    "storyboard_frames": 32,
    "storyboard_height": 360,
    "resupply_storyboard": False,
    "scan_frames": 24,
    "least_scan_frames": 6,
    "candidates_per_round": 8,
    "look_frames_per_round": 40,
    "candidate_frames": 5,
    "fast_candidate_frames": 8,
    "least_candidate_frames": 3,
    "least_anchor_frames": 3,
    "most_anchor_frames": 4,
    "seen_spacing_seconds": 5.0,
    "occurrence_share": 0.5,
    "adjoining_seconds": 3.0,
    "expand_limit": 4,
    "shortest_segment": 2.0,
    "max_rounds": 12,
    "proposal_subtitle_chars": 24_000,
    "assembly_subtitle_chars": 4_000,
    "layout": "priority",
}


def test_a_run_without_settings_has_the_numbers_of_the_published_results() -> None:
    assert asdict(TRACE.settings) == NUMBERS
    assert asdict(TRACE.settings.for_count()) == NUMBERS | {"fast_candidate_frames": 5}  # small looks
    assert TRACE.default_budget == 112
    assert {name: (look.fps, look.height) for name, look in STRATEGIES.items()} == {
        "general": (0.2, 360),
        "fast-motion": (1.0, 360),
        "small-object": (0.2, 720),
        "text": (0.2, 720),
        "state-change": (0.4, 360),
    }


def test_a_variant_differs_in_what_its_name_says_alone() -> None:
    changed = {
        name: {key: value for key, value in asdict(variant.settings).items() if value != NUMBERS[key]}
        for name, variant in VARIANTS.items()
    }
    assert {name: change for name, change in changed.items() if change} == {
        "trace-fixed-rounds": {"max_rounds": 2},
        "trace-staged": {"look_frames_per_round": 25},
        "trace-chronological": {"layout": "chronological"},
        "trace-resupply-storyboard": {"resupply_storyboard": True},
    }


def test_without_replay_the_record_is_trusted(searching: Searching) -> None:
    answer, witness, _ = searching({"final-answer-replay": {"answer": "D"}}, method=VARIANTS["trace-without-replay"])
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert not witness.of("final-answer-replay")


def test_without_trajectory_prefixes_are_read_but_the_reconciler_knows_the_last_alone(searching: Searching) -> None:
    """The second prefix flips the answer: a conflict for TRACE, which nobody knows of without the trajectory."""

    def assembly(request: Any) -> Any:
        return {"status": "answerable", "answer": "B" if len(request.clips) == 2 else "A"}

    told = {}
    for name in ("trace", "trace-without-trajectory"):
        answer, witness, _ = searching({"evidence-assembly": assembly}, method=VARIANTS[name])
        assert [len(request.clips) for request in witness.of("evidence-assembly")][:3] == [1, 2, 3]
        told[name] = answer.record["rounds"][0]["flags"]
    assert told["trace"]["conflicts"] == ["a2", "a3"]
    assert told["trace-without-trajectory"] == {"stable_prefix": 0, "conflicts": [], "unmet_needs": []}


def test_without_expand_nothing_new_is_ever_searched_and_expand_is_never_offered(searching: Searching) -> None:
    refine = {"action": "REFINE", "target_anchors": ["a1"], "observation_strategy": "raise-frame-rate"}
    spans, method = ([(65, 80), (112, 128)], [(586, 601)]), VARIANTS["trace-without-expand"]
    answer, witness, _ = searching({"trajectory-reconciler": refine}, *spans, method=method, budget=400)
    assert answer.termination is Termination.NO_STABLE_PREFIX
    assert "EXPAND" not in actions(answer)
    assert len(witness.of("temporal-proposal")) == 1
    control = witness.of("trajectory-reconciler")[0]
    assert "EXPAND" not in control.text
    assert "EXPAND" not in json.dumps(control.reply.model_json_schema())
    assert "EXPAND" not in control.variables["costs"]
