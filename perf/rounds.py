"""How long one question takes on an API: serial steps, and seconds behind a model that answers every call after 2 s.

    python perf/rounds.py [--questions 60] [--latency 2] [--methods trace,avp,vca,uniform-128] [--seed 901]

The questions are the twin's, answered by `lab` without videos, so that almost all of the time is waiting. Calls that a
method sends together wait together; what counts is how often it must wait for a reply before its next call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trace_ves.core import Termination
from trace_ves.observer import Observer
from trace_ves.runs.methods import default_budget, open_method
from trace_ves.twin.lab import Lab, WorldVideo
from trace_ves.twin.synthetic.bench import make_twin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.protocol import Generation, R, Request
    from trace_ves.core import Question
    from trace_ves.twin.synthetic.truth import VideoTruth


class SlowLab:
    """`lab`, whose batches take as long as one call of a remote model."""

    def __init__(self, latency: float) -> None:
        self._lab = Lab()
        self._latency = latency
        self.name = self._lab.name
        self.steps = 0

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer a batch after the latency."""
        self.steps += 1
        time.sleep(self._latency)
        return self._lab.generate(batch)


class Timing(NamedTuple):
    """One question."""

    settled: bool
    steps: int
    calls: int
    seconds: float


def answer(method: str, latency: float, asked: tuple[Question, VideoTruth]) -> Timing:
    question, truth = asked
    run, backbone, started = open_method(method), SlowLab(latency), time.monotonic()
    observer = Observer(WorldVideo(truth), backbone, budget=default_budget(run))
    found = run(question, observer)
    settled = found.termination is Termination.STABLE_PREFIX_FOUND
    return Timing(settled, backbone.steps, len(observer.log.calls), time.monotonic() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--methods", default="trace,avp,vca,uniform-128")
    parser.add_argument("--seed", type=int, default=901)
    options = parser.parse_args()
    twin = make_twin(options.questions, options.seed)
    asked = [(item.question, video.truth) for video in twin for item in video.items]
    print(f"{len(asked)} questions, seed {options.seed}, {options.latency:g} s a call; medians, 90th percentiles")
    print(f"{'method':14}{'ending':12}{'questions':>10}{'steps':>12}{'calls':>12}{'seconds':>16}")
    for method in options.methods.split(","):
        with ThreadPoolExecutor(8) as pool:
            timings = list(pool.map(partial(answer, method, options.latency), asked))
        for name, chosen in (("settled", [t for t in timings if t.settled]), ("all", timings)):
            if len(chosen) > 1:
                cells = [
                    f"{statistics.median(values):.4g} / {statistics.quantiles(values, n=10)[-1]:.4g}"
                    for values in list(zip(*chosen, strict=True))[1:]
                ]
                print(f"{method:14}{name:12}{len(chosen):>10}{cells[0]:>12}{cells[1]:>12}{cells[2]:>16}", flush=True)


if __name__ == "__main__":
    main()
