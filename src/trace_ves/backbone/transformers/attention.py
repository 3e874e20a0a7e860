"""Attention of many rows over prefixes that are stored once, in plain torch operations.

The stored tokens are cut into pieces. Each piece is read once, for all rows whose prefix it belongs to and for no other
ones: no head is expanded and no prefix is copied for each row. Knows tensors alone. Scores over parts of the keys are
merged by their log-sum-exp, which gives what one softmax over all would.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.transformers.batch_plan import PrefixSlot

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Keys and values."""
CHUNK_TOKENS: Final = 512
"""Stored keys are worked on in pieces of this many tokens, so that a GPU has enough to do side by side."""
_NEVER: Final = -1e30  # finite: a piece that a row sees nothing of must give a number, which the merge then drops


@dataclass(frozen=True, slots=True)
class PrefixReads:
    """Which rows read which pieces of the stored prefixes.

    Held in tensors of a fixed size, which a captured step reads: a new batch is copied into them.
    """

    rows: torch.Tensor
    """The rows that read each piece: pieces x seats. A seat without a row has any number."""
    seen: torch.Tensor
    """What is added to the scores of a piece's keys for each of its rows: pieces x seats x 1 x tokens."""
    places: torch.Tensor
    """Where the parts of each row are: rows x parts, each a piece and a seat in one number."""
    counted: torch.Tensor
    """What is added to the log-sum-exp of each part: 0, or so little that it does not count. rows x parts."""

    @classmethod
    def of(cls, slots: Sequence[PrefixSlot], capacity: int, shape: ReadShape | None = None) -> PrefixReads:
        """The reads of rows with these slots in a store of this many tokens, in the shape given or the least one."""
        seats, parts = shape or ReadShape.of(slots, capacity)
        pieces = capacity // CHUNK_TOKENS
        rows = torch.zeros(pieces, seats, dtype=torch.long)
        seen = torch.full((pieces, seats, 1, CHUNK_TOKENS), _NEVER)
        places = torch.zeros(len(slots), parts, dtype=torch.long)
        counted = torch.full((len(slots), parts), _NEVER)
        taken = [0] * pieces
        for row, slot in enumerate(slots):
            for part, piece in enumerate(_pieces_of(slot)):
                seat, taken[piece] = taken[piece], taken[piece] + 1
                rows[piece, seat] = row
                first = piece * CHUNK_TOKENS
                seen[piece, seat, 0, max(slot.start - first, 0) : slot.end - first] = 0.0
                places[row, part] = piece * seats + seat
                counted[row, part] = 0.0
        return cls(rows, seen, places, counted)

    def to(self, device: torch.device) -> PrefixReads:
        """The same on a device."""
        return PrefixReads(*(getattr(self, field.name).to(device) for field in fields(self)))

    def copy_(self, other: PrefixReads) -> None:
        """Take the reads of another batch of the same shape."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


class ReadShape(NamedTuple):
    """The size of the tensors of `PrefixReads`."""

    seats: int
    """The most rows that read one piece."""
    parts: int
    """The most pieces that one row reads."""

    @classmethod
    def of(cls, slots: Sequence[PrefixSlot], capacity: int) -> ReadShape:
        """The least shape for rows with these slots."""
        readers = [0] * (capacity // CHUNK_TOKENS)
        for slot in slots:
            for piece in _pieces_of(slot):
                readers[piece] += 1
        return cls(max(1, *readers), max(1, *(len(_pieces_of(slot)) for slot in slots)))


def _pieces_of(slot: PrefixSlot) -> range:
    """The numbers of the pieces that hold a prefix."""
    return range(slot.start // CHUNK_TOKENS, -(-slot.end // CHUNK_TOKENS) if slot.end > slot.start else 0)


def own_bias(lengths: torch.Tensor, capacity: int) -> torch.Tensor:
    """What is added to the scores of a row's own keys, of which the first `lengths` count: rows x 1 x 1 x tokens."""
    columns = torch.arange(capacity, device=lengths.device)
    seen = columns[None, :] < lengths[:, None]
    return torch.where(seen, 0.0, _NEVER)[:, None, None, :]


def attend_suffix(
    query: torch.Tensor, own: Pair, stored: Pair, *, slots: Sequence[PrefixSlot], lengths: Sequence[int], scaling: float
) -> torch.Tensor:
    """Causal attention of each row's suffix over its stored prefix and itself.

    The suffixes stand one after the other, without padding: query, own keys and values are 1 x heads x tokens x size.
    Stored keys and values are heads x tokens x size. Gives 1 x tokens x heads x size.
    """
    attended = []
    start = 0
    for slot, length in zip(slots, lengths, strict=True):
        prefix, suffix = slice(slot.start, slot.end), slice(start, start + length)
        keys = torch.cat([stored[0][:, prefix], own[0][0, :, suffix]], dim=1)
        values = torch.cat([stored[1][:, prefix], own[1][0, :, suffix]], dim=1)
        mask: Any = causal_lower_right(length, keys.shape[1])
        attended.append(
            scaled_dot_product_attention(
                query[:, :, suffix], keys[None], values[None], mask, scale=scaling, enable_gqa=True
            ).transpose(1, 2)
        )
        start += length
    return torch.cat(attended, dim=1)


def attend_step(
    query: torch.Tensor, own: Pair, stored: Pair, *, own_seen: torch.Tensor, reads: PrefixReads, scaling: float
) -> torch.Tensor:
    """Attention of one new token of each row over its stored prefix and its own tokens.

    Query is rows x heads x 1 x size, own keys and values rows x key heads x tokens x size, stored ones key heads x
    tokens x size; `own_seen` is a bias of this module. Gives rows x 1 x heads x size.
    """
    rows, heads, _, size = query.shape
    key_heads = own[0].shape[1]
    groups = heads // key_heads
    pieces, seats = reads.rows.shape
    grouped = query.view(rows, key_heads, groups, size)
    seated = grouped[reads.rows].permute(2, 0, 1, 3, 4).reshape(key_heads, pieces, seats * groups, size)
    pieced = (
        stored[0].view(key_heads, pieces, CHUNK_TOKENS, size),
        stored[1].view(key_heads, pieces, CHUNK_TOKENS, size),
    )
    shared, shared_log = _part(seated, pieced, reads.seen, shape=(key_heads, pieces, seats, groups), scaling=scaling)
    alone, alone_log = _part(grouped, own, own_seen, shape=(rows, key_heads, groups), scaling=scaling)
    parts = shared.flatten(1, 2)[:, reads.places]  # key heads x rows x parts x groups x size
    parts_log = shared_log.flatten(1, 2)[:, reads.places] + reads.counted[None, :, :, None]
    weights = torch.softmax(torch.cat([parts_log, alone_log.transpose(0, 1).unsqueeze(2)], dim=2), dim=2).unsqueeze(-1)
    merged = (parts * weights[:, :, :-1]).sum(dim=2) + alone.transpose(0, 1) * weights[:, :, -1]
    return merged.transpose(0, 1).to(query.dtype).reshape(rows, 1, heads, size)


def _part(
    query: torch.Tensor, keys_values: Pair, bias: torch.Tensor, *, shape: tuple[int, ...], scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over one part of the keys, shaped as told, with the log-sum-exp of its scores, both in float32."""
    key, value = keys_values
    scores = _product(query, key.transpose(-1, -2)).view(*shape, key.shape[-2])
    scores = torch.add(bias, scores, alpha=scaling)
    shares = torch.softmax(scores, dim=-1)
    log = scores.amax(dim=-1) - shares.amax(dim=-1).log()  # cheaper than logsumexp, which would go over all again
    flat = shares.to(value.dtype).view(*query.shape[:-1], key.shape[-2])
    return _product(flat, value).view(*shape, value.shape[-1]), log


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The matrix product in float32, whatever is multiplied."""
    if left.dtype == torch.float32:
        return left @ right
    if left.device.type != "cuda":
        return left.float() @ right.float()
    flat = torch.bmm(left.flatten(0, -3), right.flatten(0, -3), out_dtype=torch.float32)
    return flat.view(*left.shape[:-1], right.shape[-1])
