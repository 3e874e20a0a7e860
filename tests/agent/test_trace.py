"""Algorithm 1 end to end on real decoded video: every termination, every action, every frame accounted for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.agent.conftest import EVENTS, QUESTION, Witness
from trace_ves.agent import TRACE, VARIANTS, TraceSettings
from trace_ves.backbone.protocol import ModelFault
from trace_ves.backbone.scripted import ScriptedBackbone
from trace_ves.core import Answer, InputError, Interval, Question, Termination
from trace_ves.observer import Observer

Observing = Callable[..., Observer]


def actions(answer: Answer) -> list[str]:
    return [d["action"]["action"] for r in answer.record["rounds"] for d in r["decisions"] if d["action"]]


def stages(observer: Observer) -> list[tuple[str, int]]:
    return [(call.stage, len(call.timestamps)) for call in observer.log.calls]


def test_a_stable_prefix_confirmed_by_replay_is_returned_with_its_clips(observing: Observing) -> None:
    observer = observing(witness := Witness())
    answer = TRACE(QUESTION, observer)
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert actions(answer) == ["STOP"]
    assert len(answer.bundle) == 3
    for clip, span in zip(sorted(answer.bundle, key=lambda c: c.span), sorted(EVENTS.values()), strict=True):
        assert sum(frame.seconds in span for frame in clip.frames) >= 2
    assert not witness.of("trajectory-reconciler")


def test_every_supplied_frame_is_logged_with_its_stage(observing: Observing) -> None:
    observer = observing(witness := Witness())
    TRACE(QUESTION, observer)
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


def test_anchors_of_5_4_4_3_frames_cost_43_frames_over_four_calls(observing: Observing) -> None:
    """The paper's worked example of sum_j |E_j|; how many frames an anchor has follows from how it is looked at."""
    spans = {(60, 76): "fast-motion", (110, 126): "state-change", (300, 316): "state-change", (586, 602): "general"}

    def proposal(request: Any) -> Any:
        return {"candidates": [{"start": a, "end": b, "look_for": look} for (a, b), look in spans.items()]}

    def extraction(request: Any) -> Any:
        return {"relevant": True}

    witness = Witness(overrides={"temporal-proposal": proposal, "anchor-extraction": extraction})
    observer = observing(witness)
    settings = TraceSettings(
        candidates_per_round=4,
        least_anchor_frames=3,
        most_anchor_frames=5,
        seen_spacing_seconds=20.0,
        change_spacing_seconds=20.0,
        max_rounds=1,
    )
    replace(TRACE, settings=settings)(QUESTION, observer)
    assembly = [n for stage, n in stages(observer) if stage == "evidence-assembly"]
    assert assembly == [5, 9, 13, 16]
    assert sum(assembly) == 43


@pytest.mark.parametrize(("start", "end"), [(70.0, 76.0), (118.3, 121.9), (592.0, 593.0)])
def test_an_anchor_is_decoded_inside_its_span_and_not_filled_from_the_look(
    observing: Observing, start: float, end: float
) -> None:
    witness = Witness(
        candidates=[[(start - 8, end + 8)]],
        overrides={"anchor-extraction": lambda _: {"relevant": True, "start": start, "end": end}},
    )
    TRACE(QUESTION, observing(witness))
    look, anchor = witness.of("anchor-extraction")[0].clips[0], witness.of("evidence-assembly")[0].clips[0]
    assert anchor.span == Interval(start, end)
    assert all(frame.seconds in anchor.span for frame in anchor.frames)
    assert len(anchor.frames) == 4
    inside = [frame.seconds for frame in look.frames if frame.seconds in anchor.span]
    assert {frame.seconds for frame in anchor.frames} - set(inside)  # decoded anew


def test_prefixes_are_read_independently_and_as_literal_prefixes(observing: Observing) -> None:
    TRACE(QUESTION, observing(witness := Witness()))
    requests = witness.of("evidence-assembly")
    assert [len(request.clips) for request in requests] == [1, 2, 3]
    assert requests[0].clips == requests[1].clips[:1] == requests[2].clips[:1]
    assert requests[0].text == requests[1].text == requests[2].text  # nothing is carried over
    assert all("day" not in request.text for request in requests)  # notes never reach assembly


def test_chronological_layout_shows_clips_in_order_of_time(observing: Observing) -> None:
    backwards = {"anchor-prioritization": lambda r: {"order": list(range(len(r.clips), 0, -1))}}
    for name, expected in (("trace", True), ("trace-chronological", False)):
        VARIANTS[name](QUESTION, observing(witness := Witness(overrides=backwards)))
        starts = [clip.span.start for clip in witness.of("evidence-assembly")[-1].clips]
        assert (starts == sorted(starts, reverse=True)) is expected


def test_expand_looks_for_what_is_missing_and_reads_only_new_bundles(observing: Observing) -> None:
    witness = Witness(candidates=[[(65, 80), (112, 128)], [(586, 601)]])
    observer = observing(witness)
    answer = TRACE(QUESTION, observer)
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert actions(answer) == ["EXPAND", "STOP"]
    first, second = witness.of("temporal-proposal")
    assert (len(first.clips), len(second.clips)) == (1, 0)  # later rounds reuse the notes as text
    assert second.variables["notes"] == [{"start": 0, "end": 325, "note": "day"}]
    assert len(second.variables["unmet_needs"]) == 1
    assert len(witness.of("evidence-assembly")) == 3  # two, then only the grown one
    assert answer.record["rounds"][1]["assembled"] == [2]


def test_resupplied_storyboard_is_paid_again(observing: Observing) -> None:
    witness = Witness(candidates=[[(65, 80), (112, 128)], [(586, 601)]])
    observer = observing(witness)
    VARIANTS["trace-resupply-storyboard"](QUESTION, observer)
    assert [n for stage, n in stages(observer) if stage == "temporal-proposal"] == [32, 32]


def test_the_control_call_sees_the_inputs_of_the_appendix_what_they_mean_and_no_frame(observing: Observing) -> None:
    TRACE(QUESTION, observing(witness := Witness(candidates=[[(65, 80)], [(112, 128)], [(586, 601)]])))
    control = witness.of("trajectory-reconciler")[0]
    assert control.clips == ()
    assert set(control.variables) == {
        *("question", "options", "trajectory", "conflict_set", "unmet_needs", "unexplored_segments"),
        *("budget_remaining", "limit", "actions", "notes", "anchors", "costs"),
    }
    assert control.variables["notes"] == [{"start": 0, "end": 325, "note": "day"}]
    assert control.variables["anchors"] == [{"anchor": "a1", "start": 70.0, "end": 76.0}]
    assert control.variables["costs"] == {"DROP": 4, "REFINE": 14, "EXPAND": 13}
    assert set(control.variables["trajectory"][0]) == {
        *("prefix_id", "answer", "status", "facts_supported", "unmet_needs"),
    }
    words = {claim["about"] for claim in witness.of("evidence-assembly")[0].variables["claims"]}
    assert set(control.variables["unmet_needs"]) < words  # never a bare id
    assert control.variables["trajectory"][0]["facts_supported"].keys() < words


def test_drop_removes_the_conflicting_anchor_and_rebuilds(observing: Observing) -> None:
    """The last anchor makes the model doubt; without it the bundle is answerable."""

    def extraction(request: Any) -> Any:
        return {"relevant": True}

    def assembly(request: Any) -> Any:
        said = witness.evidence_assembly(request)
        doubtful = any(clip.span.start > 600 for clip in request.clips)
        return said | ({"status": "conflicted", "answer": "B"} if doubtful else {})

    def control(request: Any) -> Any:
        return {"action": "DROP", "target_anchors": request.variables["conflict_set"]}

    witness = Witness(
        candidates=[[(70, 76), (118, 125), (592, 598)], [(620, 640)]],
        overrides={"anchor-extraction": extraction, "evidence-assembly": assembly, "trajectory-reconciler": control},
    )
    # the first proposal finds all three, but replay disagrees once, so the search goes on and meets the doubtful clip
    replays = iter(["B", "A", "A"])
    witness.overrides["final-answer-replay"] = lambda _: {"answer": next(replays)}
    observer = observing(witness, budget=400)
    answer = TRACE(QUESTION, observer)
    rounds = answer.record["rounds"]
    assert rounds[0]["replay"] == {"prefix": ["a1", "a2", "a3"], "answer": "B", "agrees": False}
    assert actions(answer)[:2] == ["STOP", "DROP"]
    assert rounds[0]["decisions"][1]["action"]["anchors"] == ["a3"]
    assert rounds[1]["bundles"][:2] == [["a1"], ["a1", "a2"]]
    assert rounds[1]["candidates"]  # the search proposes again in the same round


REFINEMENTS = {
    "raise-frame-rate": (10, (65, 81)),
    "raise-resolution": (8, (65, 81)),
    "narrow-span": (8, (69, 77)),
    "shift-centre": (8, (73, 89)),
}


@pytest.mark.parametrize("refinement", REFINEMENTS)
def test_refine_looks_at_the_same_anchor_again_in_another_way(observing: Observing, refinement: str) -> None:
    frames, span = REFINEMENTS[refinement]

    def control(request: Any) -> Any:
        if len(witness.of("trajectory-reconciler")) > 1:
            return witness.trajectory_reconciler(request)
        return {"action": "REFINE", "target_anchors": ["a1"], "observation_strategy": refinement}

    witness = Witness(candidates=[[(65, 81)], [(112, 128), (586, 602)]], overrides={"trajectory-reconciler": control})
    answer = TRACE(QUESTION, observing(witness, budget=400))
    assert actions(answer)[0] == "REFINE"
    again = witness.of("anchor-extraction")[1].clips[0]
    assert (again.span.start, again.span.end) == pytest.approx(span, abs=1)
    assert len(again.frames) == frames
    assert again.strategy.height == (720 if refinement == "raise-resolution" else 360)
    second = answer.record["rounds"][1]
    assert second["candidates"][0]["replaces"] == "a1"
    assert second["bundles"][0] == ["a2"]  # the refined anchor has taken the old one's place
    assert all("a1" not in bundle for bundle in second["bundles"])
    assert len(second["candidates"]) > 1  # and the search has proposed again in the same round
    assert answer.option == "A"


def test_a_replay_that_never_agrees_ends_without_a_stable_prefix(observing: Observing) -> None:
    witness = Witness(overrides={"final-answer-replay": lambda _: {"answer": "D"}})
    answer = TRACE(QUESTION, observing(witness))
    assert (answer.option, answer.termination) == ("C", Termination.NO_STABLE_PREFIX)
    assert answer.record["stable_prefix"] is None
    refuted = [r["replay"]["prefix"] for r in answer.record["rounds"] if r["replay"]]
    assert len({tuple(sorted(prefix)) for prefix in refuted}) == len(refuted)  # never proposed for STOP again


def test_a_video_without_evidence_is_answered_from_the_storyboard(observing: Observing) -> None:
    nothing = {"anchor-extraction": lambda _: {"relevant": False}}
    observer = observing(witness := Witness(overrides=nothing), budget=112)
    answer = TRACE(QUESTION, observer)
    assert (answer.option, answer.termination) == ("C", Termination.NO_STABLE_PREFIX)
    (forced,) = witness.of("forced-answer")
    assert forced.clips == answer.bundle
    assert len(forced.clips[0].frames) == 32
    assert observer.remaining < 5


def test_a_storyboard_that_cannot_be_paid_for_is_thinned_evenly(observing: Observing) -> None:
    nothing = {"anchor-extraction": lambda _: {"relevant": False}}
    observer = observing(witness := Witness(overrides=nothing), budget=40)
    assert TRACE(QUESTION, observer).option == "C"
    (forced,) = witness.of("forced-answer")
    moments = [frame.seconds for frame in forced.clips[0].frames]
    assert len(moments) == 8
    assert moments == sorted(moments)
    assert max(b - a for a, b in pairwise(moments)) < 2 * 650 / 8


def test_what_cannot_grow_any_more_is_read_whole_and_then_answered_from(observing: Observing) -> None:
    """Six anchors of four frames: their prefixes would cost 84 frames, the largest of them alone 24."""
    spans = [(100.0 * n, 100.0 * n + 6) for n in range(6)]
    witness = Witness(candidates=[spans], overrides={"anchor-extraction": lambda _: {"relevant": True}})
    observer = observing(witness, budget=32 + 18 + 24 + 24)
    answer = replace(TRACE, settings=TraceSettings(candidates_per_round=6))(QUESTION, observer)
    assert [len(request.clips) for request in witness.of("evidence-assembly")] == [6]
    assert len(answer.bundle) == 6
    assert observer.remaining == 0


@pytest.mark.parametrize(("spare", "read"), [(0, [1, 2, 3]), (-1, [3])])
def test_growth_is_read_to_the_last_frame_that_can_pay_for_it(
    observing: Observing, spare: int, read: list[int]
) -> None:
    """Three anchors of four frames: looks of 15, growth of 4 + 8 + 12, a replay of 12; ordering would take 3 more."""
    spans = [(100.0 * n, 100.0 * n + 12) for n in range(3)]
    witness = Witness(candidates=[spans], overrides={"anchor-extraction": lambda _: {"relevant": True}})
    settings = TraceSettings(storyboard_frames=3, candidates_per_round=3)
    answer = replace(TRACE, settings=settings)(QUESTION, observing(witness, budget=3 + 15 + 24 + 12 + spare))
    assert [len(request.clips) for request in witness.of("evidence-assembly")] == read
    assert not witness.of("anchor-prioritization")
    assert len(answer.bundle) >= 3  # what is left where growth is not read goes on looking


def test_new_anchors_are_ordered_where_that_can_be_paid_for_too(observing: Observing) -> None:
    spans = [(100.0 * n, 100.0 * n + 12) for n in range(3)]
    backwards = {
        "anchor-extraction": lambda _: {"relevant": True},
        "anchor-prioritization": lambda r: {"order": list(range(len(r.clips), 0, -1))},
    }
    settings = TraceSettings(storyboard_frames=3, candidates_per_round=3)
    witness = Witness(candidates=[spans], overrides=backwards)
    answer = replace(TRACE, settings=settings)(QUESTION, observing(witness, budget=3 + 15 + 3 + 24 + 12))
    assert answer.record["rounds"][0]["bundles"] == [["a3"], ["a3", "a2"], ["a3", "a2", "a1"]]
    assert witness.of("anchor-prioritization")[0].variables["unmet_needs"] == ["event-1", "event-2", "event-3"]


def test_anchors_that_were_read_keep_their_places_when_new_ones_are_ordered(observing: Observing) -> None:
    rounds = [[(65, 80)], [(112, 128), (300, 312)]]
    backwards = {
        "anchor-extraction": lambda _: {"relevant": True},
        "anchor-prioritization": lambda r: {"order": list(range(len(r.clips), 0, -1))},
    }
    answer = TRACE(QUESTION, observing(witness := Witness(candidates=rounds, overrides=backwards)))
    assert len(witness.of("anchor-prioritization")[0].clips) == 2
    assert answer.record["rounds"][1]["bundles"] == [["a1"], ["a1", "a3"], ["a1", "a3", "a2"]]
    assert answer.record["rounds"][1]["assembled"] == [1, 2]


def test_notes_stay_when_nothing_is_left_to_look_at() -> None:
    """Every second of a short video has been seen, so nobody is asked where to look; the notes are still on record."""
    from tests.agent.test_budget import ClockVideo

    undecided = {"status": "insufficient", "answer": None}
    seen = {"anchor-extraction": lambda _: {"relevant": True}, "evidence-assembly": lambda _: undecided}
    witness = Witness(candidates=[[(0, 12)]], overrides=seen)
    answer = TRACE(QUESTION, Observer(ClockVideo(12.0), ScriptedBackbone(witness), budget=200))
    assert len(witness.of("temporal-proposal")) == 1
    assert len(answer.record["rounds"]) > 1
    assert [note["note"] for note in answer.record["notes"]] == ["day"]


def test_a_count_stops_when_the_timeline_has_been_seen_closely_enough(observing: Observing) -> None:
    """Twice seen, of "2" to "5": the record alone is answerable; the stop waits until nothing is unexplored."""
    from tests.agent.test_budget import ClockVideo

    question = Question("n", "v.mp4", "How many times does the bell ring?", ("2", "3", "4", "5"), "event-counting")

    def extraction(request: Any) -> Any:
        start, end = request.clips[0].span.start, request.clips[0].span.end
        return {"relevant": start < 12, "start": start, "end": end}

    def assembly(request: Any) -> Any:
        return {"facts_supported": [{"claim": "count", "value": "2"}], "status": "answerable", "answer": "A"}

    witness = Witness(
        candidates=[[(0, 12)], [(12, 42)], [(42, 72)], [(72, 90)]],
        overrides={
            "anchor-extraction": extraction,
            "evidence-assembly": assembly,
            "final-answer-replay": lambda _: {"answer": "A"},
        },
    )
    observer = Observer(ClockVideo(90.0), ScriptedBackbone(witness), budget=200)
    answer = TRACE(question, observer)
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert all("complete" in r["flags"]["unmet_needs"] for r in answer.record["rounds"][:-1])
    assert len(answer.record["rounds"]) > 2
    claims = [claim["claim"] for claim in witness.of("evidence-assembly")[0].variables["claims"]]
    assert claims == ["count"]  # nobody who sees clips alone is asked whether they are all


def test_anchors_that_nobody_could_read_are_in_the_forced_answer(observing: Observing) -> None:
    observer = observing(witness := Witness(candidates=[[(65, 80)]]), budget=32 + 3 + 4)
    answer = TRACE(QUESTION, observer)
    assert not witness.of("evidence-assembly")
    assert [clip.span for clip in answer.bundle] == [clip.span for clip in witness.of("forced-answer")[0].clips]
    assert (len(answer.bundle), answer.option) == (1, "C")


def test_faults_of_the_model_never_stop_the_search(observing: Observing) -> None:
    witness = Witness(
        overrides=dict.fromkeys(("anchor-prioritization", "trajectory-reconciler"), lambda _: ModelFault("nonsense")),
        candidates=[[(65, 80), (112, 128)], [(586, 601)]],
    )
    observer = observing(witness)
    assert TRACE(QUESTION, observer).termination is Termination.STABLE_PREFIX_FOUND
    assert [call.fault for call in observer.log.calls if call.fault] == ["nonsense", "nonsense"]


@pytest.mark.parametrize(
    "stage", ["temporal-proposal", "anchor-extraction", "evidence-assembly", "final-answer-replay"]
)
def test_a_stage_that_always_fails_ends_honestly(observing: Observing, stage: str) -> None:
    answer = TRACE(QUESTION, observing(Witness(overrides={stage: lambda _: ModelFault("nonsense")})))
    assert answer.termination is Termination.NO_STABLE_PREFIX
    assert answer.option == ("A" if stage == "evidence-assembly" else "C")  # something is always there to choose from


def test_without_replay_the_record_is_trusted(observing: Observing) -> None:
    witness = Witness(overrides={"final-answer-replay": lambda _: {"answer": "D"}})
    answer = VARIANTS["trace-without-replay"](QUESTION, observing(witness))
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert not witness.of("final-answer-replay")


def test_without_replay_a_forced_answer_that_no_record_holds_is_still_asked_for(observing: Observing) -> None:
    witness = Witness(overrides={"evidence-assembly": lambda _: {"status": "insufficient", "answer": None}})
    answer = VARIANTS["trace-without-replay"](QUESTION, observing(witness))
    assert (answer.option, answer.termination) == ("A", Termination.NO_STABLE_PREFIX)
    assert len(witness.of("forced-answer")) == 1
    assert not witness.of("final-answer-replay")


def test_without_trajectory_prefixes_are_read_but_the_reconciler_knows_the_last_alone(observing: Observing) -> None:
    """The second prefix flips the answer: a conflict for TRACE, which nobody knows of without the trajectory."""

    def assembly(request: Any) -> Any:
        return {"status": "answerable", "answer": "B" if len(request.clips) == 2 else "A"}

    told = {}
    for name in ("trace", "trace-without-trajectory"):
        witness = Witness(overrides={"evidence-assembly": assembly})
        answer = VARIANTS[name](QUESTION, observing(witness))
        assert [len(request.clips) for request in witness.of("evidence-assembly")][:3] == [1, 2, 3]
        told[name] = answer.record["rounds"][0]["flags"]
    assert told["trace"]["conflicts"] == ["a2", "a3"]
    assert told["trace-without-trajectory"] == {"stable_prefix": 0, "conflicts": [], "unmet_needs": []}


def test_without_expand_nothing_new_is_ever_searched_and_expand_is_never_offered(observing: Observing) -> None:
    refine = {"action": "REFINE", "target_anchors": ["a1"], "observation_strategy": "raise-frame-rate"}
    witness = Witness(
        candidates=[[(65, 80), (112, 128)], [(586, 601)]], overrides={"trajectory-reconciler": lambda _: refine}
    )
    answer = VARIANTS["trace-without-expand"](QUESTION, observing(witness, budget=400))
    assert answer.termination is Termination.NO_STABLE_PREFIX
    assert "EXPAND" not in actions(answer)
    assert len(witness.of("temporal-proposal")) == 1
    control = witness.of("trajectory-reconciler")[0]
    assert "EXPAND" not in control.text
    assert "EXPAND" not in json.dumps(control.reply.model_json_schema())
    assert "EXPAND" not in control.variables["costs"]


def test_fixed_rounds_never_stop_by_rule(observing: Observing) -> None:
    answer = VARIANTS["trace-fixed-rounds"](QUESTION, observing(Witness()))
    assert (answer.option, answer.termination) == ("A", Termination.NO_STABLE_PREFIX)
    assert len(answer.record["rounds"]) == 2


def test_an_open_question_is_answered_in_words(observing: Observing) -> None:
    question = Question("open", "v.mp4", "What does the hunter look like?")
    said = {"answer": "He is frightened."}
    witness = Witness(
        overrides={
            "claims": lambda _: {"claims": [{"claim": "the look on his face"}]},
            "evidence-assembly": lambda _: {
                "facts_supported": [{"claim": "c1", "value": "frightened"}],
                "status": "answerable",
                **said,
            },
            "final-answer-replay": lambda _: {"answer": "he is FRIGHTENED"},
        }
    )
    answer = TRACE(question, observing(witness))
    assert answer.termination is Termination.STABLE_PREFIX_FOUND
    assert answer.option == "he is FRIGHTENED"


def test_the_record_is_plain_json_and_the_run_is_deterministic(observing: Observing) -> None:
    one, two = (TRACE(QUESTION, observing(Witness())).record for _ in range(2))
    assert json.loads(json.dumps(one)) == one == two
    assert one["claims"][0]["kind"] == "time"


def test_a_budget_too_small_for_one_anchor_and_replay_is_refused(observing: Observing) -> None:
    with pytest.raises(InputError, match=r"a budget of 38 frames is too small.*need 39"):
        TRACE(QUESTION, observing(Witness(), budget=38))
    assert TRACE(QUESTION, observing(Witness(), budget=39)).option is not None
