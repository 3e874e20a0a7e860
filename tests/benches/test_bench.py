"""The bench format: what is read, what is left out, what is refused, and that it goes round."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.benches.tables import write_rows

from trace_ves.benches import Bench, importers, load_bench, write_bench
from trace_ves.benches.bench import list_videos, summarise_videos
from trace_ves.core import FormatError, InputError, Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.records.base import FieldError
from trace_ves.ves import audit

LINE = {"id": "q1", "video": "videos/a.mp4", "duration": 100.0, "family": "event-counting", "question": "How many?"}
LINE |= {"options": ["1", "2"], "answer": "B", "evidence": [[0.0, 10.0]], "source": "ego4d"}
DIRTY = [
    LINE | {"id": name, "evidence": [[5, end]]} for name, end in (("reversed", 4), ("empty", 5), ("beyond", 101.1))
]


def bench(folder: Path, *lines):
    return write_rows(folder / "questions.jsonl", lines).parent


def test_a_folder_and_its_file_are_the_same_bench_which_goes_round(tmp_path: Path) -> None:
    items = load_bench(bench(tmp_path, LINE, LINE | {"id": "q2", "duration": None, "evidence": []})).items
    assert items == load_bench(tmp_path / "questions.jsonl").items
    assert items[0].extra == {"source": "ego4d"}
    for out in (tmp_path / "new", tmp_path / "other.jsonl"):
        assert load_bench(write_bench(items, out)).items == items


def test_an_existing_bench_is_not_replaced_by_accident(tmp_path: Path) -> None:
    items = load_bench(bench(tmp_path, LINE)).items
    with pytest.raises(InputError, match="exists already"):
        write_bench(items, tmp_path)
    write_bench(items, tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["questions.jsonl"]


@pytest.mark.parametrize(
    ("evidence", "taken"),
    [
        *(([-0.1, 4], (0.0, 4)), ([-1, 4], (0.0, 4)), ([90, 100.9], (90, 100.9)), ([90, 101], (90, 101))),
        *(([-1.1, 4], None), ([-0.5, -0.1], None), ([100.2, 100.9], None), ([-0.5, 0], None)),
    ],
)
def test_evidence_has_slack_at_both_ends_and_it_is_counted(tmp_path: Path, evidence: object, taken: Any) -> None:
    loaded = load_bench(bench(tmp_path, LINE, LINE | {"id": "q2", "evidence": [evidence]}))
    if taken is None:  # further out, or wholly outside
        assert loaded.left_out == {"q2"}
        return
    assert [(i.start, i.end) for i in loaded.items[1].evidence] == [taken]
    assert loaded.slack == ("q2",)
    for names, shown in (("q2",), "q2"), (("q2", "b", "c"), "q2, b, c"), (("q2", "b", "c", "d"), "q2, b, c, …"):
        [warning] = replace(loaded, slack=names).warnings
        assert f"of {len(names)} questions exceeds the video by up to 1 s ({shown})" in warning


def test_a_bench_without_a_usable_question_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no bench here"):
        load_bench(tmp_path)
    with pytest.raises(InputError, match=r"no usable question in this file; a bench has one JSON object per line"):
        load_bench(bench(tmp_path))
    (tmp_path / "questions.jsonl").write_text(json.dumps([LINE], indent=1))
    with pytest.raises(InputError, match="this is a JSON array; a bench has one JSON object per line"):
        load_bench(tmp_path)
    with pytest.raises(InputError, match=r"no usable question in this file; the first: .*:1: .*'reversed'.*reversed"):
        load_bench(bench(tmp_path, DIRTY[0]))


def test_the_videos_that_are_needed_are_counted(tmp_path: Path) -> None:
    lines = [LINE | {"id": f"q{n}", "video": name} for n, name in enumerate(("a", "b", "a", "c"))]
    items = load_bench(bench(tmp_path, *lines)).items
    (tmp_path / "a").write_bytes(b"x" * 2_000_000)
    (tmp_path / "b").touch()
    videos = list_videos(items, tmp_path)
    assert [(each.video, each.questions, each.there) for each in videos] == [("a", 2, 1), ("b", 1, 0), ("c", 1, 0)]
    assert summarise_videos(videos) == "3 videos needed, 1 found (2 MB), 2 missing, 1 with a problem."
    assert summarise_videos([replace(videos[0], bytes=10**12)]) == "1 video needed, 1 found (1,000,000 MB), 0 missing."


def test_one_video_has_one_duration(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r":2: the video 'videos/a.mp4' has 120 s here and 100 s in line 1"):
        load_bench(bench(tmp_path, LINE, LINE | {"id": "q2", "duration": 120}))
    assert len(load_bench(bench(tmp_path, LINE, LINE | {"id": "q2", "duration": 100.6})).items) == 2


def test_dirty_questions_are_left_out_one_by_one_with_their_reason(tmp_path: Path) -> None:
    loaded = load_bench(bench(tmp_path, LINE, *DIRTY))
    assert [item.question.id for item in loaded.items] == ["q1"]
    assert loaded.left_out == {"reversed", "empty", "beyond"}
    said = [str(problem) for problem in loaded.problems]
    for line, (name, words) in enumerate([("reversed", "is reversed"), ("empty", "no length"), ("beyond", "after")], 2):
        assert any(f"questions.jsonl:{line}: question '{name}'" in text and words in text for text in said)
        with pytest.raises(InputError, match=f"questions.jsonl:2: question '{name}'"):
            load_bench(bench(tmp_path, LINE, DIRTY[line - 2]), strict=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (LINE, "'q1' is already on line 1"),
        (LINE | {"id": None}, "'id' must be a string, found null"),
        ({"id": "q2"}, "'video' is missing"),
        (LINE | {"id": "q2", "duration": "100"}, "'duration' must be a number"),
    ],
)
def test_broken_lines_are_errors_with_their_place(tmp_path: Path, line: str, words: list[str]) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        load_bench(bench(tmp_path, LINE, line))
    assert "questions.jsonl:2: " in str(caught.value)


# --- whatever stands in a row, a reader gives a value or a sentence, never another exception --------------------------

UNCHECKED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
HOSTILE = settings(max_examples=50, deadline=None, suppress_health_check=UNCHECKED)
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


AVP = "question_id videoID question options answer question_type time_reference duration"
OFFICIAL_ROWS = st.dictionaries(st.sampled_from(["key", "qa", "video_info", "type"]), JSON)
CG_ROWS = rows("qid", "video_uid", "question", "choices", "right_answer", "duration", "clue_intervals", qid="id")


@pytest.mark.parametrize(
    ("bench", "name", "row"),
    [
        ("lvbench", "avp.json", rows(*AVP.split())),
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
