"""The decoder layers of Qwen3-VL (with experts too) and Qwen2.5-VL, over tokens side by side.

The weights are the model's own. Products that read the same input are one product; the rest is compiled on a GPU.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

P = ParamSpec("P")
R = TypeVar("R")

_LOG: Final = logging.getLogger(__name__)


def faster_on_gpu(make: Callable[[Callable[P, R]], Callable[P, R]]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Replace a function by what `make` returns, from its first call with a tensor on a GPU."""

    def decorate(work: Callable[P, R]) -> Callable[P, R]:
        fast: Callable[P, R] | None = None

        @functools.wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal fast
            first: Any = args[0]
            if not first.is_cuda or fast is work:
                return work(*args, **kwargs)
            try:
                fast = fast or make(work)
                return fast(*args, **kwargs)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # noqa: BLE001  whatever a compiler may lack, the answer is the same without it
                _LOG.warning("Local models are slower here: torch cannot compile (%s).", type(error).__name__)
                fast = work
                return work(*args, **kwargs)

        return call

    return decorate


def compile_on_gpu(work: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled at its first call with a tensor on a GPU."""
    return faster_on_gpu(torch.compile)(work)


def _rms_norm(hidden: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The tokens over their root mean square, times the weight."""
    exact = hidden.float()
    scale = torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + epsilon)
    return weight * (exact * scale).to(hidden.dtype)


norm = compile_on_gpu(_rms_norm)


@compile_on_gpu
def add_and_norm(
    hidden: torch.Tensor, update: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of both, and that sum normed."""
    total = hidden + update
    return total, _rms_norm(total, weight, epsilon)


@compile_on_gpu
def gate(both: torch.Tensor) -> torch.Tensor:
    """The second half of each token times the sigmoid-weighted first half."""
    first, second = both.chunk(2, dim=-1)
    return functional.silu(first) * second


@compile_on_gpu
def rotate(
    heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, weight: torch.Tensor | None, epsilon: float
) -> torch.Tensor:
    """Queries or keys, tokens x heads x size, normed where there is a weight, at their positions."""
    if weight is not None:
        heads = _rms_norm(heads, weight, epsilon)
    left, right = heads.chunk(2, dim=-1)
    turned = torch.cat([-right, left], dim=-1)
    return (heads * cos[:, None] + turned * sin[:, None]).to(heads.dtype)


Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # keys and values; in a store, each is key heads x tokens x size
# Writes a layer's keys and values, and gives the attention of its queries with this scaling, all tokens x heads x size.
Attend: TypeAlias = "Callable[[int, torch.Tensor, Pair, float], torch.Tensor]"


class Deeper(NamedTuple):
    """What the first layers add to the tokens of frames."""

    where: torch.Tensor  # the numbers of these tokens
    levels: Sequence[torch.Tensor]


class DecoderLayers:
    """All layers of a language model."""

    def __init__(self, language_model: Any) -> None:
        self._rotary = language_model.rotary_emb
        self._final_norm = language_model.norm
        is_silu = language_model.config.hidden_act == "silu"
        self._layers = [_Layer(layer, is_silu=is_silu) for layer in language_model.layers]

    def __call__(
        self, tokens: torch.Tensor, positions: torch.Tensor, attend: Attend, deeper: Deeper | None = None
    ) -> torch.Tensor:
        """The last hidden states of embedded tokens (tokens x size) at these positions (3 x tokens)."""
        cos, sin = (one[0] for one in self._rotary(tokens[None], positions[:, None]))
        norms = [layer.first_norm for layer in self._layers[1:]] + [self._final_norm]
        hidden, normed = tokens, norm(tokens, *_norm_parameters(self._layers[0].first_norm))
        for number, (layer, next_norm) in enumerate(zip(self._layers, norms, strict=True)):
            attended = layer.attention(number, normed, cos, sin, attend)
            hidden, normed = add_and_norm(hidden, attended, *_norm_parameters(layer.second_norm))
            update = layer.feed_forward(normed)
            if deeper is not None and number < len(deeper.levels):
                update.index_add_(0, deeper.where, deeper.levels[number].to(update.dtype))
            hidden, normed = add_and_norm(hidden, update, *_norm_parameters(next_norm))
        return normed


class _Layer:
    """One layer: the model's modules, with products over the same input joined."""

    def __init__(self, layer: Any, *, is_silu: bool) -> None:
        self.first_norm, self.second_norm = layer.input_layernorm, layer.post_attention_layernorm
        self._attention = layer.self_attn
        self._query_key_value = _join([layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj])
        self._mlp = layer.mlp
        is_gated = is_silu and hasattr(layer.mlp, "gate_proj")  # not a layer of experts
        self._gate_up = _join([layer.mlp.gate_proj, layer.mlp.up_proj]) if is_gated else None

    def attention(
        self, number: int, normed: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attend: Attend
    ) -> torch.Tensor:
        """What attention adds to the tokens."""
        module = self._attention
        heads = self._query_key_value(normed).view(len(normed), -1, module.head_dim)
        key_heads = heads.shape[1] // (module.num_key_value_groups + 2)
        query, key, value = heads.split([heads.shape[1] - 2 * key_heads, key_heads, key_heads], dim=1)
        query = rotate(query, cos, sin, *_norm_parameters(getattr(module, "q_norm", None)))
        key = rotate(key, cos, sin, *_norm_parameters(getattr(module, "k_norm", None)))
        seen = attend(number, query, (key, value), module.scaling)
        attended: torch.Tensor = module.o_proj(seen.reshape(len(normed), -1))
        return attended

    def feed_forward(self, normed: torch.Tensor) -> torch.Tensor:
        """What the layer's second half adds to the tokens."""
        if self._gate_up is None:
            fed: torch.Tensor = self._mlp(normed[None])[0]
        else:
            fed = self._mlp.down_proj(gate(self._gate_up(normed)))
        return fed


def _norm_parameters(module: Any) -> tuple[Any, float]:
    """Weight and epsilon of a norm; none where the model has no such norm."""
    return (None, 0.0) if module is None else (module.weight, module.variance_epsilon)


def _join(parts: Sequence[Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The outputs of several linear layers side by side, by one product where their weights are plain ones."""
    if any(type(part) is not torch.nn.Linear for part in parts):  # a quantised one
        return lambda inputs: torch.cat([part(inputs) for part in parts], dim=-1)
    weight = torch.cat([part.weight.data for part in parts])
    bias = torch.cat([part.bias.data for part in parts]) if parts[0].bias is not None else None
    start = 0
    for part in parts:  # the model keeps its weights, as views: they are not there twice
        part.weight.data = weight[start : start + part.out_features]
        start += part.out_features
    return lambda inputs: functional.linear(inputs, weight, bias)


PIECE_TOKENS: Final = 256  # stored keys are read in pieces of this size, so that a GPU works on many side by side
QUERIES_AT_ONCE: Final = 128  # of a prefill, in a block of a GPU's work
_WORTH_A_PLAN: Final = 16_384
_WITHOUT_PLANS: Final = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_NEVER: Final = -1e30  # finite: a piece that a row does not see must give a number, which the merge then drops


def kernels_for(tokens: int) -> AbstractContextManager[None]:
    """The kernels of attention to choose from when this many tokens attend to each other."""
    # cuDNN's is the fastest, but makes a plan for every new shape, so it is left to the largest prefixes.
    return nullcontext() if tokens >= _WORTH_A_PLAN else sdpa_kernel(_WITHOUT_PLANS)


class Stretch(NamedTuple):
    """Tokens of one row that are computed together. They attend to what precedes them in the row, and to themselves."""

    before: slice  # where the first tokens of the row are stored, if not right before the others
    start: int  # where the others are stored
    done: int  # how many of the others are there already
    tokens: int  # how many are computed now

    @property
    def places(self) -> range:
        """Where the tokens are stored."""
        return range(self.start + self.done, self.start + self.done + self.tokens)

    def cut(self, tokens: int) -> tuple[Stretch, Stretch]:
        """The first tokens, and those after them."""
        return self._replace(tokens=tokens), self._replace(done=self.done + tokens, tokens=self.tokens - tokens)


def query_blocks(stretches: Sequence[Stretch]) -> torch.Tensor:
    """What each block of queries of a GPU needs to know, those with the most work first: blocks x 6."""
    blocks, first = [], 0
    for one in stretches:
        for start in range(0, one.tokens, QUERIES_AT_ONCE):
            queries = first + start, min(QUERIES_AT_ONCE, one.tokens - start)  # the first one, and how many
            before = one.before.start, one.before.stop - one.before.start  # where these keys are, and how many
            own = one.start, one.done + start  # where the stretch's keys are, and how many come before the block
            blocks.append((*queries, *before, *own))
        first += one.tokens
    return torch.tensor(sorted(blocks, key=lambda block: -block[3] - block[5]), dtype=torch.int32)


def _import_kernel(work: Callable[P, R]) -> Callable[P, R]:
    from trace_ves.backbone.hf import kernels  # Triton is there where torch has a GPU

    kernel: Callable[P, R] = getattr(kernels, work.__name__)
    return kernel


@faster_on_gpu(_import_kernel)
def attend_stretches(
    query: torch.Tensor, stored: Pair, stretches: Sequence[Stretch], _: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Causal attention of each stretch, whose own keys are stored already; tokens x heads x size."""
    parts = []
    sizes = [one.tokens for one in stretches]
    with kernels_for(max(sizes)):
        for mine, stretch in zip(query.split(sizes), stretches, strict=True):
            own = slice(stretch.start, stretch.places.stop)
            keys, values = (torch.cat([one[:, stretch.before], one[:, own]], dim=1)[None] for one in stored)
            mask: Any = causal_lower_right(stretch.tokens, keys.shape[2])
            queries = mine.transpose(0, 1)[None]
            out = scaled_dot_product_attention(queries, keys, values, mask, scale=scaling, enable_gqa=True)
            parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)


class ReadShape(NamedTuple):
    """The size of the tensors of `Reads`."""

    pieces: int
    seats: int  # the most rows that read one piece
    parts: int  # the most pieces that one row reads


@dataclass(frozen=True, slots=True)
class Reads:
    """Which rows read which pieces in a step. Tensors of a fixed size: a new batch is copied into them."""

    rows: torch.Tensor  # the rows that read each piece: pieces x seats. A seat without a row has any number.
    first: torch.Tensor
    last: torch.Tensor  # the tokens of a piece that a seat sees, the last one excluded: pieces x seats
    grows: torch.Tensor  # 1 where `last` must be taken from the end of what the row has so far, else 0: pieces x seats
    places: torch.Tensor  # where the parts of each row are: rows x parts, each a piece and a seat in one number
    counted: torch.Tensor  # added to the log-sum-exp of each part: 0, or what excludes it. rows x parts.

    @classmethod
    def of(cls, prefixes: Sequence[slice], own: Sequence[slice], shape: ReadShape) -> Reads:
        """The reads of rows whose prefixes and own tokens have these places in the store."""
        rows, first, last, grows = (np.zeros(shape[:2], np.int64) for _ in range(4))
        places = np.zeros((len(prefixes), shape.parts), np.int64)
        counted = np.full((len(prefixes), shape.parts), _NEVER, np.float32)
        taken = [0] * shape.pieces
        for row, (prefix, mine) in enumerate(zip(prefixes, own, strict=True)):
            pieces = [(piece, prefix, 0) for piece in pieces_of(prefix)] + [(p, mine, 1) for p in pieces_of(mine)]
            for part, (piece, tokens, is_own) in enumerate(pieces):
                seat, taken[piece] = taken[piece], taken[piece] + 1
                at = piece * PIECE_TOKENS
                rows[piece, seat], grows[piece, seat] = row, is_own
                first[piece, seat] = max(tokens.start - at, 0)
                last[piece, seat] = tokens.start - at if is_own else tokens.stop - at
                places[row, part], counted[row, part] = piece * shape.seats + seat, 0.0
        return cls(*(torch.from_numpy(one) for one in (rows, first, last, grows, places, counted)))

    def to(self, device: torch.device) -> Reads:
        """The same on a device."""
        return Reads(*(getattr(self, field.name).to(device) for field in fields(self)))

    def copy_(self, other: Reads) -> None:
        """Take the reads of another batch of the same shape."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


def pieces_of(tokens: slice) -> range:
    """The numbers of the pieces that hold these tokens."""
    if tokens.start >= tokens.stop:
        return range(0)
    return range(tokens.start // PIECE_TOKENS, -(-tokens.stop // PIECE_TOKENS))


@faster_on_gpu(_import_kernel)
def attend_step(query: torch.Tensor, stored: Pair, reads: Reads, lengths: torch.Tensor, scaling: float) -> torch.Tensor:
    """Attention of one new token of each row, rows x heads x size; with it, rows have this many own tokens."""
    rows, heads, size = query.shape
    key_heads = stored[0].shape[0]
    pieces, groups = len(reads.rows), heads // key_heads
    seated = query.view(rows, key_heads, groups, size)[reads.rows].transpose(1, 2)  # pieces x heads x seats x groups
    keys, values = (one.view(key_heads, pieces, PIECE_TOKENS, size).transpose(0, 1).float() for one in stored)
    column = torch.arange(PIECE_TOKENS, device=query.device)
    last = reads.last + reads.grows * lengths[reads.rows]
    is_seen = (column >= reads.first[:, :, None]) & (column < last[:, :, None])
    scores = torch.einsum("pksgd,pktd->psgkt", seated.float(), keys) * scaling
    scores = scores.masked_fill(~is_seen[:, :, None, None], _NEVER)
    parts = torch.einsum("psgkt,pktd->psgkd", scores.softmax(dim=-1), values).flatten(0, 1)
    logs = scores.logsumexp(dim=-1).flatten(0, 1)
    shares = torch.softmax(logs[reads.places] + reads.counted[:, :, None, None], dim=1)
    merged = (parts[reads.places] * shares[..., None]).sum(dim=1)
    return merged.transpose(1, 2).reshape(rows, heads, size).to(query.dtype)
