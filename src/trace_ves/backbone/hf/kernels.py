"""Attention on a GPU, in Triton: for a prefill, and for a step, which reads each piece of the store once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
import triton
import triton.language as tl

from trace_ves.backbone.hf.layers import PIECE_TOKENS, QUERIES_AT_ONCE, Pair, Reads, Stretch

_TOKENS_AT_ONCE: Final = 64
_MOST_QUERIES: Final = 64
_PARTS_AT_ONCE: Final = 32


def attend_stretches(
    query: torch.Tensor, stored: Pair, _: Sequence[Stretch], blocks: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Like `layers.attend_stretches`."""
    heads, size = query.shape[1:]
    key_heads, tokens = stored[0].shape[:2]
    attended = torch.empty_like(query, memory_format=torch.contiguous_format)
    is_exact = query.dtype == torch.float32
    _attend_blocks[len(blocks), heads](
        *(query.contiguous(), *stored, blocks, attended, scaling * math.log2(math.e), tokens * size),
        TOKENS=_TOKENS_AT_ONCE // 2 if is_exact else _TOKENS_AT_ONCE,
        QUERIES=QUERIES_AT_ONCE,
        HEADS=heads,
        GROUPS=heads // key_heads,
        SIZE=size,
        num_warps=8 if is_exact else 4,
        num_stages=1 if is_exact else 2,
    )
    return attended


def attend_step(query: torch.Tensor, stored: Pair, reads: Reads, lengths: torch.Tensor, scaling: float) -> torch.Tensor:
    """Like `layers.attend_step`."""
    rows, heads, size = query.shape
    key_heads, tokens = stored[0].shape[:2]
    pieces, seats = reads.rows.shape
    sizes = {"GROUPS": heads // key_heads, "KEY_HEADS": key_heads, "SIZE": size}
    queries = min(max(16, triton.next_power_of_2(seats * heads // key_heads)), _MOST_QUERIES)
    parts = torch.empty(pieces * seats, heads, size, dtype=torch.float32, device=query.device)
    logs = torch.empty(pieces * seats, heads, dtype=torch.float32, device=query.device)
    _attend[pieces, key_heads, triton.cdiv(seats, queries // sizes["GROUPS"])](
        query.contiguous(),
        *stored,
        *(reads.rows, reads.first, reads.last, reads.grows, lengths),
        *(parts, logs, scaling, tokens * size, seats),
        PIECE=PIECE_TOKENS,
        TOKENS=_TOKENS_AT_ONCE,
        QUERIES=queries,
        **sizes,
    )
    merged = torch.empty(rows, heads, size, dtype=query.dtype, device=query.device)
    places, biases = reads.places, reads.biases
    _merge[rows, heads](parts, logs, places, biases, merged, places.shape[1], PARTS=_PARTS_AT_ONCE, **sizes)
    return merged


def _attend_block(  # noqa: PLR0917  Triton passes by position
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    blocks: tl.tensor,
    attended: tl.tensor,
    scaling: tl.tensor,
    head_stride: tl.tensor,
    TOKENS: tl.constexpr,  # noqa: N803  Triton's constants are written like this
    QUERIES: tl.constexpr,  # noqa: N803
    HEADS: tl.constexpr,  # noqa: N803
    GROUPS: tl.constexpr,  # noqa: N803
    SIZE: tl.constexpr,  # noqa: N803
) -> None:
    """Attention of a block of queries of one stretch, for one head. Exponents are of base two."""
    block, head = blocks + 6 * tl.program_id(0), tl.program_id(1)
    first, count = tl.load(block), tl.load(block + 1)
    before_start, before = tl.load(block + 2), tl.load(block + 3)
    own_start, done = tl.load(block + 4), tl.load(block + 5)
    lane, of_size = tl.arange(0, QUERIES), tl.arange(0, SIZE)
    base = (head // GROUPS).to(tl.int64) * head_stride
    places = ((first + lane).to(tl.int64) * HEADS + head)[:, None] * SIZE + of_size[None, :]
    asked = tl.load(query + places, mask=(lane < count)[:, None], other=0.0)
    top = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    summed = tl.zeros([QUERIES, SIZE], tl.float32)
    seen_by_all = (before + done) // TOKENS * TOKENS
    for start in range(0, seen_by_all, TOKENS):
        column = start + tl.arange(0, TOKENS)
        place = tl.where(column < before, before_start + column, own_start + column - before)
        cells = base + place[:, None] * SIZE + of_size[None, :]
        scores = tl.dot(asked, tl.trans(tl.load(keys + cells)), input_precision="ieee") * scaling
        new_top = tl.maximum(top, tl.max(scores, 1))
        shares = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(shares, 1)
        value = tl.load(values + cells)
        summed = tl.dot(shares.to(value.dtype), value, summed * shrink[:, None], input_precision="ieee")
        top = new_top
    for start in range(seen_by_all, before + done + count, TOKENS):
        column = start + tl.arange(0, TOKENS)
        is_there = (column < before + done + count)[:, None]
        place = tl.where(column < before, before_start + column, own_start + column - before)
        cells = base + place[:, None] * SIZE + of_size[None, :]
        key = tl.load(keys + cells, mask=is_there, other=0.0)
        is_seen = column[None, :] <= (before + done + lane)[:, None]
        scores = tl.where(is_seen, tl.dot(asked, tl.trans(key), input_precision="ieee") * scaling, -1e30)
        new_top = tl.maximum(top, tl.max(scores, 1))
        shares = tl.where(is_seen, tl.exp2(scores - new_top[:, None]), 0.0)
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(shares, 1)
        value = tl.load(values + cells, mask=is_there, other=0.0)
        summed = tl.dot(shares.to(value.dtype), value, summed * shrink[:, None], input_precision="ieee")
        top = new_top
    tl.store(attended + places, summed / total[:, None], mask=(lane < count)[:, None])


def _attend_piece(  # noqa: PLR0917
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    rows: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    grows: tl.tensor,
    lengths: tl.tensor,
    parts: tl.tensor,
    logs: tl.tensor,
    scaling: tl.tensor,
    head_stride: tl.tensor,
    seats: tl.tensor,
    PIECE: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    QUERIES: tl.constexpr,  # noqa: N803
    GROUPS: tl.constexpr,  # noqa: N803
    KEY_HEADS: tl.constexpr,  # noqa: N803
    SIZE: tl.constexpr,  # noqa: N803
) -> None:
    """Attention of the rows that read one piece, for one key head, and the log-sum-exp of their scores."""
    piece, head = tl.program_id(0), tl.program_id(1)
    lane = tl.arange(0, QUERIES)
    seat = tl.program_id(2) * (QUERIES // GROUPS) + lane // GROUPS
    is_seat = (lane < QUERIES // GROUPS * GROUPS) & (seat < seats)
    at = piece * seats + seat
    row = tl.load(rows + at, mask=is_seat, other=0)
    begin = tl.load(first + at, mask=is_seat, other=0)
    end = tl.load(last + at, mask=is_seat, other=0)
    end += tl.load(grows + at, mask=is_seat, other=0) * tl.load(lengths + row, mask=is_seat, other=0)
    end = tl.minimum(end, PIECE)
    is_used = is_seat & (begin < end)
    lowest = tl.min(tl.where(is_used, begin, PIECE), 0)
    highest = tl.max(tl.where(is_used, end, 0), 0)
    of_size = tl.arange(0, SIZE)
    heads = head * GROUPS + lane % GROUPS
    places = (row * KEY_HEADS * GROUPS + heads)[:, None] * SIZE + of_size[None, :]
    asked = tl.load(query + places, mask=is_used[:, None], other=0.0)
    top = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    summed = tl.zeros([QUERIES, SIZE], tl.float32)
    for start in range(lowest // TOKENS * TOKENS, highest, TOKENS):
        column = start + tl.arange(0, TOKENS)
        cells = (head.to(tl.int64) * head_stride + (piece * PIECE + column) * SIZE)[:, None] + of_size[None, :]
        key = tl.load(keys + cells)
        is_seen = is_used[:, None] & (column[None, :] >= begin[:, None]) & (column[None, :] < end[:, None])
        scores = tl.where(is_seen, tl.dot(asked, tl.trans(key), input_precision="ieee") * scaling, -1e30)
        new_top = tl.maximum(top, tl.max(scores, 1))
        shares = tl.where(is_seen, tl.exp(scores - new_top[:, None]), 0.0)
        shrink = tl.exp(top - new_top)
        value = tl.load(values + cells)
        total = total * shrink + tl.sum(shares, 1)
        summed = summed * shrink[:, None] + tl.dot(shares.to(value.dtype), value, input_precision="ieee")
        top = new_top
    out = at * KEY_HEADS * GROUPS + heads
    whole = tl.where(total > 0, total, 1.0)
    tl.store(logs + out, tl.where(total > 0, top + tl.log(whole), -1e30), mask=is_seat)
    tl.store(parts + out[:, None] * SIZE + of_size[None, :], summed / whole[:, None], mask=is_used[:, None])


def _merge_parts(  # noqa: PLR0917
    parts: tl.tensor,
    logs: tl.tensor,
    places: tl.tensor,
    biases: tl.tensor,
    merged: tl.tensor,
    most: tl.tensor,
    PARTS: tl.constexpr,  # noqa: N803
    GROUPS: tl.constexpr,  # noqa: N803
    KEY_HEADS: tl.constexpr,  # noqa: N803
    SIZE: tl.constexpr,  # noqa: N803
) -> None:
    """Merge the attention of one row and head over its pieces."""
    row, head = tl.program_id(0), tl.program_id(1)
    of_size = tl.arange(0, SIZE)
    top = tl.full([1], -1e30, tl.float32)
    total = tl.zeros([1], tl.float32)
    summed = tl.zeros([SIZE], tl.float32)
    for start in range(0, most, PARTS):
        part = start + tl.arange(0, PARTS)
        is_counted = tl.load(biases + row * most + part, mask=part < most, other=-1.0) == 0.0
        at = tl.load(places + row * most + part, mask=is_counted, other=0) * KEY_HEADS * GROUPS + head
        log = tl.load(logs + at, mask=is_counted, other=-1e30)
        is_seen = log > -1e29
        new_top = tl.maximum(top, tl.max(log, 0))
        shares = tl.where(is_seen, tl.exp(log - new_top), 0.0)
        shrink = tl.exp(top - new_top)
        part_values = tl.load(parts + at[:, None] * SIZE + of_size[None, :], mask=is_seen[:, None], other=0.0)
        total = total * shrink + tl.sum(shares, 0)
        summed = summed * shrink + tl.sum(part_values * shares[:, None], 0)
        top = new_top
    tl.store(merged + (row * KEY_HEADS * GROUPS + head) * SIZE + of_size, summed / tl.where(total > 0, total, 1.0))


_attend_blocks: Any = triton.jit(_attend_block)
_attend: Any = triton.jit(_attend_piece)
_merge: Any = triton.jit(_merge_parts)
