"""The keys and values of a batch on one axis: every distinct prefix once, then each row's own tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch

from trace_ves.backbone.hf import layers
from trace_ves.backbone.hf.layers import Attend, Pair, Reads, Stretch

if TYPE_CHECKING:
    from trace_ves.backbone.hf.plans import BatchPlan, ModelShape, PrefixSlot, PromptTokens
    from trace_ves.backbone.hf.vision import FrameFeatures


class KVStore:
    """The keys and values as a view of flat memory, which stores of several sizes can share."""

    def __init__(self, shape: ModelShape, tokens: int, memory: torch.Tensor) -> None:
        whole = (2, shape.layers, shape.key_heads, tokens, shape.head_size)
        self._pairs = memory[: math.prod(whole)].view(whole)

    def clear(self, prefix_tokens: int) -> None:
        """Zero everything after the prefixes of a new batch: masked values must be finite."""
        self._pairs[:, :, :, prefix_tokens:] = 0

    @property
    def is_finite(self) -> bool:
        """Whether every number is finite. Any other number would affect every row of its piece, even if masked."""
        return bool(torch.isfinite(self._pairs.sum(dtype=torch.float32)))

    def prefix(self, slot: PrefixSlot) -> torch.Tensor:
        """The keys and values of one prefix in all layers: 2 x layers x key heads x tokens x size."""
        return self._pairs[:, :, :, slot.start : slot.end]

    def write(self, layer: int, places: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Pair:
        """Store keys and values, each tokens x key heads x size, at these places; returns all of the layer."""
        keys, values = self._pairs[0, layer], self._pairs[1, layer]
        keys.index_copy_(1, places, key.transpose(0, 1))
        values.index_copy_(1, places, value.transpose(0, 1))
        return keys, values


@dataclass(frozen=True, slots=True)
class Prefill:
    """The tokens of a batch to compute, as one stream."""

    ids: torch.Tensor
    positions: torch.Tensor  # In time, height and width: 3 x tokens
    stretches: tuple[Stretch, ...]
    frames: tuple[FrameFeatures, ...]  # Replace the frames' tokens, in order
    ends: tuple[int, ...]  # The last token of each row

    @classmethod
    def of(
        cls,
        plan: BatchPlan,
        own: Sequence[slice],
        features: Mapping[str, FrameFeatures],
        *,
        positions: Mapping[int, torch.Tensor],
        reused: Mapping[int, int],
    ) -> Prefill:
        """The stream of a batch. `reused` has the number of stored tokens of each leader."""
        stretches: list[Stretch] = []
        ids: list[int] = []
        places: list[torch.Tensor] = []
        frames: list[FrameFeatures] = []
        for leader in plan.leaders:
            row, start, done = plan.rows[leader], plan.slots[leader].start, reused[leader]
            stretches.append(Stretch(slice(0, 0), start, done, row.prefix_tokens - done))
            ids += row.ids[done : row.prefix_tokens]
            places.append(positions[leader][:, done : row.prefix_tokens])
            frames += [features[name] for name, end in zip(row.frames, row.frame_ends, strict=True) if end > done]
        for number, (row, slot) in enumerate(zip(plan.rows, plan.slots, strict=True)):
            suffix = row.suffix_ids
            stretches.append(Stretch(slice(slot.start, slot.end), own[number].start, 0, len(suffix)))
            ids += suffix
            first = positions[slot.leader][:, row.prefix_tokens : row.prefix_tokens + 1]
            places.append(first + torch.arange(len(suffix)))
        ends = [end - 1 for end in accumulate(stretch.tokens for stretch in stretches)]
        return cls(
            torch.tensor(ids), torch.cat(places, dim=1), tuple(stretches), tuple(frames), tuple(ends[-len(plan.rows) :])
        )

    def chunks(self, tokens: int) -> Iterator[tuple[slice, list[Stretch]]]:
        """The stream in chunks of at most this many tokens, each with its stretches."""
        start, chunk, room = 0, list[Stretch](), tokens
        remaining = [stretch for stretch in reversed(self.stretches) if stretch.tokens]
        while remaining:
            stretch = remaining.pop()
            if stretch.tokens > room:
                stretch, rest = stretch.cut(room)
                remaining.append(rest)
            chunk.append(stretch)
            room -= stretch.tokens
            if not room or not remaining:
                yield slice(start, start + tokens - room), chunk
                start, chunk, room = start + tokens - room, [], tokens


def find_inside(numbers: Sequence[int] | torch.Tensor, chunk: slice) -> slice:
    """The part of these ascending numbers that lies in a chunk."""
    first, last = (int((torch.as_tensor(numbers) < bound).sum()) for bound in (chunk.start, chunk.stop))
    return slice(first, last)


def attend_prefill(store: KVStore, stretches: Sequence[Stretch], device: torch.device) -> Attend:
    """A function that stores the tokens of these stretches and computes their attention."""
    places = torch.cat([torch.arange(one.places.start, one.places.stop) for one in stretches]).to(device)
    blocks = layers.plan_query_blocks(stretches).to(device)

    def attend(layer: int, query: torch.Tensor, pair: Pair, scaling: float) -> torch.Tensor:
        return layers.attend_stretches(query, store.write(layer, places, *pair), stretches, blocks, scaling)

    return attend


def attend_step(store: KVStore, reads: Reads, starts: torch.Tensor, lengths: torch.Tensor) -> Attend:
    """A function that stores one more token of each row and computes its attention.

    Everything that changes between steps is in tensors, so that a captured step can be replayed.
    """
    places, new_lengths = starts + lengths, lengths + 1

    def attend(layer: int, query: torch.Tensor, pair: Pair, scaling: float) -> torch.Tensor:
        return layers.attend_step(query, store.write(layer, places, *pair), reads, new_lengths, scaling)

    return attend


class KVCache:
    """A least-recently-used cache of prefixes, bounded in bytes. Its keys are tokens and the pixels of frames."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: list[tuple[PromptTokens, torch.Tensor]] = []  # Least recently used first

    @property
    def bytes(self) -> int:
        """Memory that the cache takes."""
        return sum(pairs.nbytes for _, pairs in self._entries)

    def find(self, row: PromptTokens) -> torch.Tensor | None:
        """The keys and values of the longest cached part of the row's prefix: ... x tokens x size."""
        number, common = max(
            ((number, row.tokens_in_common(entry)) for number, (entry, _) in enumerate(self._entries)),
            key=lambda candidate: candidate[1],
            default=(0, 0),
        )
        if not common:
            return None
        entry = self._entries.pop(number)
        self._entries.append(entry)
        return entry[1][..., :common, :]

    def put(self, row: PromptTokens, pairs: torch.Tensor) -> None:
        """Cache a copy of the keys and values of the row's prefix, and drop shorter prefixes of it."""
        is_cached = any(row.is_prefix_of(entry) for entry, _ in self._entries)
        if is_cached or not 0 < pairs.nbytes <= self._max_bytes:
            return
        self._entries = [entry for entry in self._entries if not entry[0].is_prefix_of(row)]
        while self.bytes + pairs.nbytes > self._max_bytes:
            del self._entries[0]
        self._entries.append((row, pairs.clone()))

    def clear(self) -> None:
        """Free the memory."""
        self._entries.clear()
