"""Attention of many rows over prefixes that are stored once, in plain torch operations.

The stored tokens are read once for all rows: no head is expanded and no prefix is copied for each row. Knows tensors
alone. Scores over parts of the keys are merged by their log-sum-exp, which gives what one softmax over all would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

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


def prefix_bias(slots: Sequence[PrefixSlot], capacity: int) -> torch.Tensor:
    """What is added to the scores of stored keys, so that each row sees its own prefix: pieces x rows x 1 x tokens."""
    columns = torch.arange(capacity)
    bias = torch.full((len(slots), capacity), _NEVER)
    for row, slot in enumerate(slots):
        bias[row, (columns >= slot.start) & (columns < slot.end)] = 0.0
    return bias.view(len(slots), -1, CHUNK_TOKENS).transpose(0, 1).unsqueeze(2).contiguous()


def own_bias(lengths: torch.Tensor, capacity: int) -> torch.Tensor:
    """What is added to the scores of a row's own keys, of which the first `lengths` count: rows x 1 x 1 x tokens."""
    columns = torch.arange(capacity, device=lengths.device)
    seen = columns[None, :] < lengths[:, None]
    return torch.where(seen, 0.0, _NEVER)[:, None, None, :]


def attend_suffix(
    query: torch.Tensor, own: Pair, stored: Pair, *, slots: Sequence[PrefixSlot], lengths: Sequence[int], scaling: float
) -> torch.Tensor:
    """Causal attention of each row's suffix over its stored prefix and itself.

    Query, own keys and values are rows x heads x tokens x size, of which the first `lengths` tokens count; stored keys
    and values are heads x tokens x size. Gives rows x tokens x heads x size.
    """
    out = torch.zeros_like(query.transpose(1, 2))
    for row, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
        prefix = slice(slot.start, slot.end)
        keys = torch.cat([stored[0][:, prefix], own[0][row, :, :length]], dim=1)
        values = torch.cat([stored[1][:, prefix], own[1][row, :, :length]], dim=1)
        mask: Any = causal_lower_right(length, keys.shape[1])
        attended = scaled_dot_product_attention(
            query[row : row + 1, :, :length], keys[None], values[None], mask, scale=scaling, enable_gqa=True
        )
        out[row, :length] = attended[0].transpose(0, 1)
    return out


def attend_step(
    query: torch.Tensor, own: Pair, stored: Pair, *, own_seen: torch.Tensor, stored_seen: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Attention of one new token of each row over its stored prefix and its own tokens.

    Query is rows x heads x 1 x size, own keys and values rows x key heads x tokens x size, stored ones key heads x
    tokens x size; `own_seen` and `stored_seen` are biases of this module. Gives rows x 1 x heads x size.
    """
    rows, heads, _, size = query.shape
    key_heads = own[0].shape[1]
    groups = heads // key_heads
    pieces = stored[0].shape[1] // CHUNK_TOKENS
    grouped = query.view(rows, key_heads, groups, size)
    stacked = grouped.transpose(0, 1).reshape(key_heads, 1, rows * groups, size).expand(-1, pieces, -1, -1)
    pieced = (
        stored[0].view(key_heads, pieces, CHUNK_TOKENS, size),
        stored[1].view(key_heads, pieces, CHUNK_TOKENS, size),
    )
    shared, shared_log = _part(stacked, pieced, stored_seen, shape=(key_heads, pieces, rows, groups), scaling=scaling)
    alone, alone_log = _part(grouped, own, own_seen, shape=(rows, key_heads, groups), scaling=scaling)
    logs = torch.cat([shared_log.permute(2, 0, 3, 1), alone_log.unsqueeze(-1)], dim=-1)
    weights = torch.softmax(logs, dim=-1).unsqueeze(-1)
    merged = (shared.permute(2, 0, 3, 1, 4) * weights[..., :-1, :]).sum(dim=-2) + alone * weights[..., -1, :]
    return merged.to(query.dtype).reshape(rows, 1, heads, size)


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
