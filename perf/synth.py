"""How fast the twin's videos are drawn and encoded, beside the plain way: RGB frames and x264's default preset.

    python perf/synth.py [--seconds 60] [--repeats 3]

One process, one thread. Prints medians of CPU time, so that busy neighbours count little, and what a whole twin costs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av

from trace_ves.twin.synthetic.bench import frames_of, make_twin, write_film
from trace_ves.twin.synthetic.layout import FPS
from trace_ves.twin.synthetic.world import SceneSpan, VideoWorld

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = (0, 4, 0)


def beginning(world: VideoWorld, frames: int) -> VideoWorld:
    """The first frames of a world."""
    scenes = tuple(SceneSpan(s.scene, s.first, min(s.last, frames - 1)) for s in world.scenes if s.first < frames)
    return VideoWorld(frames, scenes, world.tracks, world.asked)


def write_plainly(world: VideoWorld, path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        stream.codec_context.thread_count = 1
        for number, planes in enumerate(frames_of(world, SEED)):
            frame = av.VideoFrame.from_ndarray(planes.rgb(), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="length of the video that is written")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    world = beginning(make_twin(24, 0)[0].world, arguments.seconds * FPS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "video.mp4"
        ways: dict[str, Callable[[], object]] = {
            "drawing only": lambda: sum(1 for _ in frames_of(world, SEED)),
            "drawing and encoding": lambda: write_film(world, SEED, path),
            "RGB frames, x264's default preset": lambda: write_plainly(world, path),
        }
        measured = {}
        for name, work in ways.items():
            measured[name] = world.frames / cpu_seconds(work, arguments.repeats)
            size = f"{path.stat().st_size / 1e6:6.2f} MB" if path.exists() else ""
            print(f"{name:36}{measured[name]:8.0f} frames/s{size:>14}", flush=True)
    ours, plain = measured["drawing and encoding"], measured["RGB frames, x264's default preset"]
    print(f"{ours / plain:.1f} times as fast as the plain way")
    for questions in (24, 600):
        frames = sum(video.world.frames for video in make_twin(questions, 0))
        print(f"{questions} questions: {frames} frames, {frames / ours / 2:.0f} s on two free cores")


if __name__ == "__main__":
    main()
