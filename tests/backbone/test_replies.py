"""An answer is a letter of the question, words, or null; and two answers are the same by rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trace_ves.backbone.replies import answer_reply, same_answer
from trace_ves.core import Question

CHOICE = Question("q", "v.mp4", "Which?", ("red", "green", "blue"))
OPEN = Question("q", "v.mp4", "What colour?")


@pytest.mark.parametrize("said", ["B", "b", " (b) ", "B.", "**B**"])
def test_a_letter_is_read_in_the_ways_models_write_it(said: str) -> None:
    assert answer_reply(CHOICE).model_validate({"answer": said}).answer == "B"


@pytest.mark.parametrize("said", ["D", "", "AB", "green", 1, ["B"]])
def test_what_is_no_letter_of_the_question_does_not_validate(said: object) -> None:
    with pytest.raises(ValidationError):
        answer_reply(CHOICE).model_validate({"answer": said})


def test_null_is_an_answer_and_a_missing_key_is_not() -> None:
    assert answer_reply(CHOICE).model_validate({"answer": None}).answer is None
    with pytest.raises(ValidationError):
        answer_reply(CHOICE).model_validate({})


def test_the_schema_names_the_letters_so_that_a_provider_can_hold_the_model_to_them() -> None:
    assert ["A", "B", "C"] in [
        part.get("enum") for part in answer_reply(CHOICE).model_json_schema()["properties"]["answer"]["anyOf"]
    ]


def test_an_open_question_takes_words_and_an_empty_answer_is_none() -> None:
    assert answer_reply(OPEN).model_validate({"answer": " dark red "}).answer == "dark red"
    assert answer_reply(OPEN).model_validate({"answer": "  "}).answer is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("A", "A", True),
        ("A", "a", True),
        ("A", "B", False),
        ("A", "the", False),
        ("The red car.", "red  car", True),
        ("red-car", "red car", True),
        ("don't", "dont", True),
        ("ﬁve", "five", True),
        ("-5", "5", False),
        ("3.5", "35", False),
        ("?", "!", False),
        (None, None, False),
        (None, "A", False),
    ],
)
def test_same_answer(one: str | None, other: str | None, same: bool) -> None:
    assert same_answer(one, other) is same
    assert same_answer(other, one) is same


@given(st.text())
def test_every_answer_is_the_same_as_itself(text: str) -> None:
    assert same_answer(text, text)
