"""The tutorial's files and commands, on a film of the same length: what needs no model prints what the page shows."""

import shlex
from pathlib import Path

import pytest

from tests import program
from tests.docs import blocks, read
from tests.films import write_film

PAGE = read("docs/tutorial.md")
QUESTIONS, MINE = blocks(PAGE, "json")
BLOCKS = blocks(PAGE, "console")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the page has after its steps 1, 4 and 6, with a grey film of 139.4 seconds."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "hall").mkdir()
    (folder / "hall" / "questions.jsonl").write_text(QUESTIONS, encoding="utf-8")
    (folder / "mine.jsonl").write_text(MINE, encoding="utf-8")
    write_film(folder / "hall.mp4", [90] * 1394, fps=10)
    return folder


def trace_ves(line: str, place: Path) -> str:
    """What a line of the page prints; what stands behind a pipe is left to the test."""
    words = shlex.split(line.removeprefix("$ trace-ves ").partition(" | ")[0])
    done = program.run(*words, cwd=place)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_audits_print_what_the_page_shows(place: Path) -> None:
    shown = [block.splitlines() for block in BLOCKS if block.startswith("$ trace-ves audit")]
    assert len(shown) == 2
    for command, *expected in shown:
        assert trace_ves(command, place).splitlines()[: len(expected)] == expected


def test_the_frames_are_written(place: Path) -> None:
    [command] = [line for block in BLOCKS for line in block.splitlines() if line.startswith("$ trace-ves frames")]
    printed = trace_ves(command, place).splitlines()
    assert [line.partition(":")[0] for line in printed] == ["15 s", "60 s", "125 s"]
    assert len([*(place / "pictures").glob("*.jpg")]) == 3
