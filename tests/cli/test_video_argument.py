"""Addresses on the command line: fetched where a person types them, and nowhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tests.films import write_film
from tests.video.fetching.servers import FilmServer

from trace_ves.benches import write_bench
from trace_ves.cli.main import group
from trace_ves.core import Interval, Question
from trace_ves.records import Item

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilmServer]:
    """A server with a real film of four seconds."""
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    film = write_film(tmp_path / "made.mp4", range(0, 200, 10), fps=5)
    found = FilmServer(film.read_bytes())
    yield found
    found.close()


def run(*arguments: str) -> tuple[int, str, str]:
    from trace_ves.core.errors import TraceVesError

    done = CliRunner().invoke(group, [*arguments])
    if isinstance(done.exception, TraceVesError):
        return 2, done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr


ASK = ("Which?", "-o", "x", "-o", "y", "--backbone", "glance", "--method", "uniform-4")


def test_ask_fetches_an_address_and_answers(server: FilmServer) -> None:
    status, out, err = run("ask", server.url, *ASK, "--allow-private", "--json")
    record = json.loads(out)
    assert (status, err) == (0, "")
    assert record["frames_supplied"] == 4
    assert record["video"].endswith("/film.mp4")
    assert len(server.requests) == 1


def test_ask_refuses_a_private_address_that_was_not_allowed(server: FilmServer) -> None:
    status, _, err = run("ask", server.url, *ASK)
    assert (status, server.requests) == (2, [])
    assert "give --allow-private to fetch from there" in err


@pytest.mark.parametrize("mistake", [("", "-o", "x"), ("Which?", "--method", "nonsense"), ("Which?", "-o", "only one")])
def test_ask_checks_the_question_and_the_method_before_it_fetches(server: FilmServer, mistake: tuple[str, ...]) -> None:
    status, _, _ = run("ask", server.url, *mistake, "--allow-private")
    assert (status, server.requests) == (2, [])


def test_the_limit_is_the_one_that_was_typed(server: FilmServer) -> None:
    status, _, err = run("ask", server.url, *ASK, "--allow-private", "--max-download-gb", "0.000001")
    assert status == 2
    assert "--max-download-gb" in err


def test_what_was_fetched_and_is_no_video_is_told_of(server: FilmServer) -> None:
    server.body = b"\0" * 5000
    status, _, err = run("ask", server.url, *ASK, "--allow-private")
    assert status == 2
    assert "film.mp4: not a video that can be read" in err


def test_frames_fetches_an_address(server: FilmServer, tmp_path: Path) -> None:
    status, _, err = run("frames", server.url, "--at", "1.5", str(tmp_path / "out"), "--allow-private")
    assert status == 0, err
    assert "sha256" in err
    assert len([*(tmp_path / "out").glob("*.jpg")]) == 1


def test_frames_of_a_run_takes_no_address(server: FilmServer, tmp_path: Path) -> None:
    status, _, err = run("frames", server.url, "q1", str(tmp_path / "out"), "--allow-private")
    assert (status, server.requests) == (2, [])
    assert "a run is a file" in err


def test_an_address_inside_a_bench_is_data_and_never_fetched(server: FilmServer, tmp_path: Path) -> None:
    item = Item(Question("q1", server.url, "Which?", ("x", "y")), "A", (Interval(1, 2),), 4.0)
    write_bench([item], tmp_path / "bench")
    runs = tmp_path / "runs"
    run("run", str(tmp_path / "bench"), "--method", "uniform-4", "--backbone", "glance", "--out", str(runs))
    [line] = (runs / "uniform-4@glance.jsonl").read_text().splitlines()
    assert "no such file" in json.loads(line)["error"]
    frames = ("frames", str(runs / "uniform-4@glance.jsonl"), "q1", str(tmp_path / "out"))
    assert run(*frames, "--bench", str(tmp_path / "bench"))[0] == 2
    assert server.requests == []
