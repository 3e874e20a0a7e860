"""Predictions, calls and items go to JSON and back unchanged; broken ones say what is wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core import Answer, Interval, Question
from trace_ves.records import Call, Item, ObservationLog, Prediction, Usage
from trace_ves.records.base import FieldError, shown, text_at, value_at
from trace_ves.records.item import BenchLine, DirtyEvidenceError

SECONDS = st.floats(0, 1e5, allow_nan=False)
COUNTS = st.integers(0, 10**6)
WORDS = st.text(min_size=1, max_size=8).filter(str.strip)
CALLS = st.builds(
    Call,
    stage=WORDS,
    timestamps=st.lists(SECONDS, max_size=4).map(tuple),
    heights=st.lists(COUNTS, max_size=4).map(tuple),
    usage=st.builds(Usage, COUNTS, COUNTS, COUNTS),
    seconds=SECONDS,
    fault=st.none() | WORDS,
)
PREDICTIONS = st.builds(
    Prediction,
    question_id=WORDS,
    answer=st.none() | WORDS,
    timestamps=st.lists(SECONDS, max_size=4).map(tuple),
    frames_supplied=COUNTS,
    method=WORDS,
    backbone=st.text(max_size=4),
    termination=st.none() | WORDS,
    observations=st.lists(CALLS, max_size=3).map(tuple),
    trajectory=st.dictionaries(WORDS, COUNTS, max_size=2),
    bundle=st.lists(st.dictionaries(WORDS, COUNTS, min_size=1, max_size=2), max_size=2).map(tuple),
    usage=st.builds(Usage, COUNTS, COUNTS, COUNTS),
    seconds=SECONDS,
    error=st.none() | WORDS,
    extra=st.just({"my_key": [1, {"a": None}]}),
)


@given(PREDICTIONS)
def test_a_prediction_goes_round(prediction: Any) -> None:
    assert Prediction.from_json(prediction.to_json()) == prediction


def test_a_line_is_what_was_answered_and_seen_and_its_summary_what_it_cost() -> None:
    log = ObservationLog((Call("look", (1.0, 2.0), (36, 36), Usage(5, 0, 1), undetermined=True),))
    facts: Any = {"method": "m", "backbone": "b", "seconds": 2.0}
    question = Question("q", "v.mp4", "?", ("x", "y"))
    line = Prediction.of(question, Answer("A", record={"kind": "mine"}), log, **facts)
    known: Any = {"frames_supplied": 2, "termination": "single-pass", "usage": Usage(5, 0, 1), "undetermined": True}
    assert line == Prediction(
        "q", "A", (1.0, 2.0), observations=log.calls, trajectory={"kind": "mine"}, **facts, **known
    )
    assert not Prediction.of(question, Answer(None), log, **facts).undetermined
    cost = Call("look", usage=Usage(5, 0, 1), undetermined=True)
    whole = replace(line, bundle=({"a": 1},), extra={"b": 2})
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
    assert whole.summary() == Prediction("q", "A", observations=(cost,), **facts, **known)


def test_a_value_in_a_message_has_up_to_sixty_characters() -> None:
    assert [shown("x" * length) for length in (58, 59)] == [f"'{'x' * 58}'", f"'{'x' * 58}…"]


def test_an_outsiders_line_needs_three_keys() -> None:
    line = {"question_id": "q1", "answer": None, "timestamps": [1, 1, 2.5]}
    assert Prediction.from_json(line) == Prediction("q1", None, (1.0, 1.0, 2.5), frames_supplied=3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"question_id": 7}, "'question_id' must be a string, found a number 7"),
        ({"question_id": " "}, "'question_id' is empty"),
        ({"answer": 2}, "'answer' must be a string"),
        ({"timestamps": None}, "'timestamps' must be an array, found null"),
        ({"timestamps": "1"}, "must be an array, found a string"),
        ({"timestamps": [1, "2"]}, r"'timestamps\[1\]' must be a number, found a string '2'"),
        ({"timestamps": [True]}, "found a boolean True"),
        ({"timestamps": [math.nan]}, "must be a finite number, found nan"),
        ({"timestamps": [10**400]}, "must be a finite number"),
        ({"frames_supplied": -1}, "whole number from 0 up"),
        ({"frames_supplied": 1.5}, "whole number from 0 up"),
        ({"frames_supplied": True}, "whole number from 0 up"),
        ({"observations": [1]}, "must be an object"),
        ({"observations": [{}]}, r"the key 'stage' is missing in observations\[0\]"),
        ({"usage": {"input_tokens": "1"}}, "input_tokens"),
        ({"question_id": ...}, "'question_id' is missing"),
        ({"answer": ...}, "'answer' is missing"),
        ({"timestamps": ...}, "'timestamps' is missing"),
    ],
)
def test_a_wrong_type_or_a_missing_key_is_named(change: dict[str, object], words: str) -> None:
    line = {"question_id": "q1", "answer": "A", "timestamps": []} | change
    with pytest.raises(FieldError, match=words):
        Prediction.from_json({key: value for key, value in line.items() if value is not ...})


LINE = {
    "id": "q1",
    "video": "videos/a.mp4",
    "duration": 100.0,
    "family": "event-counting",
    "question": "How many?",
    "options": ["1", "2"],
    "answer": "B",
    "evidence": [[0.0, 10.0], [5.0, 100.0]],
}


def test_an_item_goes_round_with_its_unknown_keys() -> None:
    item = Item(
        Question("q1", "videos/a.mp4", "How many?", ("1", "2"), "event-counting"),
        "B",
        (Interval(0, 10), Interval(5, 100)),
        100.0,
        {"source": "ego4d"},
    )
    assert item.to_json() == LINE | {"source": "ego4d"}
    assert Item.from_json(item.to_json()) == item
    asked = replace(item, question=replace(item.question, options=()), answer="two", accepted=("2",))
    assert Item.from_json(asked.to_json()) == asked


def test_a_bench_without_durations_goes_round() -> None:
    line = LINE | {"duration": None, "evidence": []}
    assert math.isinf(Item.from_json(line).duration)
    assert Item.from_json(line).to_json() == line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"options": ["1"]}, "2 to 26 options, found 1"),
        ({"options": ["x"] * 27}, "2 to 26 options, found 27"),
        ({"answer": "C"}, "one of A-B, found 'C'"),
        ({"answer": 1}, "'answer' must be a string"),
        ({"duration": 0}, "more than 0 seconds"),
        ({"duration": None}, "'duration' is missing"),
        ({"evidence": [[1.0]]}, "two numbers"),
        ({"evidence": [["a", "b"]]}, "must be a number"),
        ({"id": 3}, "'id' must be a string"),
    ],
)
def test_a_broken_item_is_named(change: dict[str, object], words: list[str]) -> None:
    with pytest.raises(FieldError, match=words) as caught:
        Item.from_json(LINE | change)
    assert not isinstance(caught.value, DirtyEvidenceError)


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ([10.0, 5.0], "is reversed"),
        ([5.0, 5.0], "has no length"),
        ([-1.5, 5.0], "starts before the video"),
        ([90.0, 101.5], "ends after the video, which has 100 s"),
    ],
)
def test_dirty_evidence_is_told_apart(interval: Any, words: list[str]) -> None:
    with pytest.raises(DirtyEvidenceError, match=words):
        Item.from_json(LINE | {"evidence": [[0.0, 1.0], interval]})


def test_a_rounded_duration_gives_its_slack() -> None:
    line = LINE | {"evidence": [[90.0, 130.0]], "duration_precision": 60.0}
    assert Item.from_json(line).evidence == (Interval(90, 130),)
    assert not BenchLine.from_json(LINE).passes_an_end
    assert BenchLine.from_json(LINE | {"evidence": [[-0.5, 5.0], [6.0, 7.0]]}).passes_an_end
    assert Item.from_json(LINE | {"evidence": [[90.0, 101.0]]}).evidence == (Interval(90, 101),)


def test_paths_find_keys_with_dots_positions_and_templates() -> None:
    record = {"a.b": {"c": 1}, "a": {"c": [10, {"d": "x"}]}, "n": 3.0}
    assert value_at(record, "a.b") == {"c": 1}
    assert value_at(record, "a.c.1.d") == "x"
    assert text_at(record, "{n}-{a.c.1.d}") == "3-x"
    for missing in ("z", "a.c.2", "n.0"):
        with pytest.raises(FieldError, match=rf"there is no '{missing}' in this row; it has a\.b, a, n"):
            value_at(record, missing)
    for count, more in ((8, ""), (9, ", …")):
        with pytest.raises(FieldError, match=rf"it has 0, 1, 2, 3, 4, 5, 6, 7{more}$"):
            value_at({str(key): 0 for key in range(count)}, "z")
