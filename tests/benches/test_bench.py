"""The bench format: what is read, what is left out, what is refused, and that it goes round."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.benches.tables import write_rows

from trace_ves.benches import load_bench, write_bench
from trace_ves.benches.bench import manifest, summary
from trace_ves.core import FormatError, InputError

LINE = {"id": "q1", "video": "videos/a.mp4", "duration": 100.0, "family": "event-counting", "question": "How many?"}
LINE |= {"options": ["1", "2"], "answer": "B", "evidence": [[0.0, 10.0]], "source": "ego4d"}
DIRTY = [
    LINE | {"id": "reversed", "evidence": [[5, 4]]},
    LINE | {"id": "empty", "evidence": [[5, 5]]},
    LINE | {"id": "beyond", "evidence": [[5, 101.1]]},
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
def test_evidence_has_the_slack_of_timestamps_at_both_ends_and_it_is_counted(
    tmp_path: Path, evidence: object, taken: Any
) -> None:
    loaded = load_bench(bench(tmp_path, LINE, LINE | {"id": "q2", "evidence": [evidence]}))
    if taken is None:  # further out, or wholly outside
        assert loaded.left_out == {"q2"}
        return
    assert [(i.start, i.end) for i in loaded.items[1].evidence] == [taken]
    assert loaded.slack == ("q2",)
    [warning] = loaded.warnings
    assert "the evidence of 1 questions passes an end of its video by up to 1 s (q2)" in warning


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
    videos = manifest(items, tmp_path)
    assert [(each.video, each.questions, each.there) for each in videos] == [("a", 2, 1), ("b", 1, 0), ("c", 1, 0)]
    assert summary(videos) == "3 videos needed, 1 there (2 MB), 2 missing, 1 with a problem."
    assert summary(videos[:1]) == "1 videos needed, 1 there (2 MB), 0 missing."


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
