"""Uniform, vote, blind and random: what they look at, what they pay, and that nothing is ever guessed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from trace_ves.baselines.direct import Random, Uniform, Vote, blind, majority
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


def test_uniform_on_a_short_video_pays_for_each_frame_once(watching: Callable[..., Any]) -> None:
    observer, _ = watching({"direct-answer": {"answer": "A"}})
    Uniform(5000)(QUESTION, observer)
    assert observer.log.frames_supplied == 1200


@pytest.mark.parametrize("said", [{"answer": "E"}, {"answer": "maybe red"}, {}, {"answer": None}])
def test_an_answer_that_is_no_letter_is_no_answer(watching: Callable[..., Any], said: dict[str, object]) -> None:
    observer, _ = watching({"direct-answer": said})
    assert Uniform(4)(QUESTION, observer).option is None


def test_an_open_question_is_answered_in_words(watching: Callable[..., Any]) -> None:
    observer, script = watching({"direct-answer": {"answer": "a red ball"}})
    assert Uniform(4)(OPEN, observer).option == "a red ball"
    assert script.requests[0].variables["options"] == {}


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


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        (["B", "A", "A", "B"], "B"),
        ([None, None], None),
        ([], None),
        (["The cat", "dog", "cat."], "The cat"),
    ],
)
def test_majority(votes: list[str | None], winner: str | None) -> None:
    assert majority(votes) == winner
