"""A small bench of many questions, on videos that are drawn in a moment."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from trace_ves.benches.bench import write_bench
from trace_ves.core import Interval, Question
from trace_ves.records import Item

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = 48
SECONDS = 60


def make_video(path: Path, *, shade: int = 0) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"preset": "ultrafast", "g": "10"})
        stream.width, stream.height = 64, 48
        for number in range(10 * SECONDS):
            picture = np.full((48, 64, 3), (shade + number) % 200, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


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
