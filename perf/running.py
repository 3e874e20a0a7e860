"""Throughput of `trace-ves run` against the number of workers, with a backbone of fixed latency.

    python perf/running.py [--questions 48] [--latency 0.5] [--workers 1,2,4,8,16]

Real decoding (uniform-16 of little H.264 videos) overlaps with calls that wait; the ratio to one worker is the result.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import av
import numpy as np

from trace_ves.backbone.protocol import Generation
from trace_ves.benches import load_bench, write_bench
from trace_ves.core import Interval, Question
from trace_ves.records import Item
from trace_ves.runs.answering import Job, RunOptions
from trace_ves.runs.run import answer_locally, run


class Waiting:
    """Answers A after a fixed time, as a service does: the batch of a request goes out at once."""

    name = "waiting"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def generate(self, batch):
        """Look at every frame, and wait."""
        for request in batch:
            for clip in request.clips:
                for frame in clip.frames:
                    frame.jpeg()  # what every service needs
        time.sleep(self._seconds)
        return [Generation(request.reply(answer="A"), seconds=self._seconds) for request in batch]


def make_bench(folder: Path, questions: int) -> Path:
    (folder / "videos").mkdir()
    for number in range(4):
        with av.open(str(folder / f"videos/v{number}.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=10, options={"preset": "ultrafast", "g": "50"})
            stream.width, stream.height = 640, 360
            rows, columns = np.mgrid[0:360, 0:640]
            scene = np.stack([columns // 3, rows // 2, (rows + columns * (number + 1)) % 256], axis=-1).astype(np.uint8)
            for frame in range(600):
                picture = np.roll(scene, frame * 4, axis=1)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode())
    items = [
        Item(Question(f"q{n}", f"videos/v{n % 4}.mp4", "?", ("a", "b")), "A", (Interval(1, 2),), 60.0)
        for n in range(questions)
    ]
    return write_bench(items, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=48)
    parser.add_argument("--latency", type=float, default=0.5)
    parser.add_argument("--workers", default="1,2,4,8,16")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    run_options = RunOptions(backbones={"waiting": Waiting(options.latency)})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = load_bench(make_bench(folder, options.questions))
        alone = None
        print(f"uniform-16, {options.questions} questions, {options.latency:g} s a call, median of {options.repeats}")
        for workers in map(int, options.workers.split(",")):
            took = []
            for repeat in range(options.repeats if workers > 1 else 1):
                started = time.perf_counter()
                run(
                    bench,
                    [Job("uniform-16", "waiting")],
                    folder / f"out-{workers}-{repeat}",
                    partial(answer_locally, workers=workers),
                    options=run_options,
                )
                took.append(time.perf_counter() - started)
            seconds = statistics.median(took)
            alone = alone or seconds
            print(f"{workers:3d} workers: {seconds:6.2f} s, {alone / seconds:5.2f} x one worker")


if __name__ == "__main__":
    main()
