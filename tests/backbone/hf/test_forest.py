"""Which rows share a prefill: whatever the rows, each finds its own prefix in the store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.backbone.transformers.forest import Row, plant, waves

FRAME_TOKENS = 3


def row(frames: list[int], words: list[int]) -> Row:
    """A stamp and three tokens for each frame, then the words. Stamps are the same for all: only frames differ."""
    prefix = [token for _ in frames for token in (7, *[9] * FRAME_TOKENS)]
    return Row((*prefix, *words), tuple(map(str, frames)), len(prefix))


rows = st.lists(
    st.builds(row, st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
    min_size=1,
    max_size=8,
)


def content(one: Row) -> list[tuple[int, str]]:
    """What a model would compute for the prefix of a row: each token with the frames up to it."""
    return [(token, ",".join(one.frames[: 1 + i // (FRAME_TOKENS + 1)])) for i, token in enumerate(one.ids)][
        : one.prefix_tokens
    ]


@given(rows)
def test_every_row_finds_its_prefix_in_the_store(batch: list[Row]) -> None:
    forest = plant(batch)
    store = [token for leader in forest.leaders for token in content(batch[leader])]
    assert len(store) == forest.prefix_tokens
    for one, place in zip(batch, forest.places, strict=True):
        assert store[place.start : place.end] == content(one)
        assert forest.places[place.leader].start == place.start


@given(rows)
def test_no_leader_begins_another(batch: list[Row]) -> None:
    leaders = plant(batch).leaders
    assert not any(batch[one].begins(batch[other]) for one in leaders for other in leaders if one != other)


def test_growing_bundles_cost_the_largest() -> None:
    bundles = [row(list(range(size)), [1, 2]) for size in (5, 9, 13, 16)]
    assert plant(bundles).leaders == (3,)
    assert plant(bundles).prefix_tokens == 16 * (FRAME_TOKENS + 1)


def test_the_same_tokens_with_another_frame_are_no_prefix() -> None:
    assert plant([row([1], [0]), row([2, 3], [0])]).prefix_tokens == 3 * (FRAME_TOKENS + 1)


@given(rows, st.integers(1, 4), st.integers(1, 40))
def test_waves_hold_every_row_once_and_fit_where_they_can(batch: list[Row], max_rows: int, max_tokens: int) -> None:
    portions = list(waves(batch, max_rows=max_rows, max_prefix_tokens=max_tokens))
    assert sorted(number for portion in portions for number in portion) == list(range(len(batch)))
    for portion in portions:
        assert len(portion) <= max_rows
        assert len(portion) == 1 or plant([batch[i] for i in portion]).prefix_tokens <= max_tokens


def test_bundles_of_one_trajectory_stay_together() -> None:
    bundles = [row(list(range(size)), [1]) for size in (1, 2, 3)]
    others = [row([7, 8], [1])]
    assert set(next(waves([*others, *bundles], max_rows=3, max_prefix_tokens=12))) == {1, 2, 3}


def test_a_row_must_end_in_words() -> None:
    with pytest.raises(ValueError, match="3 tokens"):
        Row((1, 2, 3), (), 3)
