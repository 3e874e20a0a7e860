"""Predictions, calls and items go to JSON and back unchanged; broken ones say what is wrong."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core import Answer, Interval, Question
from trace_ves.records import Call, Item, ObservationLog, Prediction, Usage
from trace_ves.records.base import FieldError, get_text, get_value, quote, validate
from trace_ves.records.item import BenchLine, DirtyEvidenceError
from trace_ves.records.prediction import ClipRecord

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
    outsider = {"question_id": "q1", "answer": None, "timestamps": [1, 1, 2.5]}  # three keys are enough
    assert Prediction.from_json(outsider) == Prediction("q1", None, (1.0, 1.0, 2.5), frames_supplied=3)


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
    endless = LINE | {"duration": None, "evidence": []}
    assert math.isinf(Item.from_json(endless).duration)
    assert Item.from_json(endless).to_json() == endless


def test_paths_find_keys_with_dots_positions_and_templates() -> None:
    record = {"a.b": {"c": 1}, "a": {"c": [10, {"d": "x"}]}, "n": 3.0}
    assert get_value(record, "a.b") == {"c": 1}
    assert get_value(record, "a.c.1.d") == "x"
    assert get_text(record, "{n}-{a.c.1.d}") == "3-x"
    assert get_value([1, 2], "1") == 2


@pytest.mark.parametrize(
    ("record", "path", "keys"),
    [
        ([1, 2], "2", ""),
        ([1, 2], "-1", ""),
        ({}, "a", ""),
        ({"x" * 41: 1}, "a", f"; it has {'x' * 40}"),
        ({"a": {"b": 1}, "c.d": 2}, "a.c", "; it has a, c.d"),
        ({"a": [1]}, "a.1", "; it has a"),
        ({"a": 1}, "a.0", "; it has a"),
        (dict.fromkeys("abcdefgh"), "z", "; it has a, b, c, d, e, f, g, h"),
        (dict.fromkeys("abcdefghi"), "z", "; it has a, b, c, d, e, f, g, h, …"),
    ],
)
def test_a_path_that_leads_nowhere_is_named(record: object, path: str, keys: str) -> None:
    with pytest.raises(FieldError) as caught:
        get_value(record, path)
    assert str(caught.value) == f"there is no '{path}' in this row{keys}"


REVERSED, EMPTY = "is reversed", "has no length"
BEFORE, AFTER = "starts before the video", "ends after the video, which has 100 s"


@pytest.mark.parametrize(
    ("start", "end", "precision", "expected"),
    [
        (0, 100, None, (0, 100)),
        (-1, 5, 0, (0, 5)),
        (-1.001, 5, 0, BEFORE),
        (-1, 0, 0, BEFORE),
        (-1, 0.001, 0, (0, 0.001)),
        (99.5, 101, 0, (99.5, 101)),
        (99.5, 101.001, 0, AFTER),
        (99.999, 100.5, 0, (99.999, 100.5)),
        (100, 100.5, 0, AFTER),
        (99.5, 101, 0.5, (99.5, 101)),
        (100.499, 101, 0.5, (100.499, 101)),
        (100.5, 101, 0.5, AFTER),
        (50, 160, 60, (50, 160)),
        (50, 160.5, 60, AFTER),
        (50, 101.5, -60, AFTER),
        (7.5, 7.25, 0, REVERSED),
        (7.5, 7.5, 0, EMPTY),
        (200, 150, 0, REVERSED),
    ],
)
def test_evidence_at_the_ends_of_a_video(start: float, end: float, precision: Any, expected: object) -> None:
    line = LINE | {"evidence": [[1, 2], [start, end]], "duration_precision": precision}
    if isinstance(expected, str):
        with pytest.raises(DirtyEvidenceError) as caught:
            Item.from_json(line)
        assert str(caught.value) == f"evidence interval {start:g}-{end:g} s {expected}"
    else:
        found = Item.from_json(line)
        assert [(each.start, each.end) for each in found.evidence] == [(1, 2), expected]
        assert found.slack_seconds == max(1, precision or 0)


@pytest.mark.parametrize(
    ("end", "precision", "passes"),
    [
        (100, None, False),
        (100.0000005, None, False),
        (100.000002, None, True),
        (100.5, 0.5, False),
        (100.501, 0.5, True),
    ],
)
def test_evidence_that_passes_an_end_is_told(end: float, precision: float | None, passes: bool) -> None:
    line = LINE | {"duration_precision": precision}
    for evidence, expected in (([[0, end]], passes), ([[0, 9], [9, end]], passes), ([[-0.001, 9]], True), ([], False)):
        assert BenchLine.from_json(line | {"evidence": evidence}).passes_an_end is expected


OPEN = {"options": [], "accepted": ["2"]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"answer": " b\n"}, ("B", 2, None)),
        ({"answer": "a"}, ("A", 2, None)),
        ({"options": ["x"] * 26, "answer": "z"}, ("Z", 26, None)),
        ({"accepted": ["2"]}, ("B", 2, None)),
        (OPEN | {"answer": " Two "}, ("Two", 0, ("2",))),
        (OPEN | {"accepted": []}, ("B", 0, ())),
        (OPEN | {"answer": " "}, "'answer' is empty"),
        ({"options": []}, "'options' must hold 2 to 26 options, found 0"),
        ({"options": ["1"]}, "'options' must hold 2 to 26 options, found 1"),
        ({"options": ["1"] * 27}, "'options' must hold 2 to 26 options, found 27"),
        ({"answer": "AB"}, "'answer' must be one of A-B, found 'AB'"),
        ({"answer": ""}, "'answer' must be one of A-B, found ''"),
        ({"options": ["x"] * 4, "answer": "E"}, "'answer' must be one of A-D, found 'E'"),
        ({"duration": 0.5, "evidence": []}, ("B", 2, None)),
        ({"duration": 0}, "'duration' must be more than 0 seconds, found 0.0"),
        ({"duration": -1}, "'duration' must be more than 0 seconds, found -1.0"),
        ({"duration": None}, "the key 'duration' is missing, and a question with evidence needs it"),
        ({"evidence": [[1]]}, "an evidence interval needs two numbers, start and end, found [1.0]"),
        ({"evidence": [[1, 2, 3]]}, "an evidence interval needs two numbers, start and end, found [1.0, 2.0, 3.0]"),
        ({"evidence": [[1, None]]}, "'evidence[0][1]' must be a number, found null None"),
        ({"answer": 1}, "'answer' must be a string, found a number 1"),
        ({"id": " "}, "'id' is empty"),
        ({"options": "ab"}, "'options' must be an array, found a string 'ab'"),
        ({"duration": math.inf}, "'duration' must be a finite number, found inf"),
        ({"duration": 10**400}, f"'duration' must be a finite number, found 1{'0' * 58}…"),
    ],
)
def test_the_rules_of_a_bench_line(change: dict[str, object], expected: object) -> None:
    if isinstance(expected, str):
        with pytest.raises(FieldError) as caught:
            Item.from_json(LINE | change)
        assert (type(caught.value), str(caught.value)) == (FieldError, expected)
    else:
        found = Item.from_json(LINE | change)
        assert (found.answer, len(found.question.options), found.accepted) == expected


CLIP = {"span": [1, 2.5], "fps": 2, "height": 36.0, "timestamps": [1.5]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"span": [1]}, "'span' must be two numbers, start and end"),
        ({"span": [1, 2, 3]}, "'span' must be two numbers, start and end"),
        ({"span": [1, True]}, "'span' must be two numbers, start and end"),
        ({"span": "12"}, "'span' must be two numbers, start and end"),
        ({"span": [1, 10**400]}, "'span' must be two finite numbers"),
        ({"fps": math.inf}, "'fps' must be a finite number, found inf"),
        ({"fps": 0}, "'fps' must be more than 0, found a number 0"),
        ({"height": 0}, "'height' must be more than 0, found a number 0"),
        ({"height": 1.5}, "'height' must be a whole number from 0 up, found a number 1.5"),
        ({"height": -1}, "'height' must be a whole number from 0 up, found a number -1"),
        ({"timestamps": 7}, "'timestamps' must be an array, found a number 7"),
        ({"other": 7}, "'other': Unexpected keyword argument, found 7"),
    ],
)
def test_the_rules_of_a_clip(change: dict[str, object], words: str) -> None:
    assert ClipRecord.from_json(CLIP) == ClipRecord(Interval(1, 2.5), 2.0, 36, (1.5,))
    with pytest.raises(FieldError) as caught:
        ClipRecord.from_json(CLIP | change)
    assert str(caught.value) == words


def test_a_value_alone_is_named_by_its_key_or_as_the_value() -> None:
    assert validate(int, 3) == 3
    assert [quote("x" * length) for length in (58, 59)] == [f"'{'x' * 58}'", f"'{'x' * 58}…"]
    for key, words in (("", "the value must be"), ("here", "'here' must be")):
        with pytest.raises(FieldError, match=rf"^{words} a string, found a number 3$"):
            validate(str, 3, key)
    for record, words in ([], "the value must be an object, found an array []"), ({}, "the key 'span' is missing"):
        with pytest.raises(FieldError) as caught:
            ClipRecord.from_json(record)
        assert str(caught.value) == words
    with pytest.raises(FieldError, match=r"^the key 'span' is missing in here$"):
        validate(ClipRecord, {}, "here")


@pytest.mark.parametrize("value", [True, None, 1.5, [1], {"a": 1}])
def test_only_text_and_whole_numbers_are_text(value: object) -> None:
    assert [get_text({"a": each}, "a") for each in ("x", 0, -3, 2.0)] == ["x", "0", "-3", "2"]
    for path in ("a", "<{a}>"):
        with pytest.raises(FieldError) as caught:
            get_text({"a": value}, path)
        assert str(caught.value) == f"'a' must be text or a whole number, found {value!r}"
