"""How a search ends that finds nothing, cannot pay for more, or asks a model that fails."""

from dataclasses import replace

import pytest

from tests.agent.conftest import Searching
from trace_ves.agent import TRACE, TraceSettings
from trace_ves.backbone.protocol import ModelFault
from trace_ves.core import InputError, Termination


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


def test_a_budget_without_a_look_is_an_answer_from_the_storyboard(searching: Searching) -> None:
    answer, witness, _ = searching(budget=40)
    assert answer.option == "C"
    assert [request.stage for request in witness.requests] == ["forced-answer"]  # no proposal that nothing can follow
    assert len(witness.requests[0].clips[0].frames) == 32


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


def test_a_budget_too_small_for_one_anchor_and_replay_is_refused(searching: Searching) -> None:
    with pytest.raises(InputError, match=r"a budget of 37 frames is too small.*need 38"):
        searching(budget=37)
    assert searching(budget=38)[0].option is not None
