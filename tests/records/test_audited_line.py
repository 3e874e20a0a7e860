"""A line that is taken as it is has the values that the whole prediction would have; all others are left to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.core import FormatError
from trace_ves.core.jsonl import parse_object
from trace_ves.records import Prediction
from trace_ves.records.audited_line import AuditedLine, plain_line, read_audited_lines
from trace_ves.records.record import FieldError

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.one_of(st.integers(0, 500), st.floats(0, 500), st.just(-1), st.just(10**400))
ODD = st.sampled_from([None, True, False, 1.0, 2.5, -3, "x", "", " ", [], {}, [1], {"timestamps": [1]}, 10**400])
TIMES = st.one_of(st.lists(st.one_of(NUMBERS, ODD), max_size=5), st.lists(NUMBERS, max_size=9), ODD)
LINES = st.fixed_dictionaries(
    {"question_id": st.one_of(st.just("q1"), ODD), "answer": st.one_of(st.just("A"), ODD), "timestamps": TIMES},
    optional={
        "frames_supplied": st.one_of(st.integers(0, 9), ODD),
        "method": st.one_of(st.sampled_from(["m", "timestamps", '"timestamps": [1]']), ODD),
        "backbone": st.one_of(st.just("b"), ODD),
        "termination": st.one_of(st.just("end"), ODD),
        "error": st.one_of(st.just("no"), ODD),
        "seconds": st.one_of(st.just(1.5), ODD),
        "usage": ODD,
        'x"timestamps': st.sampled_from([[1], [True]]),
        "other": ODD,
    },
)


@given(LINES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=400)
def test_a_plain_line_is_what_the_whole_prediction_says(line: dict[str, Any], order: Any) -> None:
    keys = list(line)
    order.shuffle(keys)
    raw = json.dumps({key: line[key] for key in keys}).encode()
    record = parse_object(raw)
    try:
        whole = AuditedLine.of(Prediction.from_json(record))
    except FieldError:
        whole = None
    assert plain_line(record, raw) in (None, whole)


def test_an_outsiders_line_is_taken_as_it_is() -> None:
    raw = b'{"question_id": "q", "answer": "B", "timestamps": [0, 1.25, 7], "method": "mine", "note": [1]}'
    line = plain_line(parse_object(raw), raw)
    assert line is not None
    assert line == AuditedLine.of(Prediction.from_json(parse_object(raw)))
    assert (line.frames_supplied, line.timestamps.tolist(), line.method) == (3, [0.0, 1.25, 7.0], "mine")


@pytest.mark.parametrize(
    "wrong",
    [
        b'"timestamps": [1, true]',
        b'"timestamps": [1e999]',
        b'"x\\"timestamps": [1], "timestamps": [true]',
        b'"other": {"timestamps": [1]}, "timestamps": [false]',
        b'"timestamps": [1], "seconds": "long"',
    ],
)
def test_what_is_wrong_with_a_line_is_said_by_the_prediction(tmp_path: Path, wrong: bytes) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"question_id": "q", "answer": "B", "timestamps": []}\n{"question_id": "r", "answer": "B", ')
    with path.open("ab") as file:
        file.write(wrong + b"}\n")
    with pytest.raises(FieldError) as said:
        Prediction.from_json(parse_object(path.read_bytes().splitlines()[1]))
    with pytest.raises(FormatError, match=r"run\.jsonl:2: ") as raised:
        list(read_audited_lines(path))
    assert str(raised.value).endswith(f":2: {said.value}.")
