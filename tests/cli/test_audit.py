"""`trace-ves import` and `audit`, as a person runs them: a fault is one sentence with its place, never a traceback."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call

QUESTION = {"id": "q1", "video": "videos/a.mp4", "duration": 100.0, "family": "event-counting"}
QUESTION |= {"question": "How many?", "options": ["1", "2", "3", "4"], "answer": "C", "evidence": [[10.0, 20.0]]}
ANSWER = {"question_id": "q1", "answer": "C", "timestamps": [11.0, 12.0], "frames_supplied": 98}


def lines(path: Path, *records):
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


ROW = {"qid": 1, "video_uid": "v", "question": "?", "choices": ["a", "b"], "right_answer": "A"}
ROW |= {"clue_intervals": [[1, 2]], "duration": 10, "sub_category": "x"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "cg.json"
    path.write_text(json.dumps([ROW, ROW | {"qid": 2, "clue_intervals": [[3, 1]]}]))
    return path


def test_an_importer_of_ones_own_that_fails_is_one_sentence(tmp_path: Path, cli: Call) -> None:
    (tmp_path / "own_importer.py").write_text("def failing(source):\n    return source.no_such_thing\n")
    done = cli("import", "own_importer:failing", "own.txt", "bench", status=2, cwd=tmp_path)
    assert "no_such_thing' (own_importer.py:2)" in done.stderr


@pytest.fixture
def bench(tmp_path: Path):
    lines(tmp_path / "questions.jsonl", QUESTION, QUESTION | {"id": "q2", "family": "temporal-ordering"})
    return tmp_path


def test_every_file_is_written(bench: Path, cli: Call) -> None:
    run = lines(bench / "mine.jsonl", ANSWER)
    out = bench / "out"
    options = ["--json", out / "a.json", "--csv", out / "a.csv", "--markdown", out / "a.md", "--latex", out / "a.tex"]
    cli("audit", bench, run, *options, "--figures", out / "figures", "--resamples", 20)
    figures = ("bench", "buckets", "coverage", "families", "frontier", "k-sweep")
    written = {f"{name}.{kind}" for name in figures for kind in ("svg", "png", "pdf")}
    assert {path.name for path in out.rglob("*.*")} == {"a.json", "a.csv", "a.md", "a.tex", *written}
