"""The stream of tokens that a batch computes: whole, in order, and cut anywhere without loss."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")

from trace_ves.backbone.hf.plans import PromptTokens, plan_batch  # noqa: E402  after the skip
from trace_ves.backbone.hf.prefill import Prefill, inside  # noqa: E402
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
    assert [end for chunk, _ in chunks for end in prefill.ends[inside(prefill.ends, chunk)]] == [8, 10]
