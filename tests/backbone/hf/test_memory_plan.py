"""Limits of a batch: whatever the card and the model, what is planned fits, or is the least there can be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trace_ves.backbone.hf.plans import MAX_PREFIX_TOKENS, MAX_ROWS, BatchLimits, ModelShape, plan_memory

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
    assert plan_memory(QWEN3_VL_8B, free_bytes=120 * GIB, own_tokens=2048) == BatchLimits(64, 262_144, 32_768)
    small = plan_memory(QWEN3_VL_8B, free_bytes=6 * GIB, own_tokens=2048)
    assert 1 <= small.max_rows <= 8
    assert small.max_prefix_tokens < 65_536


def test_halving_ends() -> None:
    limits = BatchLimits()
    for _ in range(20):
        limits = limits.halved()
    assert limits == BatchLimits(1, 4096, 512)
