"""Questions of one session share the storyboard's notes, and each answer counts the frames that it rests on."""

from typing import Any

import pytest

from tests.agent.conftest import QUESTION, Observing, Witness
from trace_ves.agent import TRACE, VARIANTS
from trace_ves.observer import Memory, Observer


def asked(observing: Observing, memory: Memory | None, method: str = "trace", **said: Any) -> tuple[Witness, Observer]:
    """Ask the question; `said` replaces the model's proposal."""
    observer = observing(witness := Witness({"temporal-proposal": said} if said else None))
    observer.memory = memory
    assert VARIANTS[method](QUESTION, observer).option is not None
    return witness, observer


def test_a_later_question_is_not_shown_the_storyboard_and_counts_it_all_the_same(observing: Observing) -> None:
    _, without = asked(observing, None)
    memory = Memory()
    first, _ = asked(observing, memory)
    second, observer = asked(observing, memory)
    assert [len(request.clips) for request in first.of("temporal-proposal")] == [1]
    assert [len(request.clips) for request in second.of("temporal-proposal")] == [0]
    assert second.of("temporal-proposal")[0].variables["notes"] == [
        {"start": 0, "end": 325, "note": "day", "promising": True}
    ]
    recalled, *calls = observer.log.calls
    assert recalled.remembered is True
    assert recalled.stage == "temporal-proposal"
    assert recalled.timestamps == without.log.calls[0].timestamps
    assert not any(call.remembered for call in calls)
    # what the answer rests on is the same as if it had been asked alone, and so is what it may still look at
    assert observer.log.timestamps == without.log.timestamps
    assert observer.log.frames_supplied == without.log.frames_supplied
    assert observer.remaining == without.remaining
    assert len(observer.transcript("q").calls) == len(observer.log.calls)


def test_what_was_not_promising_for_one_question_may_be_for_the_next(observing: Observing) -> None:
    memory = Memory()
    dull = [{"start": 0, "end": 650, "note": "grey", "promising": False}]
    asked(observing, memory, notes=dull, candidates=[{"start": 65, "end": 80}])
    second = observing(witness := Witness())
    second.memory = memory
    answer = TRACE(QUESTION, second)
    assert [note["promising"] for note in answer.record["notes"]] == [True]
    [whole] = witness.of("temporal-proposal")[0].variables["unexplored_segments"]
    assert whole == {"start": 0.0, "end": 650.0}


@pytest.mark.parametrize("method", ["trace-without-expand", "trace-resupply-storyboard"])
def test_variants_that_must_see_the_storyboard_are_shown_it_again(observing: Observing, method: str) -> None:
    memory = Memory()
    asked(observing, memory, "trace")
    witness, observer = asked(observing, memory, method)
    assert len(witness.of("temporal-proposal")[0].clips) == 1
    assert not any(call.remembered for call in observer.log.calls)


def test_a_model_that_made_no_notes_is_shown_the_storyboard_again(observing: Observing) -> None:
    memory = Memory()
    for _ in range(2):
        silent, _ = asked(observing, memory, candidates=[{"start": 65, "end": 80}])
        assert len(silent.of("temporal-proposal")[0].clips) == 1
