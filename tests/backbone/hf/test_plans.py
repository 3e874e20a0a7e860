"""Which prompts share a prefill, and how large a batch may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.backbone.hf.plans import (
    MAX_PREFIX_TOKENS,
    MAX_ROWS,
    BatchLimits,
    ModelShape,
    PromptTokens,
    plan_batch,
    plan_memory,
    split_batch,
)

FRAME_TOKENS = 3


def row(frames: list[int], words: list[int]) -> PromptTokens:
    """A stamp and three tokens for each frame, then the words. Stamps are the same for all: only frames differ."""
    prefix = [token for _ in frames for token in (7, *[9] * FRAME_TOKENS)]
    ends = tuple((FRAME_TOKENS + 1) * (number + 1) for number in range(len(frames)))
    return PromptTokens((*prefix, *words), tuple(map(str, frames)), ends)


rows = st.lists(
    st.builds(row, st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
    min_size=1,
    max_size=8,
)


def content(one: PromptTokens) -> list[tuple[int, str]]:
    """What a model would compute for the prefix of a row: each token with the frames up to it."""
    return [(token, ",".join(one.frames[: 1 + i // (FRAME_TOKENS + 1)])) for i, token in enumerate(one.ids)][
        : one.prefix_tokens
    ]


@given(rows)
def test_every_row_finds_its_prefix_in_the_store(batch: list[PromptTokens]) -> None:
    plan = plan_batch(batch)
    store = [token for leader in plan.leaders for token in content(batch[leader])]
    assert len(store) == plan.prefix_tokens
    for one, slot in zip(batch, plan.slots, strict=True):
        assert store[slot.start : slot.end] == content(one)
        assert plan.slots[slot.leader].start == slot.start


@given(rows)
def test_no_leader_is_the_prefix_of_another(batch: list[PromptTokens]) -> None:
    leaders = plan_batch(batch).leaders
    assert not any(batch[one].is_prefix_of(batch[other]) for one in leaders for other in leaders if one != other)


@given(rows, st.integers(1, 4), st.integers(1, 40))
def test_micro_batches_hold_every_row_once_and_fit(batch: list[PromptTokens], max_rows: int, max_tokens: int) -> None:
    batches = list(split_batch(batch, max_rows=max_rows, max_prefix_tokens=max_tokens))
    assert sorted(number for micro_batch in batches for number in micro_batch) == list(range(len(batch)))
    for micro_batch in batches:
        assert len(micro_batch) <= max_rows
        assert len(micro_batch) == 1 or plan_batch([batch[i] for i in micro_batch]).prefix_tokens <= max_tokens


def test_bundles_of_one_trajectory_stay_together() -> None:
    bundles = [row(list(range(size)), [1]) for size in (1, 2, 3)]
    others = [row([7, 8], [1])]
    assert set(next(split_batch([*others, *bundles], max_rows=3, max_prefix_tokens=12))) == {1, 2, 3}


def test_a_row_must_end_in_words() -> None:
    with pytest.raises(ValueError, match="3 tokens"):
        PromptTokens((1, 2, 3), ("a",), (3,))


@given(rows)
def test_what_two_prompts_have_in_common_is_the_same_to_a_model(batch: list[PromptTokens]) -> None:
    for one in batch:
        for other in batch:
            common = one.tokens_in_common(other)
            assert common == other.tokens_in_common(one)
            assert content(one)[:common] == content(other)[:common]
            assert content(one)[: common + FRAME_TOKENS + 1] != content(other)[
                : common + FRAME_TOKENS + 1
            ] or common == (min(one.prefix_tokens, other.prefix_tokens))


GIB = 2**30
QWEN3_VL_8B = ModelShape(36, 32, 8, 128, 4096, 12288, 151_936, 2)

shapes = st.builds(
    ModelShape,
    layers=st.integers(1, 100),
    heads=st.integers(8, 128),
    key_heads=st.integers(1, 8),
    head_size=st.sampled_from([64, 128, 256]),
    hidden_size=st.integers(512, 16384),
    intermediate_size=st.integers(512, 65536),
    vocabulary=st.integers(1000, 300_000),
    bytes_per_number=st.sampled_from([2, 4]),
)


def needed_bytes(shape: ModelShape, limits: BatchLimits, own_tokens: int) -> int:
    tokens = limits.max_prefix_tokens + limits.max_rows * own_tokens
    scores = 10 * shape.heads * limits.max_rows * limits.max_prefix_tokens
    logits = 16 * shape.vocabulary * limits.max_rows
    return tokens * shape.key_value_bytes + scores + logits + limits.prefill_tokens * shape.activation_bytes


@given(shapes, st.integers(0, 200 * GIB), st.integers(16, 4096))
def test_what_is_planned_fits_or_is_the_least(shape: ModelShape, free_bytes: int, own_tokens: int) -> None:
    limits = plan_memory(shape, free_bytes=free_bytes, own_tokens=own_tokens)
    assert 1 <= limits.max_rows <= MAX_ROWS
    assert 4096 <= limits.max_prefix_tokens <= MAX_PREFIX_TOKENS
    is_least = (limits.max_rows, limits.max_prefix_tokens) == (1, 4096)
    assert is_least or needed_bytes(shape, limits, own_tokens) <= 0.85 * free_bytes


@given(shapes, st.integers(GIB, 100 * GIB))
def test_more_memory_never_makes_batches_smaller(shape: ModelShape, free_bytes: int) -> None:
    less = plan_memory(shape, free_bytes=free_bytes, own_tokens=2048)
    more = plan_memory(shape, free_bytes=2 * free_bytes, own_tokens=2048)
    assert more.max_rows >= less.max_rows
    assert more.max_rows > less.max_rows or more.max_prefix_tokens >= less.max_prefix_tokens


def test_a_large_card_takes_whole_batches_and_a_small_one_fewer_rows() -> None:
    assert plan_memory(QWEN3_VL_8B, free_bytes=120 * GIB, own_tokens=2048) == BatchLimits(128, 262_144, 32_768)
    small = plan_memory(QWEN3_VL_8B, free_bytes=6 * GIB, own_tokens=2048)
    assert 1 <= small.max_rows <= 8
    assert small.max_prefix_tokens < 65_536


def test_halving_ends() -> None:
    limits = BatchLimits()
    for _ in range(20):
        limits = limits.halve()
    assert limits == BatchLimits(1, 4096, 512)
