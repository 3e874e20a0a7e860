"""`trace-ves import`, as a person runs it."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from trace_ves.benches import load_bench

ROW = {"qid": 1, "video_uid": "v", "question": "?", "choices": ["a", "b"], "right_answer": "A"}
ROW |= {"clue_intervals": [[1, 2]], "duration": 10, "sub_category": "x"}


@pytest.fixture
def source(tmp_path: Path):
    path = tmp_path / "cg.json"
    path.write_text(json.dumps([ROW, ROW | {"qid": 2, "clue_intervals": [[3, 1]]}]))
    return path


def test_an_import_says_what_it_leaves_out_and_replaces_a_bench_only_with_force(
    source: Path, tmp_path: Path, cli: Call
) -> None:
    words = ("import", "cg-bench", source, tmp_path / "bench")
    assert "question '2': evidence interval 3-1 s is reversed" in cli(*words, "--strict", status=2).stderr
    assert not (tmp_path / "bench").exists()
    _, out, err = cli(*words)
    assert "1 question on 1 video, 1 with evidence intervals. 1 question was left out." in out
    assert "cg.json, row 2: question '2': evidence interval 3-1 s is reversed (left out)" in err
    assert len(load_bench(tmp_path / "bench").items) == 1
    assert "--force" in cli(*words, status=2).stderr
    cli(*words, "--force")


OWN = """
from trace_ves import Interval, Item, Question
from trace_ves.benches import Bench

def read(source, *, strict=False):
    texts = source.read_text().splitlines()
    return Bench(tuple(
        Item(Question(f"q{n}", "v.mp4", text, ("yes", "no")), "A", (Interval(1, 2),), 10.0)
        for n, text in enumerate(texts)
    ))

def wrong(source):
    return [1]

def failing(source):
    return source.no_such_thing
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_importer.py").write_text(OWN)
    (tmp_path / "own.txt").write_text("Is it?\nWas it?\n")


def test_an_importer_of_ones_own_is_named_as_module_and_callable(own: Path, tmp_path: Path, cli: Call) -> None:
    out = cli("import", "own_importer:read", "own.txt", "bench").stdout
    assert "2 questions on 1 video, 2 with evidence" in out
    assert [item.question.text for item in load_bench(tmp_path / "bench").items] == ["Is it?", "Was it?"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_importer:wrong", "returned list; it must be a Bench"),
        ("own_importer:failing", "no_such_thing' (own_importer.py:16)"),
        ("own_importer:nothing", "the module own_importer has no nothing"),
    ],
)
def test_what_is_wrong_with_ones_own_importer_is_one_sentence(own: Path, cli: Call, name: str, words: str) -> None:
    assert words in cli("import", name, "own.txt", "bench", status=2).stderr


def test_an_import_never_replaces_its_source(tmp_path: Path, cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {"uid": 1, "question": "Who?\n(A) me\n(B) you", "answer": "A", "question_type": []}
    line = {"key": "v", "type": "x", "video_info": {"duration_minutes": 1}, "qa": [asked]}
    source = tmp_path / "video_info.meta.jsonl"
    source.write_text(json.dumps(line) + "\n")
    (tmp_path / "link.jsonl").symlink_to(source)
    before = source.read_bytes()
    for out in (source, "link.jsonl"):
        done = cli("import", "lvbench", source, out, "--force", status=2)
        assert "is an input of this command" in done.stderr
        assert source.read_bytes() == before
