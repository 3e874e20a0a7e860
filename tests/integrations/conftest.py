"""A small bench of many questions, on videos that are drawn in a moment."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.films import write_film

from trace_ves.benches.bench import write_bench
from trace_ves.core import Interval, Question
from trace_ves.records import Item

QUESTIONS = 48
SECONDS = 60


def make_video(path: Path, *, shade: int = 0) -> Path:
    return write_film(path, ((shade + number) % 200 for number in range(10 * SECONDS)), fps=10)


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two questions of the drawn world."""
    folder = tmp_path_factory.mktemp("drawn") / "twin"
    subprocess.run([sys.executable, "-m", "trace_ves", "synth", str(folder), "--questions", "2"], check=True)
    return folder


@pytest.fixture(scope="session")
def bench_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions with evidence, and the first without."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "videos").mkdir()
    for name in "ab":
        make_video(folder / "videos" / f"{name}.mp4")
    items = [
        Item(
            Question(f"q{number:02d}", f"videos/{'ab'[number % 2]}.mp4", f"Which? #{number}", ("w", "x", "y", "z")),
            answer="ABCD"[number % 4],
            evidence=(Interval(5, 10), Interval(30, 42)) if number else (),
            duration=float(SECONDS),
        )
        for number in range(QUESTIONS)
    ]
    write_bench(items, folder)
    return folder
