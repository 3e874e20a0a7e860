"""Searches, saved answers and counterfactual checks go to JSON and back, those of version 0.1.0 as what they said."""

import json
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.records.test_schemas import FILES

from trace_ves.core import Interval, ObservationStrategy, Question
from trace_ves.records import Call, ClipRecord, Prediction
from trace_ves.records.base import FieldError
from trace_ves.records.counterfactual import CLIPS, Masked, Outcome
from trace_ves.records.disk_cache import Checksum
from trace_ves.records.prediction import SavedAnswer
from trace_ves.records.search import AvpPlan, AvpRecord, TraceRecord, VcaRecord, read_search

KINDS = {TraceRecord: "trace", AvpRecord: "avp", VcaRecord: "vca"}

seconds = st.floats(0, 1e5)
spans = st.tuples(seconds, seconds).map(lambda ends: Interval(min(ends), max(ends)))
looks = st.builds(ObservationStrategy, st.floats(0.1, 60), st.integers(1, 2160))
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5),
    int: st.integers(0, 10**9),
    float: seconds,
    bool: st.booleans(),
    type(None): st.none(),
    Interval: spans,
    ObservationStrategy: looks,
    ClipRecord: st.builds(
        lambda span, look, seen: ClipRecord(span, look.fps, look.height, tuple(seen)),
        spans,
        looks,
        st.lists(seconds, max_size=3),
    ),
    AvpPlan: st.builds(
        AvpPlan,
        load_mode=st.sampled_from(["uniform", "region"]),
        fps=st.floats(0.1, 5),
        spatial=st.sampled_from(["low", "medium"]),
        regions=st.lists(st.tuples(seconds, seconds), max_size=2),
    ),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911  one for each shape of a type
    """Any value of a field's type; constraints are those of the simple types above."""
    inner = get_args(kind)
    if kind in SIMPLE:
        return SIMPLE[kind]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{each.name: values_of(hints[each.name]) for each in fields(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if get_origin(kind) is Literal:
        return st.sampled_from(inner)
    if get_origin(kind) is tuple:
        return st.lists(values_of(inner[0]), max_size=2).map(tuple)
    if get_origin(kind) is frozenset:
        return st.frozensets(values_of(inner[0]), max_size=2)
    if get_origin(kind) is dict:
        return st.dictionaries(values_of(inner[0]), values_of(inner[1]), max_size=2)
    return st.one_of(*map(values_of, inner))


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=list(HealthCheck), max_examples=60, deadline=None)
@given(data=st.data())
def test_a_search_goes_round(kind: Any, data: st.DataObject) -> None:
    record = data.draw(values_of(kind))
    written = json.loads(json.dumps(record.to_json(), allow_nan=False))
    assert written["kind"] == KINDS[kind]
    assert read_search(written) == record
    assert kind.from_json(written) == record


@pytest.mark.parametrize("line", FILES["run-line"], ids=lambda line: f"{line['method']}-{line['question_id']}")
def test_a_line_of_version_0_1_0_is_read_and_written_as_it_was(line: dict[str, Any]) -> None:
    assert Prediction.from_json(line).to_json() == line
    kind = line["method"].split("-")[0]
    found = read_search(line.get("trajectory", {}))
    assert (found is not None) == (kind in {"trace", "avp", "vca"})
    assert found is None or holds(found.to_json(), line["trajectory"] | {"kind": kind})


def holds(now: Any, then: Any) -> bool:
    """Whether everything of then is there as it was; later versions may have added keys."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(key in now and holds(now[key], then[key]) for key in then)
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(holds, now, then))
    return bool(now == then)


REAL = next(
    line["trajectory"] for line in FILES["run-line"] if (line["method"], line["backbone"]) == ("trace", "glance")
)


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        {"claims": deep(5000)},
        {"rounds": deep(5000)},
        {"rounds": [None] * 100_000},
        {"claims": [{"id": "a", "text": "b", "kind": "rumour"}]},
        {"stable_prefix": [10**400]},
        {"notes": [{"start": float("inf"), "end": 1, "note": ""}]},
        {"notes": [{"start": 10**400, "end": 1, "note": ""}]},
        {"storyboard": {"span": [5, 1], "fps": 1, "height": 360, "timestamps": []}},
        {"storyboard": {"span": [0, 1], "fps": 0, "height": 360, "timestamps": []}},
        {"fallback": {"prefix": ["a"], "answer": "A", "agrees": "yes"}},
        {"kind": "avp"},
        {"kind": "vca"},
        {"kind": "another"},
        {"kind": None},
        {"kind": ["trace"]},
        {"kind": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_validate_is_the_methods_own_record(change: dict[str, Any]) -> None:
    assert read_search(REAL) is not None
    assert read_search(REAL | change) is None


@pytest.mark.parametrize("record", [{}, {"votes": ["A", "B"]}, {"rounds": []}, {"steps": []}, {"kind": "trace"}])
def test_a_record_without_our_keys_is_never_an_error(record: dict[str, Any]) -> None:
    found = read_search(record)
    assert found is None or found.to_json().items() >= record.items()


def test_an_outcome_goes_round_but_for_its_error() -> None:
    masked = Masked(Interval(1, 2), (1.0, 1.5), (8.0, 9.0), "B", changed=True)
    outcome = Outcome("q", "A", "A", masked, None, (Call("replay", (1.0,)),), backbone="b", seed=-3)
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
    assert "error" not in Outcome("q", "A", None, error="no video").to_json()


@pytest.mark.parametrize("line", FILES["counterfactual-line"], ids=lambda line: line["question_id"])
def test_an_outcome_of_version_0_1_0_is_read(line: dict[str, Any]) -> None:
    expected = line | {"control_of": CLIPS}
    for name in ("evidence", "control"):
        if line[name] is not None and line[name]["answer"] is None:
            expected |= {name: line[name] | {"changed": False}}  # no answer is no change
    assert Outcome.from_json(line).to_json() == expected


[SAVED] = FILES["saved-answer"]


@pytest.mark.parametrize("noted", [None, Checksum(9, "ab" * 32)])
@pytest.mark.parametrize(("letter", "text", "stable"), [("A", "one", True), (None, None, False)])
def test_a_saved_answer_goes_round(noted: Checksum | None, letter: str | None, text: str | None, stable: bool) -> None:
    question = Question("ask", "films/a.mp4", "Which?", ("one", "two"))
    calls, method = (Call("x", (1.0, 2.0)),), ("trace", "glance", "single-pass")
    prediction = Prediction("ask", letter, (1.0, 2.0), 2, *method, calls, {"kind": "mine"}, seconds=1.5)
    if noted:
        prediction = replace(prediction, extra={"video": noted.to_json()})
    saved = SavedAnswer.of(question, 60.0, prediction, text=text, stable=stable)
    written = json.loads(json.dumps(saved.to_json()))
    assert (written["video"], written["text"], "video_checksum" in written) == ("films/a.mp4", text, noted is not None)
    again = SavedAnswer.from_json(written)
    assert (again, again.asked, again.duration, again.stable) == (saved, question, 60.0, stable)
    assert (again.prediction, again.prediction.video_checksum) == (prediction, noted)
    del written["stable"]
    assert not SavedAnswer.from_json(written).stable


def test_a_saved_answer_of_version_0_1_0_is_read_and_written_as_it_was() -> None:
    saved = SavedAnswer.from_json(SAVED)
    assert saved.to_json() == SAVED
    assert (saved.prediction.answer, saved.asked.options) == (SAVED["answer"], tuple(SAVED["options"]))


@pytest.mark.parametrize("change", [{"video": {"bytes": 1}}, {"options": "AB"}, {"duration": "1"}, {"stable": 1}])
def test_a_wrong_type_in_a_saved_answer_is_named(change: dict[str, object]) -> None:
    with pytest.raises(FieldError, match=f"'{next(iter(change))}' must be"):
        SavedAnswer.from_json(SAVED | change)
