"""The tutorial's files and commands, on a film of the same length: what needs no model prints what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.films import write_film

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
QUESTIONS, MINE = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


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
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "trace_ves", *words]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(start: str) -> list[str]:
    return [line for block in BLOCKS for line in block.splitlines() if line.startswith(f"$ trace-ves {start}")]


def test_the_audits_print_what_the_page_shows(place: Path) -> None:
    shown = [block.splitlines() for block in BLOCKS if block.startswith("$ trace-ves audit")]
    assert len(shown) == 2
    for command, *expected in shown:
        assert trace_ves(command, place).splitlines()[: len(expected)] == expected


def test_the_frames_are_written(place: Path) -> None:
    [command] = lines("frames")
    printed = trace_ves(command, place).splitlines()
    assert [line.partition(":")[0] for line in printed] == ["15 s", "60 s", "125 s"]
    assert len([*(place / "pictures").glob("*.jpg")]) == 3


def test_the_estimate_sends_nothing_and_names_the_sum(place: Path) -> None:
    [command] = [line for line in lines("ask") if "--estimate" in line]
    assert re.search(r"\$0\.0\d for 1 questions? ", trace_ves(command, place))


def test_commands_that_need_a_model_are_real(place: Path) -> None:
    with_model = [line for start in ("ask", "run", "view", "counterfactual") for line in lines(start)]
    for line in with_model:
        asked = set(re.findall(r" (--[a-z-]+)", line))
        command = line.split()[2]
        assert asked <= set(re.findall(r"--[a-z-]+", trace_ves(f"$ trace-ves {command} --help", place))), line
    assert len(with_model) == 5
