"""How fast sparse exact frames come out of a video as JPEG: this package beside torchcodec, decord, OpenCV and PyAV.

    python perf/decoding.py [--quick] [--repeats 5] [--folder out/benchmark-videos]

The row "limit" is the processor time of a bare loop over packets in memory that decodes only the frames that must be
decoded and makes the JPEGs that were asked for, and how many frames that are.

Videos are made once. Each approach runs in a separate process, so that its peak memory is its own; what cannot be
imported is left out with the reason. Every picture carries the number of its frame as a bar code, and every JPEG is
read back and checked: an approach that gives a wrong frame is reported beside its time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoding_approaches import APPROACHES, LIMIT, Bare
from decoding_films import WARM_UP, Film, films, make, read_number

if TYPE_CHECKING:
    from collections.abc import Sequence

DISTRIBUTIONS = ("trace-ves", "av", "torchcodec", "decord", "opencv-python-headless")


@dataclass(frozen=True)
class Job:
    """Moments to look at, and how many rows of pixels to give."""

    name: str
    height: int
    moments: tuple[float, ...]


def jobs(duration: float) -> list[Job]:
    def spread(start: float, length: float, count: int) -> tuple[float, ...]:
        return tuple(start + (index + 0.5) * length / count for index in range(count))

    clusters = tuple(moment for share in (0.13, 0.37, 0.61, 0.83) for moment in spread(duration * share, 4, 4))
    return [
        Job("32 uniform @224", 224, spread(0, duration, 32)),
        Job("16 in 16 s @448", 448, spread(duration * 0.4, 16, 16)),
        Job("4 x 4 in 4 s @448", 448, clusters),
        Job("1 frame @448", 448, (duration * 0.7 + 1.01,)),
    ]


def work(approach: str, path: str, film: Film) -> dict[str, Any]:
    """One run of one approach in this process: seconds for each job, wrong frames, and peak memory."""
    try:
        APPROACHES[approach](str(Path(path).with_name(WARM_UP.name)))((0.0,), 224)  # imports are not what is timed
        clock = _Clock()
        give = APPROACHES[approach](path)
    except (ImportError, RuntimeError, OSError) as error:
        return {"skipped": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"}
    seconds = {"open": clock.wall()}
    cpu = {"open": clock.cpu()}
    give((0.0,), 224)  # decoders for each size are made here, untimed
    give((0.0, 1.0), 448)
    if isinstance(give, Bare):
        give.cpu_seconds, give.frames_decoded = 0.0, 0
    wrong = {}
    frames = {}
    for job in jobs(film.duration):
        clock = _Clock()
        jpegs = give(job.moments, job.height)
        seconds[job.name], cpu[job.name] = clock.wall(), clock.cpu()
        if isinstance(give, Bare):
            cpu[job.name], frames[job.name] = give.cpu_seconds, give.frames_decoded
            give.cpu_seconds, give.frames_decoded = 0.0, 0
        expected = film.numbers_at(job.moments)
        wrong[job.name] = sum(read_number(jpeg) != number for jpeg, number in zip(jpegs, expected, strict=True))
    peak_mb = _peak_mb()
    clock = _Clock()
    again = APPROACHES[approach](path)
    seconds["open again"], cpu["open again"] = clock.wall(), clock.cpu()
    del again
    return {"wall": seconds, "cpu": cpu, "wrong": wrong, "peak_mb": peak_mb, "frames": frames}


class _Clock:
    """Wall-clock and processor seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def wall(self) -> float:
        return time.perf_counter() - self._wall

    def cpu(self) -> float:
        return time.process_time() - self._cpu


def _peak_mb() -> float:
    """The most memory this process held; getrusage would count the parent's as well."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(film: Film, path: Path, repeats: int, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Every approach in turn, round after round, so that a busy moment of the machine hits all alike."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            if found[name] and "skipped" in found[name][-1]:
                continue
            with tempfile.TemporaryDirectory() as cache:
                command = [sys.executable, __file__, "--worker", name, str(path), json.dumps(film.__dict__)]
                environment = os.environ | {"TRACE_VES_CACHE_DIR": cache}
                done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            lines = done.stdout.strip().splitlines()
            reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
            found[name].append(json.loads(lines[-1]) if done.returncode == 0 and lines else {"skipped": reason})
    return found


def report(film: Film, found: dict[str, list[dict[str, Any]]]) -> None:
    columns = [*(job.name for job in jobs(film.duration)), "open", "open again"]
    print(f"\n{film.name}: {film.width}x{film.height}, {film.duration} s, keyframe every {film.gop} frames.")
    print("Median wall-clock ms / processor ms (wall-clock as a multiple of ours)\n")
    print("| Approach | " + " | ".join(columns) + " | peak memory | wrong frames |")
    print("|---" * (len(columns) + 3) + "|")
    best = _medians(found["trace-ves"], "wall", columns)
    for name, runs in found.items():
        if "skipped" in runs[-1]:
            print(f"| {name} | left out: {runs[-1]['skipped']}" + " | " * (len(columns) + 1) + "|")
            continue
        if name == LIMIT:
            _report_limit(runs, _medians(found["trace-ves"], "cpu", columns), columns)
            continue
        wall, cpu = _medians(runs, "wall", columns), _medians(runs, "cpu", columns)
        cells = [f"{wall[key] * 1000:.0f} / {cpu[key] * 1000:.0f} ({wall[key] / best[key]:.1f}x)" for key in columns]
        wrong = sum(runs[-1]["wrong"].values())
        total = sum(len(job.moments) for job in jobs(film.duration))
        peak = statistics.median(run["peak_mb"] for run in runs)
        print(f"| {name} | " + " | ".join(cells) + f" | {peak:.0f} MB | {wrong} of {total} |", flush=True)


def _report_limit(runs: list[dict[str, Any]], ours: dict[str, float], columns: Sequence[str]) -> None:
    """How much of our processor time the bare loop takes for the frames that must be decoded."""
    cpu, frames = _medians(runs, "cpu", columns), runs[-1]["frames"]
    cells = [
        f"- / {cpu[key] * 1000:.0f} ({frames[key]} frames; ours is at {cpu[key] / ours[key]:.0%})"
        if key in frames
        else ""
        for key in columns
    ]
    print(f"| {LIMIT} | " + " | ".join(cells) + " | | |", flush=True)


def summary(measured: dict[str, dict[str, list[dict[str, Any]]]], columns: Sequence[str]) -> None:
    """All films in one table: ours in milliseconds, the others as multiples of it, in elapsed and CPU time."""
    print("\n| Film | | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for film, found in measured.items():
        usable = {name: runs for name, runs in found.items() if "skipped" not in runs[-1]}
        wall, cpu = (_medians(usable["trace-ves"], clock, columns) for clock in ("wall", "cpu"))
        limit = _medians(usable[LIMIT], "cpu", list(usable[LIMIT][-1]["frames"]))
        cells = [
            f"{wall[key] * 1000:.0f} / {cpu[key] * 1000:.0f}"
            + (f" ({limit[key] / cpu[key]:.0%})" if key in limit else "")
            for key in columns
        ]
        print(f"| {film} | ours{_wrong(usable['trace-ves'])} | " + " | ".join(cells) + " |")
        for name in [each for each in usable if each not in {"trace-ves", LIMIT}]:
            other_wall, other_cpu = (_medians(usable[name], clock, columns) for clock in ("wall", "cpu"))
            cells = [f"{other_wall[key] / wall[key]:.1f}x / {other_cpu[key] / cpu[key]:.1f}x" for key in columns]
            print(f"| | {name}{_wrong(usable[name])} | " + " | ".join(cells) + " |")
    print("\nOurs: ms elapsed / CPU (share of the limit); others as multiples of ours.", flush=True)


def _wrong(runs: list[dict[str, Any]]) -> str:
    count = sum(runs[-1]["wrong"].values())
    return f" ({count} wrong frames)" if count else ""


def _medians(runs: list[dict[str, Any]], clock: str, columns: Sequence[str]) -> dict[str, float]:
    return {key: statistics.median(run[clock][key] for run in runs) for key in columns}


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        approach, path, film = sys.argv[2:5]
        print(json.dumps(work(approach, path, Film(**json.loads(film)))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one-minute videos, and ten minutes for the long one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("out/benchmark-videos"))
    parser.add_argument("--only-make", action="store_true", help="make the videos and measure nothing")
    parser.add_argument("--films", default="", help="only films whose names contain one of these, A,B")
    parser.add_argument(
        "--approaches", default="", help="only ours and approaches whose names contain one of these, A,B"
    )
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if not (warm_up := chosen.folder / WARM_UP.name).exists():
        make(WARM_UP, warm_up)
    installed = {d.name.lower(): d.version for d in distributions() if d.name}
    print(", ".join(f"{name} {installed.get(name, 'not installed')}" for name in DISTRIBUTIONS), flush=True)
    wanted = chosen.approaches.split(",")
    names = [name for name in APPROACHES if name in {"trace-ves", LIMIT} or any(part in name for part in wanted)]
    measured: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for film in films(quick=chosen.quick):
        if not any(part in film.name for part in chosen.films.split(",")):
            continue
        path = chosen.folder / f"{film.duration}s-{film.name}"
        if not path.exists():
            print(f"making {path} ...", file=sys.stderr, flush=True)
            make(film, path)
        if chosen.only_make:
            continue
        measured[film.name] = measure(film, path, chosen.repeats, names)
        report(film, measured[film.name])
    if measured:
        summary(measured, [*(job.name for job in jobs(1.0)), "open", "open again"])


if __name__ == "__main__":
    main()
