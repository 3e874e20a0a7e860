"""`frames`: pictures of a run. Only commands may name addresses."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.films import write_film
from tests.video.fetching.servers import FilmServer

from trace_ves.benches import write_bench
from trace_ves.core import Interval, Question
from trace_ves.records import Item


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """Four seconds at 10 frames a second, each brighter than the one before."""
    return write_film(tmp_path / "film.mp4", range(0, 240, 6), fps=10)


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "frames.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


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


# --- addresses ------------------------------------------------------------------------------------


@pytest.fixture
def server(film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilmServer]:
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    found = FilmServer(film.read_bytes())
    yield found
    found.close()


ASK = ("Which?", "-o", "x", "-o", "y", "--backbone", "glance", "--method", "uniform-4")


def test_ask_and_frames_fetch_an_address(cli: Call, server: FilmServer, tmp_path: Path) -> None:
    done = cli("ask", server.url, *ASK, "--allow-private", "--json")
    record = json.loads(done.stdout)
    assert done.stderr == ""
    assert record["frames_supplied"] == 4
    assert record["video"].endswith("/film.mp4")
    assert len(server.requests) == 1
    done = cli("frames", server.url, "--at", "1.5", tmp_path / "out", "--allow-private")
    assert "sha256" in done.stderr
    assert len([*(tmp_path / "out").glob("*.jpg")]) == 1


def test_too_large_a_file_and_one_that_is_not_a_video_are_refused(cli: Call, server: FilmServer) -> None:
    ask = ("ask", server.url, *ASK, "--allow-private")
    assert "--max-download-gb" in cli(*ask, "--max-download-gb", "0.000001", status=2).stderr
    server.body = b"\0" * 5000
    assert "film.mp4: not a video that can be read" in cli(*ask, status=2).stderr


def test_an_address_inside_a_bench_is_data_and_never_fetched(cli: Call, server: FilmServer, tmp_path: Path) -> None:
    item = Item(Question("q1", server.url, "Which?", ("x", "y")), "A", (Interval(1, 2),), 4.0)
    write_bench([item], tmp_path / "bench")
    runs = tmp_path / "runs"
    cli("run", tmp_path / "bench", "--method", "uniform-4", "--backbone", "glance", "--out", runs, status=1)
    [line] = (runs / "uniform-4@glance.jsonl").read_text().splitlines()
    assert "no such file" in json.loads(line)["error"]
    frames = ("frames", runs / "uniform-4@glance.jsonl", "q1", tmp_path / "out")
    cli(*frames, "--bench", tmp_path / "bench", status=2)
    assert server.requests == []
