"""Records compare by meaning: wording alone never blocks a stop, and what is told apart by meaning still does."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_budget import ClockVideo
from tests.agent.test_trajectory_reconciler import found, record
from trace_ves.agent.anchors import Inquiry
from trace_ves.agent.comparison import Wordings, mark_completeness, match_value, same_words, unify_wordings
from trace_ves.backbone.protocol import ModelFault, Request, ScriptedBackbone
from trace_ves.core import Interval, Question
from trace_ves.observer import Observer
from trace_ves.records.search import AtLeast, Claim, ClaimKind, PrefixRecord

CHOICE = Question("q", "v.mp4", "What colour is the car?", ("red", "blue"))
OPEN = Question("q", "v.mp4", "What does the man do?")
FREE = Claim("c1", "the colour of the car")
CLOSED = replace(FREE, values=("red", "blue"))
MEANINGS = {
    "frightened": ("He is frightened.", "frightened", "the man is FRIGHTENED!", "a very frightened man"),
    "scared": ("scared", "he looks scared to me"),
    "asleep": ("asleep", "He is sleeping", "fast asleep, in a chair"),
}
SAME = {"scared": "frightened"}
"""What a model knows and no rule does: scared is frightened."""


def meaning(words: str) -> str:
    name = next(name for name, wordings in MEANINGS.items() if words in wordings)
    return SAME.get(name, name)


def inquiry(question: Question, claims: tuple[Claim, ...] = (FREE,)) -> Inquiry:
    def model(request: Request[Any]) -> Any:
        known = request.variables["known"]
        same = (n for n, words in known.items() if meaning(words) == meaning(request.variables["answer"]))
        return request.reply.model_validate({"same_as": next(same, None)})

    return Inquiry(question, claims, Observer(ClockVideo(60), ScriptedBackbone(model)))


def stop(asked: Inquiry, *trajectory: PrefixRecord) -> int | None:
    return found(*unify_wordings(trajectory, asked.claims, Wordings(asked))).stable_prefix


ALIKE = [("Blue", "blue."), ("blue", "light blue"), ("the blue car", "a car, blue")]
UNLIKE = [("blue", "not blue"), ("two dogs", "dogs"), ("3 dogs", "4 dogs"), ("red", "blue"), ("red car", "red bus")]


@pytest.mark.parametrize(("one", "other"), ALIKE + UNLIKE)
def test_two_wordings_by_rule(one: str, other: str) -> None:
    assert same_words(one, other) is same_words(other, one) is ((one, other) in ALIKE)


@pytest.mark.parametrize(
    ("said", "value"),
    [("Blue!", "blue"), ("a light blue", "blue"), ("green", None), ("red or blue", None), ("not blue", None)],
)
def test_a_closed_claim_has_one_of_its_values_however_it_was_worded(said: str, value: str | None) -> None:
    assert match_value(said, ("red", "blue")) == value


def test_two_closed_values_are_a_conflict_and_two_meanings_of_an_open_answer_a_flip() -> None:
    assert stop(inquiry(OPEN), record("He is frightened."), record("asleep")) == 1
    assert not Wordings(inquiry(OPEN)).agree("frightened", "asleep")
    closed = inquiry(CHOICE, (CLOSED,))
    tau = (record("B", c1="red"), record("B", c1="blue"))
    assert found(*unify_wordings(tau, closed.claims, Wordings(closed))).conflicts == {"a2"}


@given(st.sampled_from("AB"), st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=6))
def test_no_wording_of_a_fact_blocks_a_stop_on_one_option(letter: str, values: list[str]) -> None:
    assert stop(inquiry(CHOICE), *(record(letter, c1=value) for value in values)) == 0


@given(st.sampled_from(["frightened", "asleep"]), st.data())
def test_no_paraphrase_of_an_open_answer_blocks_a_stop(meant: str, data: st.DataObject) -> None:
    wordings = [words for name, known in MEANINGS.items() for words in known if SAME.get(name, name) == meant]
    said = data.draw(st.lists(st.sampled_from(wordings), min_size=1, max_size=6))
    facts = data.draw(st.lists(st.sampled_from(wordings), min_size=len(said), max_size=len(said)))
    asked = inquiry(OPEN)
    assert stop(asked, *(record(words, c1=fact) for words, fact in zip(said, facts, strict=True))) == 0
    assert Wordings(asked).agree(said[0], said[-1])


def test_other_words_are_another_value_only_where_the_answer_is_another() -> None:
    tau = (record("A", c1="red"), record(None, c1="crimson"), record("A", c1="ruby"), record("B", c1="scarlet"))
    unified = unify_wordings(tau, (FREE,), Wordings(inquiry(CHOICE)))
    assert [each.facts["c1"] for each in unified] == ["red", "red", "red", "scarlet"]


def test_the_model_is_asked_only_where_rules_cannot_tell_and_once() -> None:
    asked = inquiry(OPEN)
    wordings = Wordings(asked)
    for words in ("frightened", "He is frightened.", "scared", "scared", "he looks scared to me"):
        assert wordings.first_wording(words) == "frightened"
    assert [call.stage for call in asked.observer.log.calls] == ["same-answer", "same-answer"]
    assert asked.observer.log.frames_supplied == 0
    letters = inquiry(CHOICE)
    assert Wordings(letters).first_wording("A") == "A"
    assert not letters.observer.log.calls


@pytest.mark.parametrize(("number", "same"), [(1, "frightened"), (2, "asleep")])
def test_the_number_that_a_model_names_is_that_of_the_answer_it_was_shown(number: int, same: str) -> None:
    replies = iter([None, number])
    model = ScriptedBackbone(lambda _: {"same_as": next(replies)})
    wordings = Wordings(Inquiry(OPEN, (FREE,), Observer(ClockVideo(60), model)))
    assert [wordings.first_wording(words) for words in ("frightened", "asleep")] == ["frightened", "asleep"]
    assert wordings.first_wording("something else") == same


@pytest.mark.parametrize("reply", [ModelFault("nonsense"), {"same_as": 0}, {"same_as": 7}, {"same_as": None}])
def test_a_comparison_that_cannot_be_read_makes_nothing_the_same(reply: Any) -> None:
    def model(request: Request[Any]) -> Any:
        return reply if isinstance(reply, ModelFault) else request.reply.model_validate(reply)

    wordings = Wordings(Inquiry(OPEN, (FREE,), Observer(ClockVideo(60), ScriptedBackbone(model))))
    assert not wordings.agree("frightened", "scared")
    assert not wordings.agree(None, None)


COUNT = (Claim("count", "how many", ClaimKind.COUNT), Claim("complete", "all found", ClaimKind.EXPLORED))


def test_a_count_is_open_until_everything_is_explored_and_nothing_can_have_been_counted_twice() -> None:
    apart = record("A", place="here", count=AtLeast(2, (Interval(5, 9), Interval(20, 30))))
    tau = (apart, record("A", count=AtLeast(2)))
    for explored, elsewhere, first in (
        (False, (15,), {"complete"}),
        (True, (3, 7, 40), {"complete"}),  # nothing was seen between them
        (True, (15,), set()),
    ):
        seen = mark_completeness(tau, COUNT, explored=explored, elsewhere=elsewhere)
        assert [each.unmet_needs for each in seen] == [first, {"complete"}]  # a number alone tells nothing apart
    assert mark_completeness(tau, (FREE,), explored=False) == tau  # no count
