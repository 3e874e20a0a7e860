"""The cache of prefixes: never above its size, and what it gives is what was put for the same tokens and frames."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")

from hypothesis import given  # noqa: E402  after the skip
from hypothesis import strategies as st  # noqa: E402

from trace_ves.backbone.hf.kv_store import PrefixCache  # noqa: E402
from trace_ves.backbone.hf.plans import PromptTokens  # noqa: E402

TOKENS = 3
ENTRY_BYTES = 4 * TOKENS


def row(frames: list[int]) -> PromptTokens:
    ends = tuple(TOKENS * (number + 1) for number in range(len(frames)))
    return PromptTokens((9,) * TOKENS * len(frames) + (1,), tuple(map(str, frames)), ends)


def stored(frames: list[int]) -> torch.Tensor:
    """For each token a number that only its frame and those before it decide."""
    values = [float(hash(tuple(frames[: number // TOKENS + 1])) % 9973) for number in range(TOKENS * len(frames))]
    return torch.tensor(values).view(-1, 1)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=12), st.integers(0, 8))
def test_what_is_found_was_put_and_the_size_is_kept(bundles: list[list[int]], entries: int) -> None:
    cache = PrefixCache(entries * ENTRY_BYTES)
    for frames in bundles:
        found = cache.find(row(frames))
        assert found is None or 0 < found.shape[0] <= TOKENS * len(frames)
        length = 0 if found is None else found.shape[0]
        torch.testing.assert_close(stored(frames)[:0] if found is None else found, stored(frames)[:length])
        cache.put(row(frames), stored(frames))
        assert cache.bytes <= entries * ENTRY_BYTES


def test_a_replay_finds_all_and_a_grown_bundle_what_it_begins_with() -> None:
    cache = PrefixCache(10**6)
    cache.put(row([0, 1, 2]), stored([0, 1, 2]))
    for frames, tokens in (([0, 1, 2], 9), ([0, 1], 6), ([0, 1, 2, 3], 9), ([0, 2], 3)):
        found = cache.find(row(frames))
        assert found is not None
        assert found.shape[0] == tokens
    assert cache.find(row([1])) is None


def test_the_one_used_longest_ago_goes_first() -> None:
    cache = PrefixCache(2 * ENTRY_BYTES)
    cache.put(row([0]), stored([0]))
    cache.put(row([1]), stored([1]))
    assert cache.find(row([0])) is not None
    cache.put(row([2]), stored([2]))
    assert cache.find(row([1])) is None
    assert cache.find(row([0])) is not None


def test_of_two_that_begin_alike_only_the_longer_is_kept() -> None:
    cache = PrefixCache(10**6)
    cache.put(row([0, 1]), stored([0, 1]))
    cache.put(row([0, 1, 2]), stored([0, 1, 2]))
    cache.put(row([0]), stored([0]))
    assert cache.bytes == 3 * ENTRY_BYTES
