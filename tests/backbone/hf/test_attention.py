"""Our attention against one plain softmax over everything a row may see."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")

from trace_ves.backbone.transformers import attention  # noqa: E402  after the skip
from trace_ves.backbone.transformers.batch_plan import PrefixSlot  # noqa: E402

ROWS, HEADS, KEY_HEADS, SIZE, CAPACITY, OWN = 3, 6, 2, 8, 2 * attention.CHUNK_TOKENS, 9
SLOTS = (PrefixSlot(0, 0, 700), PrefixSlot(0, 0, 40), PrefixSlot(2, 700, 701))
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def plain(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """heads x tokens x size, causal from the right; keys have fewer heads."""
    keys, values = (one.repeat_interleave(HEADS // KEY_HEADS, dim=0) for one in (keys, values))
    scores = query @ keys.transpose(1, 2) * 0.3
    seen = torch.ones(scores.shape[1:], dtype=torch.bool).tril(scores.shape[2] - scores.shape[1])
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ values


@pytest.fixture(params=TOLERANCE, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    torch.manual_seed(3)
    chosen: torch.dtype = request.param
    return chosen


@pytest.mark.parametrize("shape", [None, attention.ReadShape(7, 5)], ids=["least", "with spare seats"])
def test_a_step_sees_its_prefix_and_its_own_tokens(dtype: torch.dtype, shape: attention.ReadShape | None) -> None:
    query = torch.randn(ROWS, HEADS, 1, SIZE, dtype=dtype)
    stored = tuple(torch.randn(KEY_HEADS, CAPACITY, SIZE, dtype=dtype) for _ in range(2))
    own = tuple(torch.randn(ROWS, KEY_HEADS, OWN, SIZE, dtype=dtype) for _ in range(2))
    lengths = torch.tensor([1, 5, 9])
    out = attention.attend_step(
        query,
        own,
        stored,
        own_seen=attention.own_bias(lengths, OWN),
        reads=attention.PrefixReads.of(SLOTS, CAPACITY, shape),
        scaling=0.3,
    )
    assert out.dtype == dtype
    for row, slot in enumerate(SLOTS):
        keys, values = (
            torch.cat([all_[:, slot.start : slot.end], mine[row, :, : lengths[row]]], dim=1).float()
            for all_, mine in zip(stored, own, strict=True)
        )
        expected = plain(query[row].float(), keys, values).transpose(0, 1)
        torch.testing.assert_close(out[row].float(), expected, atol=TOLERANCE[dtype], rtol=0)


def test_words_see_their_prefix_and_the_words_before_them(dtype: torch.dtype) -> None:
    lengths = [4, 1, 7]
    query = torch.randn(1, HEADS, sum(lengths), SIZE, dtype=dtype)
    own = tuple(torch.randn(1, KEY_HEADS, sum(lengths), SIZE, dtype=dtype) for _ in range(2))
    stored = tuple(torch.randn(KEY_HEADS, CAPACITY, SIZE, dtype=dtype) for _ in range(2))
    out = attention.attend_suffix(query, own, stored, slots=SLOTS, lengths=lengths, scaling=0.3)
    start = 0
    for slot, length in zip(SLOTS, lengths, strict=True):
        mine = slice(start, start + length)
        keys, values = (
            torch.cat([all_[:, slot.start : slot.end], one[0, :, mine]], dim=1).float()
            for all_, one in zip(stored, own, strict=True)
        )
        expected = plain(query[0, :, mine].float(), keys, values).transpose(0, 1)
        torch.testing.assert_close(out[0, mine].float(), expected, atol=TOLERANCE[dtype], rtol=0)
        start += length
    assert out.shape == (1, start, HEADS, SIZE)
