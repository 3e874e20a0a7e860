"""`trace-ves dev videos` and `import --manifest`: what a bench needs and what is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.films import write_film

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Call

LINE = {"duration": 10.0, "question": "?", "options": ["a", "b"], "answer": "A", "evidence": [[1.0, 2.0]]}


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    lines = [
        LINE | {"id": "1", "video": "videos/a.mp4", "url": "https://example.org/a"},
        LINE | {"id": "2", "video": "videos/b.mp4"},
        LINE | {"id": "3", "video": "videos/a.mp4"},
        LINE | {"id": "4", "video": "videos/c\u202e.mp4", "url": 7},
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "b.mp4").write_bytes(b"no film")
    (tmp_path / "videos" / "c\u202e.mp4").write_bytes(b"")
    return tmp_path


def test_each_video_is_listed_once(bench: Path, cli: Call) -> None:
    out = cli("dev", "videos", bench).stdout
    assert out.splitlines()[:2] == [
        "missing  videos/a.mp4  2 questions  10 s  https://example.org/a",
        "there  videos/b.mp4  1 question  10 s",
    ]
    assert "\u202e" not in out
    assert out.splitlines()[3].endswith("3 videos needed, 1 there (0 MB), 2 missing, 1 with a problem.")


def test_only_missing_ones_as_json(bench: Path, cli: Call) -> None:
    _, out, err = cli("dev", "videos", bench, "--missing", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["there"] for line in lines] == [False, False]
    assert lines[0] == {
        "video": "videos/a.mp4",
        "questions": 2,
        "duration": 10.0,
        "url": "https://example.org/a",
        "there": False,
    }
    assert "3 videos needed" in err


def test_checking_finds_a_file_that_is_not_a_video_and_one_of_another_length(bench: Path, cli: Call) -> None:
    pytest.importorskip("simplejpeg")
    pytest.importorskip("av")
    write_film(bench / "videos" / "a.mp4", range(20), fps=10)
    out = cli("dev", "videos", bench, "--check").stdout
    assert out.startswith("is 2.0 s long; the bench says 10 s  videos/a.mp4")
    assert "cannot be read as a video  videos/b.mp4" in out


def test_import_writes_a_manifest_beside_the_bench(tmp_path: Path, cli: Call) -> None:
    row = {"qid": 1, "video_uid": "v", "question": "?", "choices": ["a", "b"], "right_answer": "A", "duration": 10}
    (tmp_path / "cg.json").write_text(json.dumps([row | {"clue_intervals": [[1, 2]], "sub_category": "x"}]))
    arguments = ["import", "cg-bench", tmp_path / "cg.json", tmp_path / "bench", "--force", "--manifest"]
    err = cli(*arguments, tmp_path / "needed.jsonl").stderr
    assert "1 videos needed, 0 there" in err
    written = (tmp_path / "needed.jsonl").read_text()
    assert json.loads(written) == {"video": "videos/v.mp4", "questions": 1, "duration": 10.0, "there": False}
    out = cli(*arguments, "-").stdout
    assert out == written
    err = cli(*arguments, tmp_path / "cg.json", status=2).stderr
    assert "is an input of this command" in err
