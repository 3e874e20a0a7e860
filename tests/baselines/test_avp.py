"""AVP spends what its plans and caps say, keeps text alone, and stops on the reflector's word or after three rounds."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.baselines.avp import FALLBACK_PLAN, Avp, AvpPlan, list_spans
from trace_ves.core import Interval, Question, Termination

QUESTION = Question("q1", "v.mp4", "Which came first?", ("red", "green", "blue", "white"))
WHOLE = {"load_mode": "uniform", "fps": 0.5, "spatial": "low", "regions": [], "completion_criteria": "see it all"}
SEEN = {"description": "a red ball", "key_evidence": [{"start": 10.4, "end": 12.2, "description": "red ball"}]}
UNSURE = {"sufficient": False, "confidence": 0.4, "justification": "the end is missing", "answer": "A"}
SURE = {"sufficient": True, "confidence": 0.7, "justification": "all seen", "answer": "C"}


def test_it_stops_when_the_reflector_is_sufficient_and_sure(watching: Callable[..., Any]) -> None:
    observer, script = watching({"avp-plan": WHOLE, "avp-observe": SEEN, "avp-reflect": SURE})
    answer = Avp()(QUESTION, observer)
    assert (answer.option, answer.termination, answer.bundle) == ("C", Termination.SELF_REPORTED, ())
    assert [call.stage for call in observer.log.calls] == ["avp-plan", "avp-observe", "avp-reflect"]
    assert [len(call.timestamps) for call in observer.log.calls] == [
        0,
        60,
        0,
    ]  # two minutes, a frame every other second
    assert script.of("avp-reflect")[0].variables["evidence"][0]["key_evidence"] == [
        {"start": 10, "end": 13, "description": "red ball"}
    ]


NOT_SURE = [{"confidence": 0.69}, {"sufficient": False}, {"answer": None}, {"sufficient": "perhaps"}]


@pytest.mark.parametrize("reflection", [UNSURE, *(SURE | change for change in NOT_SURE)])
def test_three_rounds_in_vain_force_the_answer_from_text(watching: Callable[..., Any], reflection: Any) -> None:
    replies = {"avp-plan": WHOLE, "avp-observe": SEEN, "avp-reflect": reflection, "avp-answer": {"answer": "D"}}
    observer, script = watching(replies)
    answer = Avp()(QUESTION, observer)
    assert (answer.option, answer.termination) == ("D", Termination.EXHAUSTED)
    stages = [call.stage for call in observer.log.calls]
    assert stages == ["avp-plan", "avp-observe", "avp-reflect"] * 2 + ["avp-plan", "avp-observe", "avp-answer"]
    assert script.of("avp-answer")[0].clips == ()
    assert [len(request.variables["evidence"]) for request in script.of("avp-observe")] == [0, 1, 2]
    assert len(answer.record["rounds"]) == 3  # type: ignore[arg-type]  a record is made of JSON


def test_regions_become_clips_of_one_request(watching: Callable[..., Any]) -> None:
    plan = {"load_mode": "region", "fps": 2, "spatial": "medium", "regions": [[10, 20], [100, 130], [50, 50]]}
    observer, script = watching({"avp-plan": plan, "avp-observe": SEEN, "avp-reflect": SURE})
    Avp()(QUESTION, observer)
    [observed] = script.of("avp-observe")
    assert [clip.span for clip in observed.clips] == [Interval(10, 20), Interval(100, 120), Interval(50, 51)]
    assert [(len(clip.frames), clip.strategy.height) for clip in observed.clips] == [(20, 720), (40, 720), (2, 720)]
    assert all(frame.seconds in clip.span for clip in observed.clips for frame in clip.frames)


@pytest.mark.parametrize(("spatial", "fps", "frames"), [("low", 5.0, 512), ("medium", 5.0, 128), ("medium", 1.0, 120)])
def test_a_clip_has_a_cap_of_frames(watching: Callable[..., Any], spatial: str, fps: float, frames: int) -> None:
    plan = WHOLE | {"fps": fps, "spatial": spatial}
    observer, script = watching({"avp-plan": plan, "avp-observe": SEEN, "avp-reflect": SURE})
    Avp()(QUESTION, observer)
    assert observer.log.frames_supplied == frames
    [clip] = script.of("avp-observe")[0].clips
    assert clip.strategy.fps == pytest.approx(frames / 120, rel=0.01)


@pytest.mark.parametrize("plan", [{}, WHOLE | {"fps": 60}, WHOLE | {"regions": [[float("nan"), 3]]}])
def test_a_plan_that_does_not_parse_is_the_published_fallback(watching: Callable[..., Any], plan: Any) -> None:
    observer, _ = watching({"avp-plan": plan, "avp-observe": SEEN, "avp-reflect": SURE})
    Avp()(QUESTION, observer)
    assert observer.log.frames_supplied == 60
    assert observer.log.calls[0].fault is not None


def test_every_fault_of_the_model_ends_in_no_answer_and_nothing_else(watching: Callable[..., Any]) -> None:
    observer, _ = watching({f"avp-{stage}": {"answer": "Z"} for stage in ("plan", "observe", "reflect", "answer")})
    answer = Avp()(QUESTION, observer)
    assert (answer.option, answer.termination) == (None, Termination.EXHAUSTED)
    assert all(call.fault for call in observer.log.calls)


@pytest.mark.parametrize("budget", [0, 1, 59, 100, 150])
def test_a_smaller_budget_is_spent_and_never_passed(watching: Callable[..., Any], budget: int) -> None:
    replies = {"avp-plan": WHOLE, "avp-observe": SEEN, "avp-reflect": UNSURE, "avp-answer": {"answer": "D"}}
    observer, _ = watching(replies, budget=budget)
    assert Avp()(QUESTION, observer).option == "D"
    assert observer.log.frames_supplied == budget


regions = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=8)


@given(regions, st.floats(0.04, 1e5))
def test_whatever_a_plan_names_lies_inside_the_video(named: list[tuple[float, float]], duration: float) -> None:
    whole = Interval(0, duration)
    spans = list_spans(AvpPlan(load_mode="region", fps=1, spatial="low", regions=named), whole)
    assert spans
    assert all(0 <= span.start <= span.end <= duration for span in spans)
    assert all(span.length >= min(1, duration) * 0.999 for span in spans)


def test_a_region_as_long_as_the_video_is_the_video() -> None:
    whole = Interval(0, 120)
    for start, end in [(0, 120), (1, 119), (119.5, 0.5)]:
        plan = FALLBACK_PLAN.model_copy(update={"load_mode": "region", "regions": [(start, end)]})
        assert list_spans(plan, whole) == (whole,)
