"""The decoder layers of Qwen3-VL (also with experts) and Qwen2.5-VL, over a flat list of tokens.

They use the model's own weights. Linear layers with the same input are joined; the rest is compiled on a GPU.
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
    """Decorate a function: calls with a tensor on a GPU use the faster function that `make` returns."""

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
            except Exception as error:  # noqa: BLE001  without a compiler the result is the same, but slower
                _LOG.warning("Local models are slower here: torch cannot compile (%s).", type(error).__name__)
                fast = work
                return work(*args, **kwargs)

        return call

    return decorate


def compile_on_gpu(work: Callable[P, R]) -> Callable[P, R]:
    """Compile a function at its first call with a tensor on a GPU."""
    return faster_on_gpu(torch.compile)(work)


def _rms_norm(hidden: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The tokens divided by their root mean square, times the weight."""
    exact = hidden.float()
    scale = torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + epsilon)
    return weight * (exact * scale).to(hidden.dtype)


norm = compile_on_gpu(_rms_norm)


@compile_on_gpu
def add_and_norm(
    hidden: torch.Tensor, update: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of both, and the normalised sum."""
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
    """Apply rotary positions to queries or keys, tokens x heads x size; with a weight, normalise them first."""
    if weight is not None:
        heads = _rms_norm(heads, weight, epsilon)
    left, right = heads.chunk(2, dim=-1)
    rotated = torch.cat([-right, left], dim=-1)
    return (heads * cos[:, None] + rotated * sin[:, None]).to(heads.dtype)


Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # Keys and values; in a store, each is key heads x tokens x size
# Stores a layer's keys and values, and returns the attention of its queries with this scaling: tokens x heads x size.
Attend: TypeAlias = "Callable[[int, torch.Tensor, Pair, float], torch.Tensor]"


class Deeper(NamedTuple):
    """The features that the first layers add to the tokens of frames."""

    where: torch.Tensor  # The indexes of these tokens
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
    """One layer: the model's modules, with linear layers over the same input joined."""

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
        """The output of attention, which is added to the tokens."""
        module = self._attention
        heads = self._query_key_value(normed).view(len(normed), -1, module.head_dim)
        key_heads = heads.shape[1] // (module.num_key_value_groups + 2)
        query, key, value = heads.split([heads.shape[1] - 2 * key_heads, key_heads, key_heads], dim=1)
        query = rotate(query, cos, sin, *_norm_parameters(getattr(module, "q_norm", None)))
        key = rotate(key, cos, sin, *_norm_parameters(getattr(module, "k_norm", None)))
        values = attend(number, query, (key, value), module.scaling)
        output: torch.Tensor = module.o_proj(values.reshape(len(normed), -1))
        return output

    def feed_forward(self, normed: torch.Tensor) -> torch.Tensor:
        """The output of the feed-forward network, which is added to the tokens."""
        if self._gate_up is None:
            output: torch.Tensor = self._mlp(normed[None])[0]
        else:
            output = self._mlp.down_proj(gate(self._gate_up(normed)))
        return output


def _norm_parameters(module: Any) -> tuple[Any, float]:
    """Weight and epsilon of a norm; the weight is None if the model has no such norm."""
    return (None, 0.0) if module is None else (module.weight, module.variance_epsilon)


def _join(parts: Sequence[Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Join linear layers, whose outputs are concatenated; one product unless they are quantised."""
    if any(type(part) is not torch.nn.Linear for part in parts):  # quantised
        return lambda inputs: torch.cat([part(inputs) for part in parts], dim=-1)
    weight = torch.cat([part.weight.data for part in parts])
    bias = torch.cat([part.bias.data for part in parts]) if parts[0].bias is not None else None
    start = 0
    for part in parts:  # the model's own weights become views, so that they are not in memory twice
        part.weight.data = weight[start : start + part.out_features]
        start += part.out_features
    return lambda inputs: functional.linear(inputs, weight, bias)


PIECE_TOKENS: Final = 256  # Stored keys are read in pieces of this size, so that a GPU reads many in parallel
QUERIES_AT_ONCE: Final = 128  # Queries of a prefill in one block of a GPU's work
_WORTH_A_PLAN: Final = 16_384
_WITHOUT_PLANS: Final = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_EXCLUDED: Final = -1e30  # Finite, because a row gets a number even for a piece that it does not see


def choose_kernels(tokens: int) -> AbstractContextManager[None]:
    """A context with the attention kernels for this many tokens that attend to each other."""
    # cuDNN's kernel is the fastest, but plans every new shape, which only pays off for the largest prefixes
    return nullcontext() if tokens >= _WORTH_A_PLAN else sdpa_kernel(_WITHOUT_PLANS)


class Stretch(NamedTuple):
    """Tokens of one row that are computed together. They attend to the earlier tokens of the row and to themselves."""

    before: slice  # Where the row's prefix is stored, if it is not right before the other tokens
    start: int  # Where the other tokens are stored
    done: int  # How many of them are stored already
    tokens: int  # How many are computed now

    @property
    def places(self) -> range:
        """Where the tokens are stored."""
        return range(self.start + self.done, self.start + self.done + self.tokens)

    def cut(self, tokens: int) -> tuple[Stretch, Stretch]:
        """Split after this many tokens."""
        return self._replace(tokens=tokens), self._replace(done=self.done + tokens, tokens=self.tokens - tokens)


def plan_query_blocks(stretches: Sequence[Stretch]) -> torch.Tensor:
    """The parameters of each block of queries on a GPU, those with the most work first: blocks x 6."""
    blocks, first = [], 0
    for one in stretches:
        for start in range(0, one.tokens, QUERIES_AT_ONCE):
            queries = first + start, min(QUERIES_AT_ONCE, one.tokens - start)  # the first query, and the count
            before = one.before.start, one.before.stop - one.before.start  # the first key of the prefix, and the count
            own = one.start, one.done + start  # the first key of the stretch, and the count before the block
            blocks.append((*queries, *before, *own))
        first += one.tokens
    return torch.tensor(sorted(blocks, key=lambda block: -block[3] - block[5]), dtype=torch.int32)


def _import_kernel(work: Callable[P, R]) -> Callable[P, R]:
    from trace_ves.backbone.hf import kernels  # Triton is installed only if torch supports a GPU

    kernel: Callable[P, R] = getattr(kernels, work.__name__)
    return kernel


@faster_on_gpu(_import_kernel)
def attend_stretches(
    query: torch.Tensor, stored: Pair, stretches: Sequence[Stretch], _: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Causal attention of each stretch, whose keys are already stored; tokens x heads x size."""
    parts = []
    sizes = [one.tokens for one in stretches]
    with choose_kernels(max(sizes)):
        for mine, stretch in zip(query.split(sizes), stretches, strict=True):
            own = slice(stretch.start, stretch.places.stop)
            keys, values = (torch.cat([one[:, stretch.before], one[:, own]], dim=1)[None] for one in stored)
            mask: Any = causal_lower_right(stretch.tokens, keys.shape[2])
            queries = mine.transpose(0, 1)[None]
            out = scaled_dot_product_attention(queries, keys, values, mask, scale=scaling, enable_gqa=True)
            parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)


class ReadShape(NamedTuple):
    """The shape of the tensors of `Reads`."""

    pieces: int
    seats: int  # The most rows that read one piece
    parts: int  # The most pieces that one row reads


@dataclass(frozen=True, slots=True)
class Reads:
    """Which rows read which pieces in a step. The tensors have a fixed size, and a new batch is copied into them."""

    rows: torch.Tensor  # The rows that read each piece: pieces x seats. A seat without a row has any number.
    first: torch.Tensor
    last: torch.Tensor  # The tokens of a piece that a seat sees, excluding the last: pieces x seats
    grows: torch.Tensor  # 1 if the row's current length is added to `last`, else 0: pieces x seats
    places: torch.Tensor  # The part of each row, as piece * seats + seat: rows x parts
    biases: torch.Tensor  # Added to the log-sum-exp of each part: 0, or `_EXCLUDED` for no part. rows x parts.

    @classmethod
    def of(cls, prefixes: Sequence[slice], own: Sequence[slice], shape: ReadShape) -> Reads:
        """The reads of rows whose prefixes and own tokens have these places in the store."""
        rows, first, last, grows = (np.zeros(shape[:2], np.int64) for _ in range(4))
        places = np.zeros((len(prefixes), shape.parts), np.int64)
        biases = np.full((len(prefixes), shape.parts), _EXCLUDED, np.float32)
        next_seats = [0] * shape.pieces
        for row, (prefix, mine) in enumerate(zip(prefixes, own, strict=True)):
            pieces = [(piece, prefix, 0) for piece in pieces_of(prefix)] + [(p, mine, 1) for p in pieces_of(mine)]
            for part, (piece, tokens, is_own) in enumerate(pieces):
                seat, next_seats[piece] = next_seats[piece], next_seats[piece] + 1
                at = piece * PIECE_TOKENS
                rows[piece, seat], grows[piece, seat] = row, is_own
                first[piece, seat] = max(tokens.start - at, 0)
                last[piece, seat] = tokens.start - at if is_own else tokens.stop - at
                places[row, part], biases[row, part] = piece * shape.seats + seat, 0.0
        return cls(*(torch.from_numpy(one) for one in (rows, first, last, grows, places, biases)))

    def to(self, device: torch.device) -> Reads:
        """The same tensors on a device."""
        return Reads(*(getattr(self, field.name).to(device) for field in fields(self)))

    def copy_(self, other: Reads) -> None:
        """Copy the reads of another batch of the same shape."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


def pieces_of(tokens: slice) -> range:
    """The numbers of the pieces that hold these tokens."""
    if tokens.start >= tokens.stop:
        return range(0)
    return range(tokens.start // PIECE_TOKENS, -(-tokens.stop // PIECE_TOKENS))


@faster_on_gpu(_import_kernel)
def attend_step(query: torch.Tensor, stored: Pair, reads: Reads, lengths: torch.Tensor, scaling: float) -> torch.Tensor:
    """Attention of one new token of each row, rows x heads x size. `lengths` are the rows' own tokens, including it."""
    rows, heads, size = query.shape
    key_heads = stored[0].shape[0]
    pieces, groups = len(reads.rows), heads // key_heads
    queries = query.view(rows, key_heads, groups, size)[reads.rows].transpose(1, 2)  # pieces x heads x seats x groups
    keys, values = (one.view(key_heads, pieces, PIECE_TOKENS, size).transpose(0, 1).float() for one in stored)
    column = torch.arange(PIECE_TOKENS, device=query.device)
    last = reads.last + reads.grows * lengths[reads.rows]
    is_seen = (column >= reads.first[:, :, None]) & (column < last[:, :, None])
    scores = torch.einsum("pksgd,pktd->psgkt", queries.float(), keys) * scaling
    scores = scores.masked_fill(~is_seen[:, :, None, None], _EXCLUDED)
    parts = torch.einsum("psgkt,pktd->psgkd", scores.softmax(dim=-1), values).flatten(0, 1)
    logs = scores.logsumexp(dim=-1).flatten(0, 1)
    shares = torch.softmax(logs[reads.places] + reads.biases[:, :, None, None], dim=1)
    merged = (parts[reads.places] * shares[..., None]).sum(dim=1)
    return merged.transpose(1, 2).reshape(rows, heads, size).to(query.dtype)
