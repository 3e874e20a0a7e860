"""`trace-ves dev videos`: what a bench needs and what is there. `trace-ves frames`: pictures of a run or of a video."""

import csv
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.films import write_film

from trace_ves.benches import write_bench
from trace_ves.core import Interval, Question
from trace_ves.records import Item

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


def test_each_video_is_listed_once_and_missing_ones_as_json(bench: Path, cli: Call) -> None:
    out = cli("dev", "videos", bench).stdout
    assert out.splitlines()[:2] == [
        "missing  videos/a.mp4  2 questions  10 s  https://example.org/a",
        "there  videos/b.mp4  1 question  10 s",
    ]
    assert "\u202e" not in out
    assert out.splitlines()[3].endswith("3 videos needed, 1 there (0 MB), 2 missing, 1 with a problem.")
    _, out, err = cli("dev", "videos", bench, "--missing", "--json")
    first, second = map(json.loads, out.splitlines())
    needed = {"video": "videos/a.mp4", "questions": 2, "duration": 10.0, "url": "https://example.org/a"}
    assert first == needed | {"there": False}
    assert second["there"] is False
    assert "3 videos needed" in err


def test_checking_finds_a_file_that_is_not_a_video_and_one_of_another_length(bench: Path, cli: Call) -> None:
    write_film(bench / "videos" / "a.mp4", range(20), fps=10)
    out = cli("dev", "videos", bench, "--check").stdout
    assert out.startswith("is 2.0 s long; the bench says 10 s  videos/a.mp4")
    assert "cannot be read as a video  videos/b.mp4" in out


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """Four seconds at 10 frames a second, each brighter than the one before."""
    return write_film(tmp_path / "film.mp4", range(0, 240, 6), fps=10)


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "frames.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_frame_at_a_moment_of_any_video(cli: Call, film: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    done = cli("frames", film, "--at", "1.25", "--at", "0:03.0", "--at", "1.2", "--height", "24", out)
    first, second = "000001.200s-24p-pts12288.jpg", "000003.000s-24p-pts30720.jpg"
    assert done.stdout.splitlines() == [f"1.25 s: {out / first}", f"3 s: {out / second}", f"1.2 s: {out / first}"]
    assert sorted(path.name for path in out.iterdir()) == [first, second, "frames.csv"]
    assert [(row["asked"], row["seconds"]) for row in table(out)] == [("1.25", "1.2"), ("3.0", "3.0"), ("1.2", "1.2")]


def test_a_run_that_holds_only_timestamps(cli: Call, film: Path, tmp_path: Path) -> None:
    question = Question("q1", film.name, "When?", ("now", "then"))
    bench = tmp_path / "bench.jsonl"
    write_bench([Item(question, "A", (Interval(0.5, 1.5),), 4.0)], bench)
    run = tmp_path / "outsider.jsonl"
    run.write_text(json.dumps({"question_id": "q1", "answer": "A", "timestamps": [0.33, 0.31, 2.0]}) + "\n")
    done = cli("frames", run, "q1", tmp_path / "out", "--bench", bench)
    assert done.stdout == f"2 pictures of the run's timestamps are in {tmp_path / 'out'}; frames.csv names each.\n"
    assert "recorded no checksum" in done.stderr
    rows = {(row["asked"], row["seconds"]) for row in table(tmp_path / "out")}
    assert rows == {("0.31", "0.3"), ("0.33", "0.3"), ("2.0", "2.0")}
