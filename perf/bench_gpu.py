"""A bench on one GPU: questions a minute with `hf:` when 1, 8 and 32 questions are asked at once.

    python perf/bench_gpu.py record requests.json.gz           # every request of TRACE on 32 questions of a twin
    python perf/bench_gpu.py run requests.json.gz [--tiny]     # answered by a local model, schemas on

Recording needs no GPU and no model: the requests are those that TRACE makes when `lab` answers, all stages of it. The
run builds the Qwen3-VL-8B architecture with random weights (nothing is downloaded), shows it noise of the recorded
sizes, and cuts replies after as many tokens in every row; `--tiny` is for trying the script.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

NEW_TOKENS = 96
SEED = 5


# --- recording ------------------------------------------------------------------------------------------------------


def record(out: Path, questions: int) -> None:
    """Write the requests of every question, in the batches in which TRACE makes them."""
    from trace_ves import TRACE, evaluate
    from trace_ves.backbone import open_backbone
    from trace_ves.backbone.provider import lay_out
    from trace_ves.backbone.replies import reply_schema
    from trace_ves.twin.synthetic.bench import make_twin, write_twin

    lab: Any = open_backbone("lab")
    found: list[list[Any]] = []

    def described(part: Any) -> Any:
        return part.text if hasattr(part, "text") else part

    class Recorder:
        name = "lab"

        def open_video(self, path: Path) -> Any:
            return lab.open_video(path)

        def generate(self, batch: Any) -> Any:
            found[-1].append(
                [
                    {
                        "stage": request.stage,
                        "content": [
                            described(part)
                            for part in lay_out(
                                request,
                                lambda frame, _: [
                                    frame.picture.digest,
                                    frame.pts,
                                    frame.picture.width,
                                    frame.picture.height,
                                ],
                            )
                        ],
                        "schema": reply_schema(request.reply),
                    }
                    for request in batch
                ]
            )
            return lab.generate(batch)

    def trace(question: Any, observer: Any) -> Any:
        found.append([])
        return TRACE(question, observer)

    with tempfile.TemporaryDirectory() as folder:
        write_twin(Path(folder) / "twin", make_twin(questions, SEED), videos=False)
        evaluate(Path(folder) / "twin", {"trace": trace}, Recorder(), out=Path(folder) / "runs", budget=None, workers=1)
    with gzip.open(out, "wt", encoding="utf-8") as file:
        json.dump(found, file)
    batches = [batch for question in found for batch in question]
    rows = [request for batch in batches for request in batch]
    frames = sum(not isinstance(part, str) for request in rows for part in request["content"])
    print(
        f"{out}: {len(found)} questions, {len(batches) / len(found):.1f} batches of {len(rows) / len(batches):.1f} "
        f"requests and {frames / len(found):.0f} frames a question"
    )


# --- running --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise:
    """A picture of noise; satisfies `core.Picture`."""

    seed: int
    width: int
    height: int

    def rgb(self) -> Any:
        """Height x width x 3."""
        return _noise(self.seed, self.width, self.height)

    def jpeg(self, quality: int = 90) -> bytes:
        """Not needed here."""
        raise NotImplementedError


@lru_cache(maxsize=4096)
def _noise(seed: int, width: int, height: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@dataclass
class Counted:
    """A model that notes how its batches were made up, and how long it saw and decoded."""

    model: Any
    rows: list[int] = field(default_factory=list)
    busy_seconds: float = 0.0
    vision_seconds: float = 0.0

    def __post_init__(self) -> None:
        features = self.model.vision.__class__.features

        def timed(frames: Any) -> Any:
            started = time.perf_counter()
            try:
                return features(self.model.vision, frames)
            finally:
                self.vision_seconds += time.perf_counter() - started

        self.model.vision.features = timed

    def complete(self, requests: Sequence[Any]) -> Any:
        """One completion for each request."""
        started = time.perf_counter()
        self.rows.append(len(requests))
        try:
            return self.model.complete(requests)
        except Exception:
            traceback.print_exc()  # the queue would answer one by one, and the figures would only look bad
            raise
        finally:
            self.busy_seconds += time.perf_counter() - started


def load_requests(path: Path) -> list[list[list[Any]]]:
    """Questions, each a list of batches of `LocalRequest`."""
    from trace_ves.backbone.hf.chat_format import LocalRequest
    from trace_ves.backbone.provider import TextPart
    from trace_ves.core import Frame

    frames: dict[tuple[Any, ...], Frame] = {}

    def part(recorded: Any) -> Any:
        if isinstance(recorded, str):
            return TextPart(recorded)
        key = tuple(recorded)
        if key not in frames:
            frames[key] = Frame(key[1], 0.0, Noise(len(frames), key[2], key[3]))
        return frames[key]

    with gzip.open(path, "rt", encoding="utf-8") as file:
        questions = json.load(file)
    return [
        [[LocalRequest(tuple(map(part, one["content"])), one["schema"]) for one in batch] for batch in question]
        for question in questions
    ]


def questions_a_minute(model: Any, questions: Sequence[list[list[Any]]], workers: int) -> dict[str, float]:
    """Answer the questions, so many at once; each asks for a batch when it has the one before."""
    from trace_ves.backbone.hf.combining_queue import CombiningQueue

    model.forget()  # what an earlier measurement saw would make this one look faster than it is
    counted = Counted(model)
    queue = CombiningQueue(counted)
    numbers, lock = count(), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(numbers)
            if number >= len(questions):
                return
            for batch in questions[number]:
                queue.complete(batch)

    started = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work) for _ in range(workers)]:
            done.result()
    seconds = time.perf_counter() - started
    return {
        "questions a minute": 60 * len(questions) / seconds,
        "rows in a batch": sum(counted.rows) / len(counted.rows),
        "busy": counted.busy_seconds / seconds,
        "vision": counted.vision_seconds / seconds,
    }


def run(path: Path, *, tiny: bool, workers: Sequence[int], at_most: int) -> None:
    """Print questions a minute for each number of workers."""
    import torch

    from random_model import build
    from trace_ves.backbone.hf.models import SharedPrefixModel

    questions = load_requests(path)
    texts = [
        part.text
        for question in questions
        for batch in question
        for one in batch
        for part in one.content
        if hasattr(part, "text")
    ]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    model = SharedPrefixModel(build(texts, tiny=tiny, device=device), max_new_tokens=NEW_TOKENS)
    print(f"{name}, torch {torch.__version__}; {len(questions)} questions; {model.limits}", flush=True)
    questions_a_minute(model, questions[:1], 1)  # warm-up
    first = 0.0
    for number in workers:
        few = questions[: max(1, min(len(questions), at_most * number))]
        found = questions_a_minute(model, few, number)
        first = first or found["questions a minute"]
        peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
        print(
            f"{number:3} at once: {found['questions a minute']:7.1f} questions a minute "
            f"({found['questions a minute'] / first:.1f}x) over {len(few)} questions, "
            f"{found['rows in a batch']:.1f} rows a batch, model busy {found['busy']:.0%} (frames "
            f"{found['vision']:.0%}), peak {peak:.1f} GiB",
            flush=True,
        )


def main() -> None:
    """Record or run."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["record", "run"])
    options.add_argument("requests", type=Path)
    options.add_argument("--questions", type=int, default=32, help="questions to record")
    options.add_argument("--tiny", action="store_true", help="a small model, to try the script")
    options.add_argument("--workers", type=int, nargs="+", default=[1, 8, 32], help="questions asked at once")
    options.add_argument("--each", type=int, default=6, help="questions for each worker, where there are as many")
    chosen = options.parse_args()
    if chosen.what == "record":
        record(chosen.requests, chosen.questions)
    else:
        run(chosen.requests, tiny=chosen.tiny, workers=chosen.workers, at_most=chosen.each)


if __name__ == "__main__":
    main()
