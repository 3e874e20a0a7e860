"""The driver of a run on a large cluster, with fake workers in virtual time: its memory, and how long workers wait.

    python perf/cluster.py [--videos 10000] [--questions 10] [--nodes 50] [--workers 4] [--line-bytes 10000]

Dispatch and run file are the real ones; each line is written as it comes, and the driver's own time for it, as it is
measured, is added to the clock of the simulation. A question takes 8 to 14 s, opening a video 2 s. One node in fifty
fails every question at once.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.runs.cluster import FakeWorker, simulate, tasks

from trace_ves.records.run_file import RunConfiguration, RunFile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--videos", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=10, help="of each video")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--workers", type=int, default=4, help="of each node")
    parser.add_argument("--line-bytes", type=int, default=10_000)
    options = parser.parse_args()
    work = tasks(options.videos, options.questions)
    draw = random.Random(0)
    workers = [
        FakeWorker(seconds=0.05, fails=lambda _: True)
        if number < options.workers
        else FakeWorker(seconds=draw.uniform(8, 14))
        for number in range(options.nodes * options.workers)
    ]
    errors = written = 0
    took = 0.0
    with tempfile.TemporaryDirectory() as folder, RunFile(Path(folder), "run", RunConfiguration()) as run:

        def keep(_: object, prediction: object) -> None:
            nonlocal errors, written, took
            started = time.perf_counter()
            run.append(replace(prediction, trajectory={"filling": "x" * options.line_bytes}))
            took += time.perf_counter() - started
            written += 1
            errors += prediction.error is not None

        started = time.perf_counter()
        outcome = simulate(work, workers, driver_seconds=0.002, keep=keep)
        whole = time.perf_counter() - started
        size = run.path.stat().st_size
    good = [worker for worker in workers if worker not in outcome.dropped]
    idle = 1 - sum(worker.busy for worker in good) / (len(good) * outcome.seconds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(work):,} questions on {options.videos:,} videos, {options.nodes} nodes x {options.workers} workers")
    print(f"lines written {written:,} ({size / 1e9:.2f} GB), errors {errors}, asked {outcome.asked:,}")
    print(f"workers set aside {len(outcome.dropped)}, videos opened {sum(each.openings for each in workers):,}")
    each = 1e3 / len(work)
    print(f"driver: {memory:.0f} MB at most, {each * whole:.2f} ms a question, {each * took:.2f} of them for its line")
    print(f"workers waited {100 * idle:.2f} % of {outcome.seconds / 3600:.1f} hours, at 2 ms of the driver an answer")


if __name__ == "__main__":
    main()
