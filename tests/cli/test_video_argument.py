"""Addresses on the command line are fetched; addresses anywhere else are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.films import write_film
from tests.video.fetching.servers import FilmServer

from trace_ves.benches import write_bench
from trace_ves.core import Interval, Question
from trace_ves.records import Item

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Call


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilmServer]:
    """A server with a real film of four seconds."""
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    film = write_film(tmp_path / "made.mp4", range(0, 200, 10), fps=5)
    found = FilmServer(film.read_bytes())
    yield found
    found.close()


ASK = ("Which?", "-o", "x", "-o", "y", "--backbone", "glance", "--method", "uniform-4")


def test_ask_fetches_an_address_and_answers(call: Call, server: FilmServer) -> None:
    status, out, err = call("ask", server.url, *ASK, "--allow-private", "--json")
    record = json.loads(out)
    assert (status, err) == (0, "")
    assert record["frames_supplied"] == 4
    assert record["video"].endswith("/film.mp4")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (ASK, "give --allow-private to fetch from there"),
        (("", "-o", "x", "--allow-private"), ""),
        (("Which?", "--method", "nonsense", "--allow-private"), "nonsense"),
        (("Which?", "-o", "only one", "--allow-private"), "2 to 26 options"),
    ],
)
def test_ask_checks_everything_before_it_fetches(
    call: Call, server: FilmServer, arguments: tuple[str, ...], sentence: str
) -> None:
    status, _, err = call("ask", server.url, *arguments)
    assert (status, server.requests) == (2, [])
    assert sentence in err


def test_too_large_a_file_and_one_that_is_not_a_video_are_refused(call: Call, server: FilmServer) -> None:
    status, _, err = call("ask", server.url, *ASK, "--allow-private", "--max-download-gb", "0.000001")
    assert status == 2
    assert "--max-download-gb" in err
    server.body = b"\0" * 5000
    status, _, err = call("ask", server.url, *ASK, "--allow-private")
    assert status == 2
    assert "film.mp4: not a video that can be read" in err


def test_frames_fetches_an_address(call: Call, server: FilmServer, tmp_path: Path) -> None:
    status, _, err = call("frames", server.url, "--at", "1.5", tmp_path / "out", "--allow-private")
    assert status == 0, err
    assert "sha256" in err
    assert len([*(tmp_path / "out").glob("*.jpg")]) == 1


def test_frames_of_a_run_takes_no_address(call: Call, server: FilmServer, tmp_path: Path) -> None:
    status, _, err = call("frames", server.url, "q1", tmp_path / "out", "--allow-private")
    assert (status, server.requests) == (2, [])
    assert "a run is a file" in err


def test_an_address_inside_a_bench_is_data_and_never_fetched(call: Call, server: FilmServer, tmp_path: Path) -> None:
    item = Item(Question("q1", server.url, "Which?", ("x", "y")), "A", (Interval(1, 2),), 4.0)
    write_bench([item], tmp_path / "bench")
    runs = tmp_path / "runs"
    call("run", tmp_path / "bench", "--method", "uniform-4", "--backbone", "glance", "--out", runs)
    [line] = (runs / "uniform-4@glance.jsonl").read_text().splitlines()
    assert "no such file" in json.loads(line)["error"]
    frames = ("frames", runs / "uniform-4@glance.jsonl", "q1", tmp_path / "out")
    assert call(*frames, "--bench", tmp_path / "bench")[0] == 2
    assert server.requests == []
