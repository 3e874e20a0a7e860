"""Attention in pieces, and functions that are compiled on a GPU."""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")

from trace_ves.backbone.hf import layers  # noqa: E402  after the skip

ROWS, HEADS, KEY_HEADS, SIZE = 3, 6, 2, 16
PIECE = layers.PIECE_TOKENS
PREFIXES = (slice(0, PIECE + 90), slice(0, 40), slice(PIECE + 90, PIECE + 91))
OWN = tuple(slice(start * PIECE, (start + 2) * PIECE) for start in (2, 4, 6))
TOKENS = 8 * PIECE
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def plain(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """heads x tokens x size, causal from the right; keys have fewer heads."""
    keys, values = (one.repeat_interleave(HEADS // KEY_HEADS, dim=0) for one in (keys, values))
    scores = query @ keys.transpose(1, 2) * 0.3
    seen = torch.ones(scores.shape[1:], dtype=torch.bool).tril(scores.shape[2] - scores.shape[1])
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ values


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    """On a GPU the kernels of `kernels.py` are tested; a warning would say that they do not work."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    yield request.param
    assert not caplog.records


@pytest.fixture(params=TOLERANCE, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    torch.manual_seed(3)
    chosen: torch.dtype = request.param
    return chosen


@pytest.mark.parametrize("shape", [layers.ReadShape(8, 2, 4), layers.ReadShape(8, 7, 9)], ids=["least", "spare"])
def test_a_step_sees_its_prefix_and_its_own_tokens(device: str, dtype: torch.dtype, shape: layers.ReadShape) -> None:
    query = torch.randn(ROWS, HEADS, SIZE, dtype=dtype)
    keys, values = (torch.randn(KEY_HEADS, TOKENS, SIZE, dtype=dtype) for _ in range(2))
    lengths = torch.tensor([1, 5, PIECE + 3])
    asked, *stored = (one.to(device) for one in (query, keys, values))
    reads = layers.Reads.of(PREFIXES, OWN, shape).to(torch.device(device))
    out = layers.attend_step(asked, (stored[0], stored[1]), reads, lengths.to(device), 0.3).cpu()
    assert out.dtype == dtype
    for row, (prefix, own) in enumerate(zip(PREFIXES, OWN, strict=True)):
        mine = slice(own.start, own.start + int(lengths[row]))
        seen = (torch.cat([all_[:, prefix], all_[:, mine]], dim=1).float() for all_ in (keys, values))
        expected = plain(query[row, :, None].float(), *seen)[:, 0]
        torch.testing.assert_close(out[row].float(), expected, atol=TOLERANCE[dtype], rtol=0)


def test_stretches_see_what_stands_before_them_in_their_row(device: str, dtype: torch.dtype) -> None:
    stretches = [
        layers.Stretch(PREFIXES[0], OWN[0].start, 0, 4),  # words after a prefix
        layers.Stretch(PREFIXES[1], OWN[1].start, 3, 1),  # the same in a second chunk
        layers.Stretch(slice(0, 0), 700, 20, 7),  # the rest of a prefix
        layers.Stretch(slice(0, 0), 900, 0, 5),  # a whole one
    ]
    tokens = sum(stretch.tokens for stretch in stretches)
    query = torch.randn(tokens, HEADS, SIZE, dtype=dtype)
    keys, values = (torch.randn(KEY_HEADS, TOKENS, SIZE, dtype=dtype) for _ in range(2))
    asked, *stored = (one.to(device) for one in (query, keys, values))
    blocks = layers.plan_query_blocks(stretches).to(device)
    found = layers.attend_stretches(asked, (stored[0], stored[1]), stretches, blocks, 0.3).cpu()
    start = 0
    for stretch, out in zip(stretches, found.split([one.tokens for one in stretches]), strict=True):
        own = slice(stretch.start, stretch.places.stop)
        seen = (torch.cat([all_[:, stretch.before], all_[:, own]], dim=1).float() for all_ in (keys, values))
        mine = query[start : start + stretch.tokens].transpose(0, 1)
        torch.testing.assert_close(
            out.float(), plain(mine.float(), *seen).transpose(0, 1), atol=TOLERANCE[dtype], rtol=0
        )
        start += stretch.tokens
    assert start == tokens


def test_a_stretch_is_cut_into_what_comes_first_and_the_rest() -> None:
    first, rest = layers.Stretch(slice(3, 9), 100, 2, 10).cut(4)
    assert (first.places, rest.places) == (range(102, 106), range(106, 112))
    assert first.before == rest.before == slice(3, 9)


class OnGpu:
    """What a function sees of a tensor on a GPU before it is called."""

    is_cuda = True


def test_without_a_compiler_the_functions_run_as_they_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    def no_compiler(work: Any, **_: Any) -> Any:
        def fail(*_: Any) -> None:
            asked.append(work)
            raise RuntimeError("Failed to find C compiler")

        return fail

    monkeypatch.setattr(torch, "compile", no_compiler)
    call = layers.compile_on_gpu(lambda _: "as it is")
    assert [call(OnGpu()), call(OnGpu())] == ["as it is"] * 2
    assert len(asked) == 1
    assert "torch cannot compile (RuntimeError)" in caplog.text


def test_too_little_memory_is_no_failure_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch, "compile", lambda _, **__: full)
    call = layers.compile_on_gpu(lambda _: "as it is")
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            call(OnGpu())
