"""A bench on one GPU: questions a minute with `hf:` when 1, 8 and 32 questions are asked at once.

    python perf/bench_gpu.py record requests.json.gz           # every request of TRACE on 32 questions of a twin
    python perf/bench_gpu.py run requests.json.gz [--tiny]     # answered by a local model, schemas on; the extra hf

Recording needs no GPU and no model: the requests are those that TRACE makes when `lab` answers, all stages of it. The
run builds the Qwen3-VL-8B architecture with random weights (nothing is downloaded), shows it noise of the recorded
sizes, and cuts replies after 96 tokens; `--tiny` is for trying the script. Beside our time it prints the limit: frames
through only the vision tower, the matrix work of all prefills at the measured throughput, and, for each step of the
longest chain of replies, the weights read at the measured bandwidth, with all keys that the rows see.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import torch
    from torch.nn import functional

    from trace_ves.backbone.hf.combining_queue import CombiningQueue
    from trace_ves.backbone.hf.decoder import DecodeStep
    from trace_ves.backbone.hf.grammar import JsonGuide
    from trace_ves.backbone.hf.kv_store import Prefill
    from trace_ves.backbone.hf.models import SharedPrefixModel
    from trace_ves.backbone.hf.vision import encode
except ModuleNotFoundError:
    pass  # recording needs none of them

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NEW_TOKENS = 96
SEED = 5


# --- recording ------------------------------------------------------------------------------------------------------


def record(out: Path, questions: int) -> None:
    """Write the requests of every question, in the batches in which TRACE makes them."""
    from trace_ves import TRACE, evaluate
    from trace_ves.backbone import open_backbone
    from trace_ves.backbone.provider import lay_out
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
                        "schema": request.reply.model_json_schema(),
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


class Stopwatch:
    """Seconds of the thread that holds the model, by what it does; and what the work was."""

    def __init__(self, model: Any) -> None:
        decoder = model._decoder
        self.seconds: Counter[str] = Counter()
        self.prefills: list[
            list[tuple[int, int]]
        ] = []  # of each batch, the tokens of each stretch, and of what it sees
        self._undo: list[tuple[Any, str, Any]] = []
        self._time(model.vision, "features", "frames")
        self._time(decoder, "_start", "prefill")
        self._time(decoder, "generate", "decoding")
        self._time(JsonGuide, "prepare", "masks")
        self._time(JsonGuide, "take", "masks")
        self._time(DecodeStep, "_capture", "capture of new steps")
        self._time(model, "complete", "model")
        chunks = Prefill.chunks

        def note(prefill: Prefill, tokens: int) -> Any:
            stretches = [one for one in prefill.stretches if one.tokens]
            seen = [one.before.stop - one.before.start + one.done + one.tokens for one in stretches]
            self.prefills.append([(one.tokens, keys) for one, keys in zip(stretches, seen, strict=True)])
            return chunks(prefill, tokens)

        self._replace(Prefill, "chunks", note)
        self.prefix_tokens = self.distinct_tokens = 0  # of all rows, and without what several rows of a batch share
        begin = DecodeStep.begin

        def note_prefixes(step: DecodeStep, prefixes: Sequence[slice], *args: Any, **options: Any) -> None:
            self.prefix_tokens += sum(one.stop - one.start for one in prefixes)
            self.distinct_tokens += max(one.stop for one in prefixes)
            begin(step, prefixes, *args, **options)

        self._replace(DecodeStep, "begin", note_prefixes)

    def _replace(self, owner: Any, name: str, work: Any) -> None:
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, work)

    def _time(self, owner: Any, name: str, title: str) -> None:
        work = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return work(*args, **options)
            except Exception:
                traceback.print_exc()  # the queue would answer one by one, and the figures would only look bad
                raise
            finally:
                if title in ("frames", "prefill"):
                    wait()  # else their time on the GPU would be counted where the next stage waits for it
                self.seconds[title] += time.perf_counter() - started

        self._replace(owner, name, timed)

    def stop(self) -> None:
        """Leave everything as it was."""
        for owner, name, work in reversed(self._undo):
            setattr(owner, name, work)


def wait() -> None:
    """Until the GPU has nothing to do."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Machine:
    """What the machine does at best, measured for a second each, so that its clock is that of sustained work."""

    operations: float  # of matrix products, a second
    bytes: float  # read from memory, a second
    frame_seconds: float  # only the vision tower, for a frame
    shape: Any
    weights: int  # numbers of the layers, each of which multiplies every token
    head: int  # numbers of the last product, which only new tokens need

    @classmethod
    def measure(cls, model: Any, language_model: Any, pictures: Sequence[Any]) -> Machine:
        """Of this machine, with products like the model's."""
        shape, device, dtype = model._decoder.shape, language_model.device, language_model.dtype
        config = language_model.config.text_config
        tokens = torch.randn(16_384 if device.type == "cuda" else 64, shape.hidden_size, device=device, dtype=dtype)
        matrix = torch.randn(2 * shape.intermediate_size, shape.hidden_size, device=device, dtype=dtype)
        product = rate(lambda: functional.linear(tokens, matrix))
        large = torch.randn(2**15 if device.type == "cuda" else 2**9, 2**15, device=device, dtype=dtype)
        vector = large[0].clone()
        read = rate(lambda: torch.mv(large, vector))
        begun = model.vision.begin({str(number): frame for number, frame in enumerate(pictures)})
        patches, grids = (torch.cat(one) for one in zip(*(one.patches.result() for one in begun.values()), strict=True))
        pixels = model.vision._normalise(patches)
        seen = rate(lambda: encode(language_model, pixels, grids))
        layers = sum(one.numel() for one in language_model.model.language_model.layers.parameters())
        return cls(
            2 * tokens.numel() * matrix.shape[0] * product,
            large.nbytes * read,
            1 / (seen * len(pictures)),
            shape,
            layers,
            config.vocab_size * config.hidden_size,
        )

    def prefill(self, batches: Sequence[Sequence[tuple[int, int]]]) -> float:
        """Seconds of the matrix work of prefills, attention included."""
        attention = 4 * self.shape.heads * self.shape.head_size * self.shape.layers
        work = sum(
            2 * tokens * self.weights + attention * tokens * (keys - tokens / 2)
            for batch in batches
            for tokens, keys in batch
        )
        return work / self.operations

    def decoding(self, steps: int, key_tokens: float) -> float:
        """Seconds of as many steps, which read the weights once and these keys in all."""
        weights = (self.weights + self.head) * self.shape.bytes_per_number
        return (steps * weights + key_tokens * self.shape.key_value_bytes) / self.bytes


def rate(work: Callable[[], Any]) -> float:
    """How often a second."""
    work()
    wait()
    started, times = time.perf_counter(), 0
    while (seconds := time.perf_counter() - started) < 1:
        for _ in range(5):
            work()
        wait()
        times += 5
    return times / seconds


def load_requests(path: Path) -> list[list[list[Any]]]:
    """Questions, each a list of batches of `LocalRequest`."""
    from trace_ves.backbone.hf.combining_queue import LocalRequest
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


@dataclass
class Answers:
    """One measurement."""

    seconds: float
    questions: int
    stopwatch: Stopwatch
    replies: list[list[list[tuple[int, int]]]]  # tokens of prompt and reply, of each request of each batch
    frames: int

    def limit(self, machine: Machine, workers: int) -> dict[str, float]:
        """Seconds that no engine could beat, by kind of work.

        A worker's steps follow each other, and each reads the weights; steps of several workers may be the same.
        """
        busy = [0] * workers
        key_tokens = 0.0
        alone = self.stopwatch.distinct_tokens / self.stopwatch.prefix_tokens
        for question in self.replies:
            first = busy.index(min(busy))
            busy[first] += sum(max(reply for _, reply in batch) - 1 for batch in question)
            rows = [row for batch in question for row in batch]
            key_tokens += sum((reply - 1) * (alone * prompt + reply / 2) for prompt, reply in rows)
        return {
            "frames": self.frames * machine.frame_seconds,
            "prefill": machine.prefill(self.stopwatch.prefills),
            "decoding": machine.decoding(max(busy), key_tokens),
        }


def answer(model: Any, questions: Sequence[list[list[Any]]], workers: int) -> Answers:
    """Answer the questions, so many at once; each asks for a batch when it has the one before."""
    for part in (model._decoder, model.vision):
        part._cache.clear()  # what an earlier measurement saw would make this one look faster than it is
    stopwatch, encoded = Stopwatch(model), model.vision.frames_encoded
    queue: CombiningQueue[Any] = CombiningQueue(model)
    replies: list[list[list[tuple[int, int]]]] = [[] for _ in questions]
    numbers, lock = count(), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(numbers)
            if number >= len(questions):
                return
            for batch in questions[number]:
                said, _ = queue.complete(batch)
                replies[number].append([(one.usage.input_tokens, one.usage.output_tokens) for one in said])

    started = time.perf_counter()
    try:
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(work) for _ in range(workers)]:
                done.result()
        seconds = time.perf_counter() - started
    finally:
        stopwatch.stop()
    return Answers(seconds, len(questions), stopwatch, replies, model.vision.frames_encoded - encoded)


def run(path: Path, *, tiny: bool, workers: Sequence[int], at_most: int) -> None:
    """Print questions a minute for each number of workers, the limit of the same work, and where the rest goes."""
    from random_model import build

    questions = load_requests(path)
    requests = [one for question in questions for batch in question for one in batch]
    texts = [part.text for one in requests for part in one.content if hasattr(part, "text")]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    loaded = build(texts, tiny=tiny, device=device)
    model = SharedPrefixModel(loaded, max_new_tokens=NEW_TOKENS)
    print(f"{name}, torch {torch.__version__}; {len(questions)} questions; {model.limits}", flush=True)
    answer(model, questions[:1], 1)  # warm-up
    machine = Machine.measure(model, loaded.model, requests[0].frames)
    print(
        f"matrix products {machine.operations / 1e12:.0f} TFLOP/s, memory {machine.bytes / 1e12:.2f} TB/s, "
        f"vision tower {1000 * machine.frame_seconds:.2f} ms a frame",
        flush=True,
    )
    for number in workers:
        few = questions[: max(1, min(len(questions), at_most * number))]
        report(answer(model, few, number), machine, number)


def report(answers: Answers, machine: Machine, workers: int) -> None:
    """Print one measurement."""
    limit, watch = answers.limit(machine, workers), answers.stopwatch.seconds
    parts = {part: watch[part] for part in ("frames", "prefill")}
    parts["decoding"] = watch["decoding"] - watch["prefill"] - watch["capture of new steps"]
    parts["capture of new steps"] = watch["capture of new steps"]
    parts["other work of the model's thread"] = watch["model"] - sum(parts.values())
    parts["nothing to answer"] = answers.seconds - watch["model"]
    whole, best, each = answers.seconds, sum(limit.values()), answers.questions
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else float("nan")
    lengths = [[max(reply for _, reply in batch) for batch in question] for question in answers.replies]
    print(
        f"{workers:3} at once: {60 * each / whole:5.1f} questions a minute, limit {60 * each / best:5.1f}: "
        f"{best / whole:.0%} of it; {each} questions, {len(answers.stopwatch.prefills)} batches of "
        f"{sum(map(len, (b for q in answers.replies for b in q))) / len(answers.stopwatch.prefills):.1f} rows, "
        f"steps of the longest question {max(map(sum, lengths))}, peak {peak:.0f} GiB"
    )
    for part, seconds in parts.items():
        floor = f", limit {limit[part] / each:5.2f}" if part in limit else ""
        lost = (seconds - limit.get(part, 0.0)) / whole
        print(f"      {part:34} {seconds / each:5.2f} s a question{floor:14} lost {lost:4.0%}")
    print(f"      masks on the CPU, beside the steps  {watch['masks'] / each:5.2f} s a question", flush=True)


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
