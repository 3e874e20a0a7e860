"""Uniform, vote, blind and random: what they look at, what they pay, and that nothing is ever guessed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from trace_ves.baselines.direct import Random, Uniform, Vote, blind, find_majority
from trace_ves.core import Question, Termination, centred_uniform

QUESTION = Question("q1", "v.mp4", "Which came first?", ("red", "green", "blue", "white"))
OPEN = Question("q2", "v.mp4", "What came first?")


@pytest.mark.parametrize("count", [1, 16, 64])
def test_uniform_supplies_its_frames_once_on_the_canonical_schedule(watching: Callable[..., Any], count: int) -> None:
    observer, script = watching({"direct-answer": {"answer": "C"}})
    answer = Uniform(count)(QUESTION, observer)
    assert (answer.option, answer.termination) == ("C", Termination.SINGLE_PASS)
    [call] = observer.log.calls
    assert call.stage == "direct-answer"
    assert observer.log.frames_supplied == len(observer.log.timestamps) == count
    for wanted, seen in zip(centred_uniform(observer.whole, count), call.timestamps, strict=True):
        assert wanted - 0.1 < seen <= wanted  # the frame on screen then
    assert answer.bundle[0].frames == script.requests[0].clips[0].frames
    assert script.requests[0].variables == {
        "question": "Which came first?",
        "options": {"A": "red", "B": "green", "C": "blue", "D": "white"},
    }


@pytest.mark.parametrize("said", [{"answer": "E"}, {"answer": "maybe red"}, {}, {"answer": None}, {"answer": "D"}])
def test_an_answer_that_is_no_letter_is_no_answer(watching: Callable[..., Any], said: dict[str, object]) -> None:
    observer, script = watching({"direct-answer": [said, {"answer": "a red ball"}]})
    assert Uniform(5000)(QUESTION, observer).option == ("D" if said == {"answer": "D"} else None)
    assert observer.log.frames_supplied == 1200  # each frame of a short video once
    assert Uniform(4)(OPEN, observer).option == "a red ball"
    assert script.requests[1].variables["options"] == {}


def test_blind_supplies_nothing(watching: Callable[..., Any]) -> None:
    observer, script = watching({"direct-answer": {"answer": "B"}})
    assert blind(QUESTION, observer).option == "B"
    assert observer.log.frames_supplied == 0
    assert script.requests[0].clips == ()


def test_random_asks_nobody_and_depends_on_seed_and_question_alone(watching: Callable[..., Any]) -> None:
    observer, script = watching({})
    questions = [Question(f"q{number}", "v.mp4", "?", QUESTION.options) for number in range(400)]
    drawn = [Random(3)(question, observer).option for question in questions]
    assert drawn[::-1] == [Random(3)(question, observer).option for question in questions[::-1]]
    assert drawn != [Random(4)(question, observer).option for question in questions]
    assert all(70 <= count <= 130 for count in Counter(drawn).values())
    assert Random()(OPEN, observer).option is None
    assert script.requests == []


def test_vote_draws_over_the_same_frames_and_pays_for_every_draw(watching: Callable[..., Any]) -> None:
    observer, script = watching({"direct-answer": [{"answer": letter} for letter in ["B", "A", None, "A", "E"]]})
    answer = Vote(5, frames=8)(QUESTION, observer)
    assert answer.option == "A"
    assert answer.record == {"votes": ["B", "A", None, "A", None]}
    assert observer.log.frames_supplied == 40
    assert len(observer.log.timestamps) == 8
    assert [request.sample for request in script.requests] == [1, 2, 3, 4, 5]


def test_a_majority_is_of_what_was_said_and_the_first_of_two_that_are_even() -> None:
    votes: list[list[str | None]] = [["B", "A", "A", "B"], [None, None], [], ["The cat", "dog", "cat."]]
    assert [find_majority(each) for each in votes] == ["B", None, None, "The cat"]
