"""One shared prefill gives what separate calls of the stock model give, logit by logit and token by token."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")
transformers = pytest.importorskip("transformers", reason="needs the extra hf")

from cachetools import LRUCache  # noqa: E402
from tests.backbone.hf.tiny_models import Noise  # noqa: E402

from trace_ves.backbone.hf.decoder import BatchDecoder, NonFiniteError  # noqa: E402  after the skip
from trace_ves.backbone.hf.plans import PromptTokens, plan_batch  # noqa: E402
from trace_ves.backbone.hf.vision import FrameFeatures, encode  # noqa: E402

NEW_TOKENS = 12


@dataclass
class Bench:
    """The stock model, ours, and frames of several sizes that both can be shown."""

    stock: Any
    ours: Any
    tokenizer: Any
    pixels: list[torch.Tensor]
    grids: torch.Tensor
    features: dict[str, FrameFeatures]

    def row(self, frames: list[int], text: str) -> PromptTokens:
        config = self.stock.config
        ids, ends = list[int](), list[int]()
        for number in frames:
            stamp = self.tokenizer(f"t={number}.00 s").input_ids
            ids += [*stamp, config.vision_start_token_id]
            ids += [config.image_token_id] * self.features[str(number)].tokens
            ends.append(len(ids))
        ids += [config.vision_end_token_id] * bool(frames) + self.tokenizer(text).input_ids
        return PromptTokens(tuple(ids), tuple(map(str, frames)), tuple(ends))

    @property
    def broken(self) -> dict[str, FrameFeatures]:
        """The features, with numbers that are not finite in frame 1."""
        frame = self.features["1"]
        return self.features | {"1": replace(frame, levels=tuple(level * float("nan") for level in frame.levels))}

    def generate(self, decoder: BatchDecoder, *rows: PromptTokens, **options: Any) -> list[list[int]]:
        return decoder.generate(plan_batch(rows), self.features, max_new_tokens=NEW_TOKENS, **options)

    def separately(self, row: PromptTokens) -> tuple[torch.Tensor, list[int]]:
        """Logits of the first new token, and the greedy tokens, by the stock model alone."""
        ids = torch.tensor([row.ids])
        shown = [int(frame) for frame in row.frames]
        inputs: dict[str, Any] = {}
        if shown:
            inputs["pixel_values"] = torch.cat([self.pixels[number] for number in shown])
            inputs["image_grid_thw"] = self.grids[shown]
            inputs["mm_token_type_ids"] = (ids == self.stock.config.image_token_id).int()
        found = self.stock.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=None,
            output_logits=True,
            return_dict_in_generate=True,
            **inputs,
        )
        return found.logits[0][0], found.sequences[0, len(row.ids) :].tolist()


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl"])
def bench(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> Bench:
    folder = checkpoints[request.param]
    load = transformers.AutoModelForImageTextToText.from_pretrained
    stock, ours = load(folder), load(folder)
    images = transformers.AutoImageProcessor.from_pretrained(folder)
    pictures = [Noise(number).rgb()[: 40 - 8 * (number % 2)] for number in range(7)]
    seen = images(images=pictures, return_tensors="pt")
    grids = seen["image_grid_thw"]
    features = {str(number): one for number, one in enumerate(encode(ours, seen["pixel_values"], grids))}
    pixels = list(torch.split(seen["pixel_values"], grids.prod(-1).tolist()))
    return Bench(stock, ours, transformers.AutoTokenizer.from_pretrained(folder), pixels, grids, features)


BATCHES = {
    "a trajectory": [([0, 1], "why?"), ([0, 1, 2], "why?"), ([0, 1, 2, 3, 4, 5], "why?")],
    "one row": [([3, 1], "what is the answer")],
    "words of several lengths": [([0], "a"), ([0, 1], "what is the answer of the question"), ([0, 1, 2], "s")],
    "two trajectories": [([0, 1], "x"), ([0, 1, 2], "x"), ([4, 5], "x"), ([4], "x"), ([6], "y")],
    "no frames": [([], "only words"), ([], "other words here")],
    "frames and none": [([], "only words"), ([2, 3], "look"), ([2], "look"), ([2, 3], "look again"), ([3, 2], "look")],
}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
def test_shared_is_separate(bench: Bench, batch: list[tuple[list[int], str]]) -> None:
    rows = [bench.row(frames, text) for frames, text in batch]
    decoder = BatchDecoder(bench.ours)
    logits = decoder.first_logits(plan_batch(rows), bench.features)
    tokens = bench.generate(decoder, *rows)
    for number, row in enumerate(rows):
        expected, greedy = bench.separately(row)
        torch.testing.assert_close(logits[number], expected, atol=1e-4, rtol=0)
        assert tokens[number] == greedy


def test_batches_in_one_store_leave_nothing_behind(bench: Bench) -> None:
    decoder = BatchDecoder(bench.ours)
    for frames in ([0, 1, 2, 3, 4, 5], [5], [2, 1], [0, 1, 2, 3, 4, 5]):
        row = bench.row(frames, "why?")
        assert bench.generate(decoder, row) == [bench.separately(row)[1]]


def test_bundles_differ_by_more_than_the_tolerance(bench: Bench) -> None:
    """Else the equality above would hold for a decoder that ignores the frames."""
    rows = [bench.row(frames, "why?") for frames in ([0, 1], [0, 1, 2], [1, 0])]
    first, second, third = BatchDecoder(bench.ours).first_logits(plan_batch(rows), bench.features)
    assert (first - second).abs().max() > 1e-2
    assert (first - third).abs().max() > 1e-2


@pytest.mark.parametrize("prefill_tokens", [1, 7, 40])
def test_a_prefill_in_chunks_is_the_prefill_at_once(bench: Bench, prefill_tokens: int) -> None:
    rows = [bench.row(frames, text) for frames, text in BATCHES["two trajectories"]]
    decoder = BatchDecoder(bench.ours)
    whole = decoder.first_logits(plan_batch(rows), bench.features)
    chunked = decoder.first_logits(plan_batch(rows), bench.features, prefill_tokens=prefill_tokens)
    torch.testing.assert_close(chunked, whole, atol=1e-4, rtol=0)
    assert bench.generate(decoder, *rows, prefill_tokens=prefill_tokens) == bench.generate(decoder, *rows)


@pytest.mark.parametrize("stale", [float("nan"), float("inf")])
def test_stale_cells_that_are_not_finite_change_nothing(bench: Bench, stale: float) -> None:
    decoder = BatchDecoder(bench.ours)
    long, short = bench.row([0, 1, 2, 3, 4, 5], "what is the answer of the question"), bench.row([2], "why?")
    bench.generate(decoder, long, long)
    assert decoder._memory is not None
    with torch.inference_mode():
        decoder._memory.fill_(stale)
    assert bench.generate(decoder, short) == [bench.separately(short)[1]]


def test_numbers_that_are_not_finite_are_noticed_before_they_reach_another_row_and_never_kept(bench: Bench) -> None:
    decoder, row = BatchDecoder(bench.ours, cache_bytes=10**8), bench.row([1], "why?")
    for rows in ([bench.row([0, 2], "why?"), row], [row]):
        with pytest.raises(NonFiniteError):
            decoder.first_logits(plan_batch(rows), bench.broken)
    assert bench.generate(decoder, row) == [bench.separately(row)[1]]


def test_of_many_shapes_the_steps_used_last_are_kept(bench: Bench) -> None:
    decoder = BatchDecoder(bench.ours)
    decoder._memory = torch.zeros(40_000_000)  # large enough for every shape below, so that none is dropped for that
    decoder._steps = LRUCache(2)
    first = [bench.row([0], "why?")]
    decoder.first_logits(plan_batch(first), bench.features)
    (kept,) = decoder._steps.values()
    for count in (2, 4, 8):
        decoder.first_logits(plan_batch(first * count), bench.features)
        decoder.first_logits(plan_batch(first), bench.features)
    assert len(decoder._steps) == 2
    assert kept in decoder._steps.values()


def test_what_an_earlier_batch_computed_is_used_again_and_changes_nothing(bench: Bench) -> None:
    decoder = BatchDecoder(bench.ours, cache_bytes=10**8)
    reused = []
    for frames in ([0, 1], [0, 1], [0, 1, 2, 3], [0, 1, 2, 4], [1, 0], [0, 1, 2, 3]):
        row = bench.row(frames, "why?")
        assert bench.generate(decoder, row) == [bench.separately(row)[1]]
        ends = (0, *row.frame_ends)
        reused.append(ends.index(decoder.reused[0]))
    assert reused == [0, 2, 2, 3, 0, 4]
