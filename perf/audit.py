"""How long an audit takes and how much memory: the paper's size, 100,000 questions in one run, and any other size.

    python perf/audit.py
    python perf/audit.py --questions 100000 --runs 8 [--folder KEPT]

Each figure of the first is the median of several runs in separate processes, so that peak memory is theirs. The
second writes such a bench and such runs (64 to 128 frames a line; about a gigabyte for each million lines), audits
them as `trace-ves audit` does, and prints time and memory by part. The bootstrap of the paper's size is timed against
the plain way, which draws rows for one resample after another.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

REPEATS = 3
LINES_AT_ONCE = 10_000
FPS = 30
LOOKS = 5000


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        print(json.dumps({"paper": paper_size, "large": large_file, "parts": by_part}[sys.argv[2]](*sys.argv[3:])))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=0)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="where the files are written, and kept")
    wanted = parser.parse_args()
    if wanted.questions:
        with kept_or_temporary(wanted.folder) as folder:
            any_size(folder, wanted.questions, wanted.runs)
        return
    report("600 questions x 8 runs x 1,000 resamples, all metrics", [child("paper") for _ in range(REPEATS)])
    with kept_or_temporary(None) as folder:
        write_world(folder, questions=100_000, runs=1)
        size = (folder / "runs/run-0.jsonl").stat().st_size / 1e6
        title = f"100,000 questions in one run, read from a file of {size:.0f} MB"
        report(title, [child("large", folder) for _ in range(REPEATS)])
    against_the_plain_way()


def child(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, __file__, "child", *map(str, arguments)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def report(title: str, results: list[dict[str, float]]) -> None:
    seconds = [result["seconds"] for result in results]
    memory = max(result["peak_mb"] for result in results)
    shown = ", ".join(f"{value:.2f}" for value in seconds)
    print(f"{title}\n    median {statistics.median(seconds):.2f} s of ({shown}), peak memory {memory:.0f} MB")


def measured(start: float) -> dict[str, float]:
    return {"seconds": time.perf_counter() - start, "peak_mb": peak_mb()}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 / 1e3 if sys.platform == "darwin" else 1e3)


@contextmanager
def kept_or_temporary(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# --- files of any size --------------------------------------------------------------------------


def write_world(folder: Path, *, questions: int, runs: int) -> None:
    """A bench and runs on it, a few thousand lines in memory at a time; what is there already is kept."""
    (folder / "runs").mkdir(exist_ok=True)
    if not (folder / "questions.jsonl").exists():
        write_bench(folder / "questions.jsonl", questions)
    for number in range(runs):
        path = folder / f"runs/run-{number}.jsonl"
        if not path.exists():
            write_run(path, questions, number)


def write_bench(path: Path, questions: int) -> None:
    rng = random.Random(0)
    with path.open("w") as file:
        for index in range(questions):
            starts = sorted(round(rng.uniform(0, 410), 2) for _ in range(rng.randint(2, 5)))
            question = {"id": f"q{index:07d}", "video": f"videos/v{index * 348 // 600:07d}.mp4", "duration": 434.0}
            question |= {
                "family": ("temporal-ordering", "event-counting")[index % 2],
                "question": "In which order do a red balloon, a blue van and a yellow door appear for the first time?",
                "options": ["balloon, van, door", "van, door, balloon", "door, balloon, van", "door, van, balloon"],
                "answer": rng.choice("ABCD"),
                "evidence": [[start, round(start + rng.uniform(4, 20), 2)] for start in starts],
            }
            file.write(json.dumps(question) + "\n")


def write_run(path: Path, questions: int, number: int) -> None:
    """Lines as an outsider writes them: 64 to 128 frames at a decoder's timestamps, in order of time.

    The frames are those of a few thousand looks that come again and again; the evidence they meet is always another.
    """
    rng = np.random.default_rng(number + 1)
    shown = [str(round(frame / FPS, 3)) for frame in range(int(434 * FPS))]
    gaps = rng.exponential(1.0, (LOOKS, 129)).cumsum(axis=1)
    places = (gaps[:, :128] / gaps[:, 128:] * len(shown)).astype(np.int64).tolist()
    looks = [
        f'"timestamps": [{", ".join([shown[place] for place in line[:many]])}], "frames_supplied": {many}, '
        for line, many in zip(places, rng.integers(64, 129, LOOKS).tolist(), strict=True)
    ]
    end = f'"method": "method-{number}", "termination": "single-pass"}}\n'
    with path.open("w") as file:
        for start in range(0, questions, LINES_AT_ONCE):
            count = min(LINES_AT_ONCE, questions - start)
            chosen, answers = rng.integers(0, LOOKS, count).tolist(), rng.integers(0, 4, count).tolist()
            file.writelines(
                f'{{"question_id": "q{start + at:07d}", "answer": "{"ABCD"[answers[at]]}", {looks[chosen[at]]}{end}'
                for at in range(count)
            )


def any_size(folder: Path, questions: int, runs: int) -> None:
    write_world(folder, questions=questions, runs=runs)
    size = sum(path.stat().st_size for path in folder.rglob("*.jsonl")) / 1e9
    load = os.getloadavg()[0]
    print(f"{questions:,} questions x {runs} runs, {size:.2f} GB, {os.cpu_count()} processors, load {load:.1f} before")
    parts = child("parts", folder)
    peak = parts.pop("peak_mb")
    clock, processor = (sum(column) for column in zip(*parts.values(), strict=True))
    print(f"    {clock:.1f} s, {processor:.1f} s of processor time, peak memory {peak:.0f} MB")
    for name, (seconds, processor) in parts.items():
        print(f"    {name:24} {seconds:7.1f} s, {processor:7.1f} s of processor time")


def by_part(folder: str) -> dict[str, object]:
    """What `trace-ves audit` does, with a clock between its parts."""
    from trace_ves.benches import load_bench
    from trace_ves.ves import audit, score_files
    from trace_ves.ves.terminal import report_text

    parts: dict[str, object] = {}
    with part(parts, "read the bench"):
        bench = load_bench(folder)
    with part(parts, "read and score runs"):
        runs = score_files(bench.items, [Path(folder) / "runs"], left_out=bench.left_out)
    with part(parts, "bootstrap and signature"):
        found = audit(bench.items, runs, left_out=bench.left_out)
    with part(parts, "tables"):
        report_text(found)
    return parts | {"peak_mb": peak_mb()}


@contextmanager
def part(parts: dict[str, object], name: str) -> Iterator[None]:
    clock, processor = time.perf_counter(), time.process_time()
    yield
    parts[name] = time.perf_counter() - clock, time.process_time() - processor


# --- the two fixed sizes ------------------------------------------------------------------------


def paper_size() -> dict[str, float]:
    from trace_ves.core import Interval, Question
    from trace_ves.records import Item, Prediction
    from trace_ves.ves import audit

    rng = random.Random(0)
    items, runs = [], {f"run-{number}": [] for number in range(8)}
    for index in range(600):
        evidence = tuple(Interval(start := rng.uniform(0, 400), start + 16) for _ in range(rng.randint(2, 5)))
        items.append(
            Item(Question(f"q{index}", f"v{index % 348}", "?", tuple("abcd"), "fg"[index % 2]), "A", evidence, 434.0)
        )
        for predictions in runs.values():
            times = tuple(rng.uniform(0, 434) for _ in range(98))
            predictions.append(Prediction(f"q{index}", rng.choice("ABCD"), times, 98))
    start = time.perf_counter()
    audit(items, runs, resamples=1000)
    return measured(start)


def large_file(folder: str) -> dict[str, float]:
    from trace_ves.benches import load_bench
    from trace_ves.ves import audit, score_files

    start = time.perf_counter()
    items = load_bench(folder).items
    audit(items, score_files(items, [Path(folder) / "runs"]), resamples=1000)
    return measured(start)


def against_the_plain_way() -> None:
    from trace_ves.ves.statistics import bootstrap

    values = np.random.default_rng(0).random((600, 8 * 13))

    def plain() -> None:
        generator = np.random.default_rng(0)
        for _ in range(1000):
            values[generator.integers(0, 600, 600)].mean(axis=0)

    ours = statistics.median(timed(lambda: bootstrap(values, resamples=1000, seed=0)) for _ in range(5))
    theirs = statistics.median(timed(plain) for _ in range(5))
    print(
        f"bootstrap of 600 x 104 values, 1,000 resamples\n"
        f"    weights and one product {ours * 1e3:.0f} ms, row by row {theirs * 1e3:.0f} ms: {theirs / ours:.1f} times"
    )


def timed(run: object) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
