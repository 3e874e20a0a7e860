"""Whatever stands in a row, a reader gives a value or a sentence, never another exception."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.benches.tables import write_rows

from trace_ves.benches import Bench, importers, load_bench
from trace_ves.core import InputError, Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.records.base import FieldError
from trace_ves.ves import audit

HOSTILE = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | st.text(max_size=6) | st.sampled_from("ABZ"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
PAIR = st.lists(st.floats(-5, 200) | st.integers(-5, 200) | JSON, min_size=1, max_size=3)
LIKELY = {
    "id": st.sampled_from(["q1", "q2", "", 3]),
    "answer": st.sampled_from(["A", "b", "Z", 0, None]),
    "timestamps": st.lists(st.floats() | st.integers(-2, 300), max_size=4),
    "frames_supplied": st.integers(-1, 9),
    "duration": st.sampled_from([100, 0.5, -1, None, "100"]),
    "options": st.lists(st.text(max_size=3), max_size=5),
    "evidence": st.lists(PAIR, max_size=3),
}


def rows(*keys: str, **aliases: str) -> st.SearchStrategy[dict[str, object]]:
    """Rows with some of these keys; a value is often of the right kind, and often not."""
    known = {key: LIKELY.get(aliases.get(key, key), JSON) | JSON for key in keys}
    return st.fixed_dictionaries({}, optional=known)


def sound_or_said(read: Callable[[], Bench]) -> bool:
    """Whether a reader gives questions that have options and an answer among them, or else a sentence."""
    try:
        items = read().items
    except InputError as error:
        return str(error).endswith((".", "?", "!"))
    return all(item.answer in item.question.letters for item in items)


@given(
    rows("question_id", "answer", "timestamps", "frames_supplied", "method", "observations", "usage", question_id="id")
)
@HOSTILE
def test_predictions(row: dict[str, object]) -> None:
    try:
        prediction = Prediction.from_json(row)
    except FieldError:
        return
    item = Item(Question("q1", "v", "?", ("a", "b")), "A", (Interval(1, 2),), 100.0)
    try:
        report = audit([item], {"r": [prediction]}, resamples=2)
    except InputError:
        return
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["bench"]["questions"] == 1


@given(rows("id", "video", "duration", "family", "question", "options", "answer", "evidence", "duration_precision"))
@HOSTILE
def test_bench_lines(tmp_path: Path, row: dict[str, object]) -> None:
    path = write_rows(tmp_path / "questions.jsonl", [row])
    try:
        bench = load_bench(path)
    except InputError:
        return
    report = audit(bench.items, {"r": []}, resamples=2)
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["bench"]["questions"] == len(bench.items)


AVP_ROWS = rows(
    "question_id", "videoID", "question", "options", "answer", "question_type", "time_reference", "duration"
)
OFFICIAL_ROWS = st.dictionaries(st.sampled_from(["key", "qa", "video_info", "type"]), JSON)
CG_ROWS = rows("qid", "video_uid", "question", "choices", "right_answer", "duration", "clue_intervals", qid="id")


@pytest.mark.parametrize(
    ("bench", "name", "row"),
    [
        ("lvbench", "avp.json", AVP_ROWS),
        ("lvbench", "video_info.meta.jsonl", OFFICIAL_ROWS),
        ("cg-bench", "cgbench.json", CG_ROWS),
    ],
)
@given(data=st.data())
@HOSTILE
def test_importers(tmp_path: Path, bench: str, name: str, row: st.SearchStrategy[Any], data: st.DataObject) -> None:
    path = write_rows(tmp_path / name, data.draw(st.lists(row, max_size=3)))
    assert sound_or_said(lambda: importers.import_bench(bench, path))


@given(JSON, st.lists(st.lists(st.text(max_size=5), max_size=9), max_size=3))
@HOSTILE
def test_next_gqa(tmp_path: Path, grounding: Any, lines: list[list[str]]) -> None:
    path = tmp_path / "val.csv"
    text = "video_id,question,answer,qid,type,a0,a1,a2,a3,a4\n" + "\n".join(",".join(line) for line in lines)
    path.write_text(text, encoding="utf-8", errors="replace")
    (tmp_path / "val.json").write_text(json.dumps(grounding))
    assert sound_or_said(lambda: importers.read_next_gqa(path))
