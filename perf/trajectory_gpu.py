"""One trajectory on a local model: a call of `generate` for each prefix bundle against one shared prefill.

Builds the Qwen3-VL-8B architecture with random weights on the GPU (nothing is downloaded), makes bundles of frames as
the agent does, and prints seconds, ratios and peak memory. `--tiny` runs the same on a small model, on the CPU too.

    python perf/trajectory_gpu.py --out OUT [--tiny] [--no-naive]            needs the extra hf
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from random_model import build
from trace_ves.backbone.hf.combining_queue import LocalRequest
from trace_ves.backbone.hf.decoder import BatchDecoder
from trace_ves.backbone.hf.grammar import Grammars, JsonGuide, ReplyState
from trace_ves.backbone.hf.plans import PromptTokens, plan_batch, plan_memory, split_batch
from trace_ves.backbone.hf.vision import encode, speed_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.backbone.hf.loading import Loaded
    from trace_ves.backbone.hf.vision import FrameFeatures

QUESTION_TOKENS, STAMP_TOKENS = 400, 8
CASES = {"4 anchors of 5, 4, 4, 3 frames": (5, 4, 4, 3), "12 anchors of 8 frames": (8,) * 12}
DECODING = "decode ms/token"
SCHEMA = {"type": "object", "properties": {"facts": {"type": "string", "minLength": 2000}}, "required": ["facts"]}
"""A reply that is longer than what is measured, so that every row is guided until the end."""


@dataclass(frozen=True)
class Size:
    """A model, and what it is shown and asked for."""

    tiny: bool
    grid: tuple[int, int, int]
    new_tokens: int


FULL = Size(tiny=False, grid=(1, 30, 40), new_tokens=96)
TINY = Size(tiny=True, grid=(1, 4, 6), new_tokens=8)


@dataclass(frozen=True)
class Subject:
    """The model that is measured."""

    loaded: Loaded
    grammars: Grammars

    @classmethod
    def of(cls, size: Size, device: str, dtype: torch.dtype) -> Subject:
        """A new one, made where it is used."""
        loaded = build(__doc__.splitlines(), tiny=size.tiny, device=device, dtype=dtype)
        speed_up(loaded.model)
        return cls(loaded, Grammars(loaded.tokenizer, loaded.model.config.text_config.vocab_size))

    @property
    def model(self) -> Any:
        """The model itself."""
        return self.loaded.model

    def guide(self, rows: int) -> JsonGuide:
        """Holds every row to the schema."""
        request, matcher = LocalRequest((), SCHEMA), self.grammars.matcher(SCHEMA)
        replies = [ReplyState.of(request, matcher, self.model.device) for _ in range(rows)]
        return JsonGuide(replies, self.grammars.vocabulary)


@dataclass(frozen=True)
class Trajectory:
    """The bundles of one round: each has one more clip than the one before."""

    rows: list[PromptTokens]
    pixels: torch.Tensor
    grids: torch.Tensor
    """Pictures of the largest bundle."""
    image: int
    """The token of a frame."""

    def naive_inputs(self, row: PromptTokens, patches: int, device: str) -> dict[str, torch.Tensor]:
        """What `generate` is called with for one bundle."""
        ids = torch.tensor([row.ids], device=device)
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": (ids == self.image).int(),
            "pixel_values": self.pixels[: len(row.frames) * patches],
            "image_grid_thw": self.grids[: len(row.frames)],
        }


def trajectory(clips: Sequence[int], size: Size, model: Any, *, seed: int = 1) -> Trajectory:
    random = torch.Generator().manual_seed(seed)
    config = model.config
    most = config.text_config.vocab_size - 1

    def words(count: int) -> list[int]:
        return [max(token, 10) for token in torch.randint(0, most, (count,), generator=random).tolist()]

    _, height, width = size.grid
    question, prefix, rows, ends = words(QUESTION_TOKENS), words(STAMP_TOKENS), [], list[int]()
    for clip in clips:
        prefix += words(STAMP_TOKENS)
        for _ in range(clip):
            prefix += [config.vision_end_token_id] * bool(ends) + words(STAMP_TOKENS) + [config.vision_start_token_id]
            prefix += [config.image_token_id] * (height * width // 4)
            ends.append(len(prefix))
        names = tuple(str(number) for number in range(len(ends)))
        rows.append(PromptTokens((*prefix, config.vision_end_token_id, *question), names, tuple(ends)))
    frames = len(ends)
    pixels = torch.randn(frames * height * width, 3 * 2 * config.vision_config.patch_size**2, generator=random)
    grids = torch.tensor([size.grid] * frames, device=model.device)
    return Trajectory(rows, pixels.to(model.device, model.dtype), grids, config.image_token_id)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], Any], device: str) -> tuple[float, Any]:
    wait(device)
    started = time.perf_counter()
    result = work()
    wait(device)
    return time.perf_counter() - started, result


def peak_gib(device: str) -> float:
    return torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")


def look(model: Any, case: Trajectory) -> dict[str, FrameFeatures]:
    """All frames of a case, 32 at a time."""
    features: list[FrameFeatures] = []
    patches = int(case.grids[0].prod())
    for start in range(0, len(case.grids), 32):
        pixels = case.pixels[start * patches : (start + 32) * patches]
        features += encode(model, pixels, case.grids[start : start + 32])
    return {str(number): one for number, one in enumerate(features)}


def measure_shared(subject: Subject, decoder: BatchDecoder, case: Trajectory, size: Size, *, repeats: int) -> Any:
    """Seconds of the whole trajectory and of its phases: the first time, and the median of the others."""
    model, device = subject.model, subject.model.device.type
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def answer(features: dict[str, FrameFeatures], guide: JsonGuide | None = None) -> Any:
        return decoder.generate(plan_batch(case.rows), features, guide, max_new_tokens=size.new_tokens)

    runs = []
    for _ in range(repeats + 1):
        vision, features = seconds_of(lambda: look(model, case), device)
        prefills, _ = seconds_of(lambda seen=features: decoder.first_logits(plan_batch(case.rows), seen), device)
        guide = subject.guide(len(case.rows))
        answers, _ = seconds_of(lambda seen=features, guide=guide: answer(seen, guide), device)
        step_ms = (answers - prefills) / max(size.new_tokens - 1, 1) * 1000
        runs.append({"vision": vision, "prefills": prefills, DECODING: step_ms, "total": vision + answers})
        print("  shared run:", {name: round(value, 4) for name, value in runs[-1].items()}, flush=True)
    warm = {name: statistics.median(run[name] for run in runs[1:]) for name in runs[0]}
    tokens = answer(features)  # as `generate` chooses them, to be compared with it
    return {"first": runs[0]["total"], "warm": warm, "tokens": tokens, "peak_gib": peak_gib(device)}


def measure_naive(model: Any, case: Trajectory, size: Size, device: str) -> Any:
    """One call of transformers' `generate` for each bundle, each with all its frames."""
    patches = size.grid[1] * size.grid[2]
    options = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    total, tokens = 0.0, []
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for number, row in enumerate(case.rows):
        inputs = case.naive_inputs(row, patches, device)
        if number == 0:
            model.generate(**inputs, max_new_tokens=4, **options)  # warm-up
        call = lambda inputs=inputs: model.generate(**inputs, max_new_tokens=size.new_tokens, **options)  # noqa: E731
        seconds, answer = seconds_of(call, device)
        total += seconds
        tokens.append(answer[0, len(row.ids) :].tolist())
    return {"total": total, "tokens": tokens, "peak_gib": peak_gib(device)}


def floor_seconds(model: Any, case: Trajectory, size: Size, device: str, shared: Any) -> float:
    """What no decoder could beat: the measured prefills, and weights and keys read once a token at memory speed."""
    edge = 65536 if device == "cuda" else 2048
    matrix = torch.zeros(edge, edge, dtype=torch.bfloat16, device=device)
    vector = torch.zeros(edge, dtype=torch.bfloat16, device=device)
    torch.mv(matrix, vector)
    read, _ = seconds_of(lambda: [torch.mv(matrix, vector) for _ in range(5)], device)
    bytes_per_second = 5 * matrix.numel() * 2 / read
    weights = sum(p.numel() * p.element_size() for p in model.model.language_model.parameters())
    config = model.config.text_config
    stored = 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * case.rows[-1].prefix_tokens
    step = (weights + stored) / bytes_per_second
    print(f"  memory {bytes_per_second / 1e12:.2f} TB/s, floor {step * 1000:.2f} ms a token", flush=True)
    return float(shared["warm"]["vision"] + shared["warm"]["prefills"] + step * (size.new_tokens - 1))


def equal_share(left: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Fraction of answers that are equal in full, and mean fraction of tokens before the first that differs."""
    agreed = []
    for one, other in zip(left, right, strict=True):
        same = [a == b for a, b in zip(one, other, strict=True)]
        agreed.append(same.index(False) / len(same) if False in same else 1.0)
    return sum(share == 1.0 for share in agreed) / len(agreed), statistics.mean(agreed)


def check_float32(device: str) -> None:
    """On this device, in float32, the shared road must give the tokens of separate calls."""
    subject = Subject.of(TINY, device, torch.float32)
    model = subject.model
    case = trajectory((5, 4, 4, 3), TINY, model)
    naive = measure_naive(model, case, TINY, device)
    shared = measure_shared(subject, BatchDecoder(model), case, TINY, repeats=1)
    whole, _ = equal_share(shared["tokens"], naive["tokens"])
    print(f"float32, tiny, {device}: {whole:.0%} of answers equal to separate calls", flush=True)


def measure_combined(model: Any, size: Size) -> dict[int, float]:
    """Seconds for a batch of each of 1, 8 and 32 questions, asked at once: 2 bundles of 8 and 16 frames each.

    What a combining queue gains over turns; frames are encoded before, since that takes as long either way.
    """
    device = model.device.type
    decoder = BatchDecoder(model)
    limits = plan_memory(decoder.shape, free_bytes=_free_bytes(device), own_tokens=QUESTION_TOKENS + size.new_tokens)
    print(f"  {limits}", flush=True)
    features = look(model, trajectory((8, 8), size, model))
    questions = [trajectory((8, 8), size, model, seed=seed).rows for seed in range(32)]
    found: dict[int, float] = {}

    def answer(rows: list[PromptTokens]) -> None:
        batches = split_batch(rows, max_rows=limits.max_rows, max_prefix_tokens=limits.max_prefix_tokens)
        for batch in batches:
            plan = plan_batch([rows[number] for number in batch])
            decoder.generate(plan, features, max_new_tokens=size.new_tokens)

    for count in (1, 8, 32):
        rows = [row for question in questions[:count] for row in question]
        answer(rows)  # captures the steps
        found[count] = statistics.median(seconds_of(lambda rows=rows: answer(rows), device)[0] for _ in range(3))
        gain = found[1] * count / found[count]
        print(
            f"  {count:2} questions at once: {found[count]:.2f} s, {gain:.1f}x as many a minute as in turns, "
            f"peak {peak_gib(device):.1f} GiB",
            flush=True,
        )
    return found


def _free_bytes(device: str) -> int:
    return int(torch.cuda.mem_get_info()[0]) if device == "cuda" else 8 * 2**30


def show_kernels(decoder: BatchDecoder, model: Any, case: Trajectory) -> None:
    """Where the GPU's time goes in decoding."""
    features = look(model, case)
    decoder.generate(plan_batch(case.rows), features, max_new_tokens=3)
    for tokens in (1, 17):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            decoder.generate(plan_batch(case.rows), features, max_new_tokens=tokens)
        table = profile.key_averages().table(sort_by="cuda_time_total", row_limit=14, max_name_column_width=70)
        print(f"kernels, both prefills and {tokens - 1} steps\n", table, flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, help="folder for results.json")
    options.add_argument("--tiny", action="store_true", help="a small model, to try the script")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--no-naive", action="store_true", help="leave out the slow alternative")
    options.add_argument("--combined", action="store_true", help="also batches of 1, 8 and 32 questions at once")
    options.add_argument("--kernels", action="store_true", help="print where the GPU's time goes")
    chosen = options.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = TINY if chosen.tiny else FULL
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, transformers {transformers.__version__}, {dtype}", flush=True)
    check_float32(device)
    seconds, subject = seconds_of(lambda: Subject.of(size, device, dtype), device)
    model = subject.model
    print(f"built in {seconds:.1f} s: {sum(p.numel() for p in model.parameters()) / 1e9:.2f} G weights", flush=True)
    cases = {title: trajectory(clips, size, model) for title, clips in CASES.items()}
    results: dict[str, Any] = {title: {} for title in cases}
    decoder = BatchDecoder(model)
    for title, case in cases.items():
        print(f"{title}: {len(case.rows[-1].ids)} tokens in the largest bundle", flush=True)
        found = results[title]
        found["shared"] = measure_shared(subject, decoder, case, size, repeats=chosen.repeats)
        found["floor"] = floor_seconds(model, case, size, device, found["shared"])
        if chosen.kernels and device == "cuda":
            show_kernels(decoder, model, case)
    if chosen.combined:
        print("questions answered together", flush=True)
        measure_combined(model, size)
    if not chosen.no_naive:
        for title, case in cases.items():
            results[title]["naive"] = measure_naive(model, case, size, device)
            print(f"  naive, {title}: {results[title]['naive']['total']:.2f} s", flush=True)
    report(results, size)
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "results.json").write_text(json.dumps(results, indent=1))


def report(results: dict[str, Any], size: Size) -> None:
    print(f"\nOne trajectory, {size.new_tokens} new tokens for each bundle; seconds, the warm ones medians")
    for title, found in results.items():
        shared, floor = found["shared"], found["floor"]
        warm = shared["warm"]
        print(f"\n{title}")
        print(f"  shared, first time    {shared['first']:8.2f}")
        print(f"  shared, warm          {warm['total']:8.2f}   peak {shared['peak_gib']:.1f} GiB")
        print(f"    vision              {warm['vision']:8.3f}")
        print(f"    prefills            {warm['prefills']:8.3f}")
        print(f"    ms a token          {warm[DECODING]:8.2f}")
        print(f"  floor                 {floor:8.2f}   shared is {warm['total'] / floor:.1f}x the floor")
        if naive := found.get("naive"):
            whole, part = equal_share(shared["tokens"], naive["tokens"])
            ratio = naive["total"] / warm["total"]
            print(
                f"  naive generate        {naive['total']:8.2f}   peak {naive['peak_gib']:.1f} GiB, {ratio:.1f}x shared"
            )
            print(f"  equal greedy answers  {whole:8.0%}   tokens before the first difference {part:.0%}")


if __name__ == "__main__":
    main()
