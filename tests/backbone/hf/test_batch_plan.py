"""Which rows share a prefill: whatever the rows, each finds its own prefix in the store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.backbone.hf.plans import PromptTokens, micro_batches, plan_batch

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


def test_growing_bundles_cost_the_largest() -> None:
    bundles = [row(list(range(size)), [1, 2]) for size in (5, 9, 13, 16)]
    assert plan_batch(bundles).leaders == (3,)
    assert plan_batch(bundles).prefix_tokens == 16 * (FRAME_TOKENS + 1)


def test_the_same_tokens_with_another_frame_are_no_prefix() -> None:
    assert plan_batch([row([1], [0]), row([2, 3], [0])]).prefix_tokens == 3 * (FRAME_TOKENS + 1)


@given(rows, st.integers(1, 4), st.integers(1, 40))
def test_micro_batches_hold_every_row_once_and_fit(batch: list[PromptTokens], max_rows: int, max_tokens: int) -> None:
    batches = list(micro_batches(batch, max_rows=max_rows, max_prefix_tokens=max_tokens))
    assert sorted(number for micro_batch in batches for number in micro_batch) == list(range(len(batch)))
    for micro_batch in batches:
        assert len(micro_batch) <= max_rows
        assert len(micro_batch) == 1 or plan_batch([batch[i] for i in micro_batch]).prefix_tokens <= max_tokens


def test_bundles_of_one_trajectory_stay_together() -> None:
    bundles = [row(list(range(size)), [1]) for size in (1, 2, 3)]
    others = [row([7, 8], [1])]
    assert set(next(micro_batches([*others, *bundles], max_rows=3, max_prefix_tokens=12))) == {1, 2, 3}


def test_a_row_must_end_in_words() -> None:
    with pytest.raises(ValueError, match="3 tokens"):
        PromptTokens((1, 2, 3), ("a",), (3,))


def test_every_frame_has_an_end() -> None:
    with pytest.raises(ValueError, match="1 frames"):
        PromptTokens((1, 2, 3), ("a",), ())


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
