"""How long an audit takes and how much memory: the paper's size, and 100,000 questions from a file.

    python perf/audit.py

Each figure is the median of several runs in processes of their own, so that peak memory is theirs.
The bootstrap is also timed against the plain way, which draws rows for one resample after another.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

REPEATS = 3


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps({"paper": paper_size, "large": large_file}[sys.argv[1]](*sys.argv[2:])))
        return
    report("600 questions x 8 runs x 1,000 resamples, all metrics", [child("paper") for _ in range(REPEATS)])
    with tempfile.TemporaryDirectory() as folder:
        write_large(Path(folder), questions=100_000, frames=64)
        size = (Path(folder) / "run.jsonl").stat().st_size / 1e6
        title = f"100,000 questions in one run, read from a file of {size:.0f} MB"
        report(title, [child("large", folder) for _ in range(REPEATS)])
    against_the_plain_way()


def child(*arguments: str) -> dict[str, float]:
    return json.loads(subprocess.run([sys.executable, __file__, *arguments], capture_output=True, check=True).stdout)


def report(title: str, results: list[dict[str, float]]) -> None:
    seconds = [result["seconds"] for result in results]
    memory = max(result["peak_mb"] for result in results)
    shown = ", ".join(f"{value:.2f}" for value in seconds)
    print(f"{title}\n    median {statistics.median(seconds):.2f} s of ({shown}), peak memory {memory:.0f} MB")


def measured(start: float) -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 / 1e3 if sys.platform == "darwin" else 1e3)
    return {"seconds": time.perf_counter() - start, "peak_mb": peak}


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


def write_large(folder: Path, *, questions: int, frames: int) -> None:
    rng = random.Random(0)
    with (folder / "questions.jsonl").open("w") as bench, (folder / "run.jsonl").open("w") as run:
        for index in range(questions):
            evidence = [[start := round(rng.uniform(0, 400), 2), start + 16] for _ in range(3)]
            question = {"id": f"q{index}", "video": f"v{index // 2}", "duration": 434.0, "family": "fg"[index % 2]}
            question |= {"question": "?", "options": list("abcd"), "answer": "A", "evidence": evidence}
            times = [round(rng.uniform(0, 434), 3) for _ in range(frames)]
            bench.write(json.dumps(question) + "\n")
            run.write(json.dumps({"question_id": f"q{index}", "answer": "A", "timestamps": times}) + "\n")


def large_file(folder: str) -> dict[str, float]:
    from trace_ves.benchmarks import load_bench
    from trace_ves.ves import audit, load_runs

    start = time.perf_counter()
    audit(load_bench(folder).items, load_runs([Path(folder) / "run.jsonl"]), resamples=1000)
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
