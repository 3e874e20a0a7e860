"""Attention of many rows over keys and values that are stored once, by operations that torch has.

All stored tokens, of prefixes and of rows, lie on one axis. For a step it is cut into pieces, and each piece is read
once, for all rows that see some of it: no head is expanded and no prefix is copied for each row. What a row gets from
its pieces is merged by their log-sum-exp, which gives what one softmax over all would. Knows tensors alone.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from trace_ves.backbone.transformers import pointwise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, each key heads x tokens x size."""
PIECE_TOKENS: Final = 256
"""Stored keys are read in pieces of this many tokens, so that a GPU has enough to do side by side."""
_WORTH_A_PLAN: Final = 16_384
_WITHOUT_PLANS: Final = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_NEVER: Final = -1e30  # finite: a piece that a row sees nothing of must give a number, which the merge then drops


def kernels_for(tokens: int) -> AbstractContextManager[None]:
    """The kernels of attention to choose from when so many tokens attend to each other.

    cuDNN's is the fastest, but makes a plan for every new shape, and most prefixes have one of their own; so it is left
    to the largest ones.
    """
    return nullcontext() if tokens >= _WORTH_A_PLAN else sdpa_kernel(_WITHOUT_PLANS)


class Stretch(NamedTuple):
    """Tokens of one row that are computed together. They see what stands before them in the row, and themselves."""

    before: slice
    """Where the first tokens of the row are stored, if not right before the others."""
    start: int
    """Where the others are stored."""
    done: int
    """How many of the others are there already."""
    tokens: int
    """How many are computed now."""

    @property
    def places(self) -> range:
        """Where the tokens are stored."""
        return range(self.start + self.done, self.start + self.done + self.tokens)

    def cut(self, tokens: int) -> tuple[Stretch, Stretch]:
        """The first tokens, and those after them."""
        return self._replace(tokens=tokens), self._replace(done=self.done + tokens, tokens=self.tokens - tokens)


def attend_stretches(
    query: torch.Tensor, stored: Pair, stretches: Sequence[Stretch], scaling: float
) -> list[torch.Tensor]:
    """Causal attention of stretches, whose own keys are stored already; query is tokens x heads x size.

    Gives tokens x heads x size for each stretch.
    """
    attended = []
    first = 0
    for stretch in stretches:
        keys, values = (_seen(one, stretch) for one in stored)
        mine = query[first : first + stretch.tokens].transpose(0, 1)[None]
        mask: Any = causal_lower_right(stretch.tokens, keys.shape[2])
        out = scaled_dot_product_attention(mine, keys, values, mask, scale=scaling, enable_gqa=True)
        attended.append(out[0].transpose(0, 1))
        first += stretch.tokens
    return attended


def _seen(stored: torch.Tensor, stretch: Stretch) -> torch.Tensor:
    mine = stored[:, stretch.start : stretch.start + stretch.done + stretch.tokens]
    before = stored[:, stretch.before]
    return (torch.cat([before, mine], dim=1) if before.shape[1] else mine)[None]


class ReadShape(NamedTuple):
    """The size of the tensors of `Reads`."""

    pieces: int
    seats: int
    """The most rows that read one piece."""
    parts: int
    """The most pieces that one row reads."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Which rows read which pieces in a step. Tensors of a fixed size: a new batch is copied into them."""

    rows: torch.Tensor
    """The rows that read each piece: pieces x seats. A seat without a row has any number."""
    first: torch.Tensor
    last: torch.Tensor
    """The tokens of a piece that a seat sees, the last one excluded: pieces x seats."""
    grows: torch.Tensor
    """1 where `last` is to be taken from the end of what the row has so far, else 0: pieces x seats."""
    places: torch.Tensor
    """Where the parts of each row are: rows x parts, each a piece and a seat in one number."""
    counted: torch.Tensor
    """What is added to the log-sum-exp of each part: 0, or so little that it does not count. rows x parts."""

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

    def bias(self, lengths: torch.Tensor, groups: int, dtype: torch.dtype) -> torch.Tensor:
        """What is added to the scores when rows have so many own tokens: pieces x 1 x seats and groups x tokens."""
        column = torch.arange(PIECE_TOKENS, device=lengths.device)
        last = self.last + self.grows * lengths[self.rows]
        seen = (column >= self.first[:, :, None]) & (column < last[:, :, None])
        bias = torch.where(seen, 0.0, _NEVER).to(dtype)
        return bias[:, None].repeat_interleave(groups, dim=2)


def pieces_of(tokens: slice) -> range:
    """The numbers of the pieces that hold these tokens."""
    if tokens.start >= tokens.stop:
        return range(0)
    return range(tokens.start // PIECE_TOKENS, -(-tokens.stop // PIECE_TOKENS))


def attend_step(query: torch.Tensor, stored: Pair, reads: Reads, bias: torch.Tensor, *, scaling: float) -> torch.Tensor:
    """Attention of one new token of each row, whose key is stored already, over all that the row sees.

    Query is rows x heads x size; `bias` is that of the reads. Gives rows x heads x size.
    """
    rows, heads, size = query.shape
    key_heads = stored[0].shape[0]
    pieces, seats = reads.rows.shape
    groups = heads // key_heads
    by_group = query.view(rows, key_heads, groups, size).transpose(1, 2).contiguous()
    seated = by_group[reads.rows].view(pieces, seats * groups, key_heads, size).transpose(1, 2)
    keys, values = (one.view(key_heads, pieces, PIECE_TOKENS, size).transpose(0, 1) for one in stored)
    parts, logs = _attend_pieces(seated, keys, values, bias.expand(-1, key_heads, -1, -1), scaling)
    parts = parts.transpose(1, 2).reshape(pieces * seats, groups, key_heads, size)
    logs = logs.transpose(1, 2).reshape(pieces * seats, groups, key_heads)
    return pointwise.merged(parts, logs, reads.places, reads.counted).reshape(rows, heads, size)


def _attend_pieces(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor, scaling: float
) -> Pair:
    """Attention over each piece, pieces x heads x queries x size, and the log-sum-exp of its scores."""
    if query.is_cuda:
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        parts, logs, *_ = attend(query, keys, values, bias, compute_log_sumexp=True, scale=scaling)
        return parts, logs[:, :, : query.shape[2]]
    scores = query.float() @ keys.float().transpose(-1, -2) * scaling + bias
    return (scores.softmax(dim=-1) @ values.float()).to(query.dtype), scores.logsumexp(dim=-1)
