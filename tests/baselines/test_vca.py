"""VCA spends what its tree and memory say: N new frames a step, and the memory once more for every decision."""

from collections.abc import Callable
from typing import Any

import pytest

from trace_ves.backbone.protocol import Request
from trace_ves.baselines.vca import Vca
from trace_ves.core import Interval, Question, Termination

QUESTION = Question("q1", "v.mp4", "Which came first?", ("red", "green", "blue", "white"))


def scores(request: Request[Any]) -> dict[str, object]:
    """Later segments matter more."""
    return {
        "scores": [
            {"segment": segment["segment"], "explanation": "as late as it is", "relevance": int(segment["start"] / 1.2)}
            for segment in request.variables["segments"]
        ]
    }


def best(request: Request[Any]) -> dict[str, object]:
    segments = request.variables["segments"]
    return {"action": "explore", "segment": max(segments, key=lambda segment: segment["relevance"])["segment"]}


ANSWER = {"action": "answer", "answer": "C"}


def test_each_step_splits_a_segment_by_frames_inside_it(watching: Callable[..., Any]) -> None:
    old = {"action": "explore", "segment": 1}  # a coarse segment may still be chosen
    observer, script = watching({"vca-reward": scores, "vca-explore": [best, old, ANSWER]})
    answer = Vca()(QUESTION, observer)
    assert (answer.option, answer.termination) == ("C", Termination.SELF_REPORTED)
    calls = [(call.stage, len(call.timestamps)) for call in observer.log.calls]
    explored = [("vca-explore", frames) for frames in (7, 14, 16)]
    assert calls == [each for call in explored for each in (("vca-reward", 7), call)]
    assert (observer.log.frames_supplied, len(observer.log.timestamps)) == (58, 21)
    segments = [len(request.variables["segments"]) for request in script.of("vca-explore")]
    assert segments == [8, 15, 22]  # the expanded parent has left
    first, second, third = script.of("vca-reward")
    assert [frame.seconds for frame in first.clips[0].frames] == [15, 30, 45, 60, 75, 90, 105]
    parts = [(part["start"], part["end"]) for part in first.variables["segments"]]
    assert parts == [(start, start + 15) for start in range(0, 120, 15)]
    assert [request.clips[0].span for request in (second, third)] == [Interval(105, 120), Interval(0, 15)]
    assert all(105 < frame.seconds < 120 for frame in second.clips[0].frames)


def test_memory_keeps_the_most_relevant_frames_in_order_of_time(watching: Callable[..., Any]) -> None:
    observer, script = watching({"vca-reward": scores, "vca-explore": [best, best, best, ANSWER]})
    answer = Vca(memory=10)(QUESTION, observer)
    shown = [[frame.seconds for frame in request.clips[0].frames] for request in script.of("vca-explore")]
    assert [len(frames) for frames in shown] == [7, 10, 10, 10]
    assert all(frames == sorted(frames) for frames in shown)
    assert min(shown[1]) > 60  # later is more relevant in this script
    assert [frame.seconds for frame in answer.bundle[0].frames] == shown[-1]


def test_sixteen_steps_then_a_forced_answer(watching: Callable[..., Any]) -> None:
    def widest(request: Request[Any]) -> dict[str, object]:
        wide = max(request.variables["segments"], key=lambda segment: segment["end"] - segment["start"])
        return {"action": "explore", "segment": wide["segment"]}

    observer, _ = watching({"vca-reward": scores, "vca-explore": widest, "vca-answer": {"answer": "B"}})
    answer = Vca()(QUESTION, observer)
    assert (answer.option, answer.termination) == ("B", Termination.EXHAUSTED)
    stages = [call.stage for call in observer.log.calls]
    assert stages == ["vca-reward", "vca-explore"] * 15 + ["vca-reward", "vca-answer"]
    assert observer.log.frames_supplied == 16 * 7 + (7 + 14 + 13 * 16) + 16
    assert len(answer.record["steps"]) == 16  # type: ignore[arg-type]  a record is made of JSON


@pytest.mark.parametrize("decision", [{"action": "explore", "segment": 99}, {"action": "answer", "answer": "Z"}, {}])
def test_a_decision_that_does_not_validate_explores_the_best_rated(watching: Callable[..., Any], decision: Any) -> None:
    observer, script = watching({"vca-reward": scores, "vca-explore": [decision, ANSWER]})
    assert Vca()(QUESTION, observer).option == "C"
    assert script.of("vca-reward")[1].clips[0].span.start == 105
    assert observer.log.calls[1].fault is not None


def test_ratings_that_do_not_validate_keep_the_parents(watching: Callable[..., Any]) -> None:
    observer, script = watching({"vca-reward": [scores, {"scores": [{"segment": 9}]}], "vca-explore": [best, ANSWER]})
    Vca()(QUESTION, observer)
    parent = next(part for part in script.of("vca-explore")[0].variables["segments"] if part["segment"] == 8)
    children = script.of("vca-explore")[1].variables["segments"][-8:]
    assert {child["relevance"] for child in children} == {parent["relevance"]}


def test_a_segment_too_short_for_new_frames_is_left_behind(watching: Callable[..., Any]) -> None:
    observer, _ = watching({"vca-reward": scores, "vca-explore": best, "vca-answer": {"answer": "A"}})
    answer = Vca(steps=40)(QUESTION, observer)
    assert answer.option == "A"
    assert len(observer.log.timestamps) <= 1200
    assert any(not step["frames"] for step in answer.record["steps"])  # type: ignore[attr-defined]  JSON


@pytest.mark.parametrize("budget", [0, 7, 10, 14, 20, 35, 60])
def test_a_smaller_budget_is_never_passed(watching: Callable[..., Any], budget: int) -> None:
    observer, _ = watching({"vca-reward": scores, "vca-explore": best, "vca-answer": {"answer": "A"}}, budget=budget)
    assert Vca()(QUESTION, observer).option == "A"
    assert observer.log.frames_supplied <= budget
