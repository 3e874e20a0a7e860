"""The stream of tokens that a batch computes, and the cache of prefixes."""

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")

from hypothesis import given  # noqa: E402  after the skip
from hypothesis import strategies as st  # noqa: E402

from trace_ves.backbone.hf.kv_store import KVCache, Prefill, find_inside  # noqa: E402
from trace_ves.backbone.hf.plans import PromptTokens, plan_batch  # noqa: E402  after the skip
from trace_ves.backbone.hf.vision import FrameFeatures  # noqa: E402

LONG = PromptTokens((1, 9, 9, 2, 9, 9, 3, 4), ("a", "b"), (3, 6))
SHORT = PromptTokens((1, 9, 9, 5, 6, 7), ("a",), (3,))
OWN = (slice(100, 110), slice(110, 120))
FEATURES = {name: FrameFeatures((1, 2, 4), (torch.zeros(2, 1),)) for name in "ab"}


def make(reused: int) -> Prefill:
    plan = plan_batch([SHORT, LONG])
    positions = {1: torch.arange(8).expand(3, -1)}
    return Prefill.of(plan, OWN, FEATURES, positions=positions, reused={1: reused})


def test_the_stream_has_each_prefix_once_and_then_the_words_of_every_row() -> None:
    prefill = make(reused=0)
    assert prefill.ids.tolist() == [1, 9, 9, 2, 9, 9, 5, 6, 7, 3, 4]
    assert prefill.positions[0].tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7]
    assert prefill.ends == (8, 10)
    assert len(prefill.frames) == 2


def test_what_is_stored_already_is_not_computed_again() -> None:
    prefill = make(reused=3)
    assert prefill.ids.tolist() == [2, 9, 9, 5, 6, 7, 3, 4]
    assert prefill.frames == (FEATURES["b"],)
    assert make(reused=6).ids.tolist() == [5, 6, 7, 3, 4]


@pytest.mark.parametrize("tokens", [1, 2, 4, 11, 50])
def test_chunks_are_the_stream(tokens: int) -> None:
    prefill = make(reused=0)
    chunks = list(prefill.chunks(tokens))
    places = [place for _, stretches in chunks for stretch in stretches for place in stretch.places]
    assert places == [0, 1, 2, 3, 4, 5, 100, 101, 102, 110, 111]
    assert [token for chunk, _ in chunks for token in prefill.ids[chunk].tolist()] == prefill.ids.tolist()
    assert all(sum(stretch.tokens for stretch in stretches) <= tokens for _, stretches in chunks)
    assert [end for chunk, _ in chunks for end in prefill.ends[find_inside(prefill.ends, chunk)]] == [8, 10]


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
    cache = KVCache(entries * ENTRY_BYTES)
    for frames in bundles:
        found = cache.find(row(frames))
        assert found is None or 0 < found.shape[0] <= TOKENS * len(frames)
        length = 0 if found is None else found.shape[0]
        torch.testing.assert_close(stored(frames)[:0] if found is None else found, stored(frames)[:length])
        cache.put(row(frames), stored(frames))
        assert cache.bytes <= entries * ENTRY_BYTES


def test_a_replay_finds_all_and_a_grown_bundle_what_it_begins_with() -> None:
    cache = KVCache(10**6)
    cache.put(row([0, 1, 2]), stored([0, 1, 2]))
    for frames, tokens in (([0, 1, 2], 9), ([0, 1], 6), ([0, 1, 2, 3], 9), ([0, 2], 3)):
        found = cache.find(row(frames))
        assert found is not None
        assert found.shape[0] == tokens
    assert cache.find(row([1])) is None


def test_the_one_used_longest_ago_goes_first() -> None:
    cache = KVCache(2 * ENTRY_BYTES)
    for number in (0, 1):
        cache.put(row([number]), stored([number]))
    assert cache.find(row([0])) is not None
    cache.put(row([2]), stored([2]))
    assert cache.find(row([1])) is None
    assert cache.find(row([0])) is not None


def test_of_two_that_begin_alike_only_the_longer_is_kept() -> None:
    cache = KVCache(10**6)
    for frames in ([0, 1], [0, 1, 2], [0]):
        cache.put(row(frames), stored(frames))
    assert cache.bytes == 3 * ENTRY_BYTES
