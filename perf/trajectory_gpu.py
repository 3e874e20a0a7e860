"""One trajectory on a local model: a call of `generate` for each prefix bundle against one shared prefill.

Builds the Qwen3-VL-8B architecture with random weights on the GPU (nothing is downloaded), makes bundles of frames as
the agent does, and prints seconds, ratios and peak memory. `--tiny` runs the same on a small model, on the CPU too.

    PYTHONPATH=src python perf/trajectory_gpu.py --out OUT
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

SRC = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SRC))
# Only the decoder is measured. Its package would import pydantic, which a machine with a GPU need not have.
sys.modules["trace_ves.backbone"] = types.ModuleType("trace_ves.backbone")
sys.modules["trace_ves.backbone"].__path__ = [str(SRC / "trace_ves" / "backbone")]

from trace_ves.backbone.transformers.batch_plan import PromptTokens, micro_batches, plan_batch  # noqa: E402
from trace_ves.backbone.transformers.decoder import BatchDecoder, Unguided  # noqa: E402  after the path is set
from trace_ves.backbone.transformers.memory_plan import plan_memory  # noqa: E402
from trace_ves.backbone.transformers.vision import encode  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.backbone.transformers.vision import FrameFeatures

IMAGE, VIDEO, VISION_START, VISION_END = 151655, 151656, 151652, 151653
QUESTION_TOKENS, STAMP_TOKENS = 400, 8
CASES = {"4 anchors of 5, 4, 4, 3 frames": (5, 4, 4, 3), "12 anchors of 8 frames": (8,) * 12}
DECODING = "decode ms/token"


@dataclass(frozen=True)
class Size:
    """A model to build and the frames to show it."""

    text: dict[str, Any]
    vision: dict[str, Any]
    grid: tuple[int, int, int]
    new_tokens: int


FULL = Size(
    text={
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]},
    },
    vision={
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "out_hidden_size": 4096,
        "patch_size": 16,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    },
    grid=(1, 30, 40),
    new_tokens=96,
)
TINY = Size(
    text={
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2]},
    },
    vision={
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": 16,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    },
    grid=(1, 4, 6),
    new_tokens=8,
)


def build(size: Size, device: str, dtype: torch.dtype) -> Any:
    """The architecture with random weights, made where it is used."""
    text = {"vocab_size": 151936, "max_position_embeddings": 262144, "tie_word_embeddings": False} | size.text
    config = transformers.Qwen3VLConfig(
        text_config=text,
        vision_config=size.vision,
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = transformers.Qwen3VLForConditionalGeneration(config)
    torch.set_default_dtype(torch.float32)
    return model.eval().to(device)  # buffers that were made elsewhere follow


@dataclass(frozen=True)
class Trajectory:
    """The bundles of one round: each has one more clip than the one before."""

    rows: list[PromptTokens]
    pixels: torch.Tensor
    grids: torch.Tensor
    """Pictures of the largest bundle."""

    def naive_inputs(self, row: PromptTokens, patches: int, device: str) -> dict[str, torch.Tensor]:
        """What `generate` is called with for one bundle."""
        ids = torch.tensor([row.ids], device=device)
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": (ids == IMAGE).int(),
            "pixel_values": self.pixels[: len(row.frames) * patches],
            "image_grid_thw": self.grids[: len(row.frames)],
        }


def trajectory(clips: Sequence[int], size: Size, device: str, dtype: torch.dtype, *, seed: int = 1) -> Trajectory:
    random = torch.Generator().manual_seed(seed)

    def words(count: int) -> list[int]:
        return torch.randint(0, 150000, (count,), generator=random).tolist()

    _, height, width = size.grid
    question, prefix, rows, ends = words(QUESTION_TOKENS), words(STAMP_TOKENS), [], list[int]()
    for clip in clips:
        prefix += words(STAMP_TOKENS)
        for _ in range(clip):
            prefix += [VISION_END] * bool(ends) + words(STAMP_TOKENS) + [VISION_START]
            prefix += [IMAGE] * (height * width // 4)
            ends.append(len(prefix))
        names = tuple(str(number) for number in range(len(ends)))
        rows.append(PromptTokens((*prefix, VISION_END, *question), names, tuple(ends)))
    frames = len(ends)
    patches = frames * height * width
    pixels = torch.randn(patches, 3 * 2 * size.vision["patch_size"] ** 2, generator=random)
    return Trajectory(rows, pixels.to(device, dtype), torch.tensor([size.grid] * frames, device=device))


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


def measure_shared(model: Any, decoder: BatchDecoder, case: Trajectory, size: Size, *, repeats: int) -> Any:
    """Seconds of the whole trajectory and of its phases: the first time, and the median of the others."""
    device = model.device.type
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def look() -> dict[str, FrameFeatures]:
        features: list[FrameFeatures] = []
        patches = size.grid[1] * size.grid[2]
        for start in range(0, len(case.grids), 32):
            pixels = case.pixels[start * patches : (start + 32) * patches]
            features += encode(model, pixels, case.grids[start : start + 32])
        return {str(number): one for number, one in enumerate(features)}

    runs = []
    tokens: Any = None
    for _ in range(repeats + 1):
        vision, features = seconds_of(look, device)
        prefills, _ = seconds_of(lambda seen=features: decoder.first_logits(plan_batch(case.rows), seen), device)
        answers, tokens = seconds_of(
            lambda seen=features: decoder.generate(
                plan_batch(case.rows), seen, Unguided(), max_new_tokens=size.new_tokens
            ),
            device,
        )
        step_ms = (answers - prefills) / max(size.new_tokens - 1, 1) * 1000
        runs.append({"vision": vision, "prefills": prefills, DECODING: step_ms, "total": vision + answers})
        print("  shared run:", {name: round(value, 4) for name, value in runs[-1].items()}, flush=True)
    warm = {name: statistics.median(run[name] for run in runs[1:]) for name in runs[0]}
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
    model = build(TINY, device, torch.float32)
    case = trajectory((5, 4, 4, 3), TINY, device, torch.float32)
    naive = measure_naive(model, case, TINY, device)
    shared = measure_shared(model, BatchDecoder(model), case, TINY, repeats=1)
    whole, _ = equal_share(shared["tokens"], naive["tokens"])
    print(f"float32, tiny, {device}: {whole:.0%} of answers equal to separate calls", flush=True)


def measure_combined(model: Any, size: Size) -> dict[int, float]:
    """Seconds for a batch of each of 1, 8 and 32 questions, asked at once: 2 bundles of 8 and 16 frames each.

    What a combining queue gains over turns; frames are encoded before, since that takes as long either way.
    """
    device, dtype = model.device.type, model.dtype
    decoder = BatchDecoder(model)
    limits = plan_memory(decoder.shape, free_bytes=_free_bytes(device), own_tokens=QUESTION_TOKENS + size.new_tokens)
    print(f"  {limits}", flush=True)
    shown = trajectory((8, 8), size, device, dtype)
    features = {str(number): one for number, one in enumerate(encode(model, shown.pixels, shown.grids))}
    questions = [trajectory((8, 8), size, device, dtype, seed=seed).rows for seed in range(32)]
    found: dict[int, float] = {}

    def answer(rows: list[PromptTokens]) -> None:
        batches = micro_batches(rows, max_rows=limits.max_rows, max_prefix_tokens=limits.max_prefix_tokens)
        for batch in batches:
            plan = plan_batch([rows[number] for number in batch])
            decoder.generate(plan, features, Unguided(), max_new_tokens=size.new_tokens)

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
    features = {str(n): one for n, one in enumerate(encode(model, case.pixels, case.grids))}
    decoder.generate(plan_batch(case.rows), features, Unguided(), max_new_tokens=3)
    for tokens in (1, 17):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            decoder.generate(plan_batch(case.rows), features, Unguided(), max_new_tokens=tokens)
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
    seconds, model = seconds_of(lambda: build(size, device, dtype), device)
    print(f"built in {seconds:.1f} s: {sum(p.numel() for p in model.parameters()) / 1e9:.2f} G weights", flush=True)
    cases = {title: trajectory(clips, size, device, dtype) for title, clips in CASES.items()}
    results: dict[str, Any] = {title: {} for title in cases}
    for title, case in cases.items():
        print(f"{title}: {len(case.rows[-1].ids)} tokens in the largest bundle", flush=True)
        decoder = BatchDecoder(model)
        found = results[title]
        found["shared"] = measure_shared(model, decoder, case, size, repeats=chosen.repeats)
        found["floor"] = floor_seconds(model, case, size, device, found["shared"])
        if chosen.kernels and device == "cuda":
            show_kernels(decoder, model, case)
    if chosen.combined:
        print("questions answered together", flush=True)
        measure_combined(model, size)
    if not chosen.no_naive:
        model.model.language_model.set_attn_implementation("sdpa")
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
