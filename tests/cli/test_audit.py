"""`trace-ves import` and `audit`, as a person runs them: a fault is one sentence with its place, never a traceback."""

import json
from pathlib import Path
from typing import Any

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


def test_runs_of_one_method_and_a_sampler_of_its_name_are_told_apart(bench: Path, cli: Call) -> None:
    (bench / "runs").mkdir()
    for name, method, backbone in (("1", "trace", "big"), ("2", "trace", "small"), ("3", "trace", "small")):
        lines(bench / "runs" / f"{name}.jsonl", ANSWER | {"method": method, "backbone": backbone})
    run = lines(bench / "mine.jsonl", ANSWER | {"method": "uniform-16"})
    out = cli("audit", bench, bench / "runs", run, "--sampler", "uniform-16", "--json", "-").stdout
    names = [entry["name"] for entry in json.loads(out)["runs"]]
    assert names == ["trace (big)", "trace (small) (2)", "trace (small) (3)", "uniform-16", "uniform-16 (sampler)"]


BARE = '{"question_id": "q1", "answer": "C", "timestamps": [%s]}'
FAULTS = [
    ("run.jsonl", [ANSWER, ANSWER], ":2: question 'q1' already has a prediction in line 1"),
    ("run.jsonl", [ANSWER, ANSWER | {"question_id": "q9"}], ":2: question 'q9' is not in the bench"),
    ("run.jsonl", [ANSWER | {"timestamps": [-1]}], ":1: timestamp -1 is outside the video"),
    ("run.jsonl", [BARE % "NaN"], ":1: it has NaN, which is not a JSON number"),
    ("run.jsonl", [BARE % "1e999"], ":1: 'timestamps[0]' must be"),
    ("run.jsonl", [BARE % '"1:10"'], ":1: 'timestamps[0]' must be a number, found a string '1:10'"),
    ("run.jsonl", [ANSWER | {"answer": "E"}], ":1: 'answer' 'E' is not an option of question 'q1'"),
    ("run.jsonl", [{"question_id": "q1", "answer": "C"}], ":1: the key 'timestamps' is missing"),
    ("run.jsonl", [ANSWER | {"frames_supplied": 1}], ":1: 'frames_supplied' is 1, less than the 2 distinct"),
    ("run.jsonl", ["{", ANSWER], ":1: not valid JSON"),
    ("run.jsonl", [], ": no prediction in this file"),
    ("run.jsonl", ["".join(map(chr, range(256)))], ":1: "),
    ("questions.jsonl", [QUESTION, QUESTION], ":2: question 'q1' is already on line 1"),
    ("questions.jsonl", [QUESTION | {"answer": "E"}], ":1: 'answer' must be one of A-D, found 'E'"),
]


@pytest.mark.parametrize(("name", "records", "sentence"), FAULTS)
def test_a_fault_is_one_sentence(bench: Path, cli: Call, name: str, records: list[Any], sentence: str) -> None:
    run = lines(bench / "run.jsonl", ANSWER)
    lines(bench / name, *records)
    done = cli("audit", bench, run, status=2)
    assert f"{name}{sentence}" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_torn_last_line_is_counted_and_strict_refuses_it(bench: Path, cli: Call) -> None:
    run = bench / "run.jsonl"
    run.write_text(json.dumps(ANSWER) + '\n{"question_id": "q2", "ans')
    _, out, err = cli("audit", bench, run)
    assert "run.jsonl:2: the last line is cut off" in err
    assert "1 of 2 questions have no prediction" in err
    assert "50.0" in out
    assert "run.jsonl:2" in cli("audit", bench, run, "--strict", status=2).stderr


def test_dirty_questions_are_left_out_and_counted_and_strict_refuses_them(bench: Path, cli: Call) -> None:
    with (bench / "questions.jsonl").open("a") as file:
        file.write(json.dumps(QUESTION | {"id": "q3", "evidence": [[9, 8]]}) + "\n")
    run = lines(bench / "run.jsonl", *(ANSWER | {"question_id": f"q{i}"} for i in (1, 2, 3)))
    _, out, err = cli("audit", bench, run, "--json", "-")
    assert json.loads(out)["bench"]["questions"] == 2
    assert "questions.jsonl:3: question 'q3': evidence interval 9-8 s is reversed (left out)" in err
    assert "1 predictions are for questions that were left out" in err
    assert "questions.jsonl:3" in cli("audit", bench, run, "--strict", status=2).stderr


def test_a_bench_without_evidence_and_durations_says_so(bench: Path, cli: Call) -> None:
    lines(bench / "questions.jsonl", QUESTION | {"duration": None, "evidence": []})
    assert "has no duration" in cli("audit", bench, "--sampler", "uniform-8", status=2).stderr
    run = lines(bench / "run.jsonl", ANSWER)
    assert "only answers can be scored" in cli("audit", bench, run).stdout
    figures = cli("audit", bench, run, "--figures", bench / "figures", status=2)
    assert "no evidence intervals" in figures.stderr
