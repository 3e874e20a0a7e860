"""Keys and values of a batch: every distinct prefix once, then each row's own tokens, all on one axis."""

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
    """The tensors, as views of a flat piece of memory, so that stores of several sizes can share one."""

    def __init__(self, shape: ModelShape, tokens: int, memory: torch.Tensor) -> None:
        whole = (2, shape.layers, shape.key_heads, tokens, shape.head_size)
        self._stored = memory[: math.prod(whole)].view(whole)

    def clear(self, prefix_tokens: int) -> None:
        """Begin a batch: zero what its prefixes will not overwrite, since what is masked still takes part in sums."""
        self._stored[:, :, :, prefix_tokens:] = 0

    @property
    def is_finite(self) -> bool:
        """Whether every number is finite; one that is not would reach every row of its piece, masked or not."""
        return bool(torch.isfinite(self._stored.sum(dtype=torch.float32)))

    def prefix(self, slot: PrefixSlot) -> torch.Tensor:
        """Keys and values of one prefix, all layers: 2 x layers x key heads x tokens x size."""
        return self._stored[:, :, :, slot.start : slot.end]

    def write(self, layer: int, places: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Pair:
        """Keep keys and values, each tokens x key heads x size, at these places; gives all of the layer."""
        keys, values = self._stored[0, layer], self._stored[1, layer]
        keys.index_copy_(1, places, key.transpose(0, 1))
        values.index_copy_(1, places, value.transpose(0, 1))
        return keys, values


@dataclass(frozen=True, slots=True)
class Prefill:
    """A stream of tokens."""

    ids: torch.Tensor
    positions: torch.Tensor  # in time, height and width: 3 x tokens
    stretches: tuple[Stretch, ...]
    frames: tuple[FrameFeatures, ...]  # what takes the place of the frames' tokens, in order
    ends: tuple[int, ...]  # the last token of each row

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
        """The stream of a batch: its rows' places, its leaders' positions, and how many of their tokens are stored."""
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
            words = row.suffix_ids
            stretches.append(Stretch(slice(slot.start, slot.end), own[number].start, 0, len(words)))
            ids += words
            first = positions[slot.leader][:, row.prefix_tokens : row.prefix_tokens + 1]
            places.append(first + torch.arange(len(words)))
        ends = [end - 1 for end in accumulate(stretch.tokens for stretch in stretches)]
        return cls(
            torch.tensor(ids),
            torch.cat(places, dim=1),
            tuple(stretches),
            tuple(frames),
            tuple(ends[-len(plan.rows) :]),
        )

    def chunks(self, tokens: int) -> Iterator[tuple[slice, list[Stretch]]]:
        """The stream in chunks of at most this many tokens, each with its stretches."""
        start, chunk, room = 0, list[Stretch](), tokens
        left = [stretch for stretch in reversed(self.stretches) if stretch.tokens]
        while left:
            stretch = left.pop()
            if stretch.tokens > room:
                stretch, rest = stretch.cut(room)
                left.append(rest)
            chunk.append(stretch)
            room -= stretch.tokens
            if not room or not left:
                yield slice(start, start + tokens - room), chunk
                start, chunk, room = start + tokens - room, [], tokens


def inside(numbers: Sequence[int] | torch.Tensor, chunk: slice) -> slice:
    """Which of these ascending numbers lie in a chunk."""
    first, last = (int((torch.as_tensor(numbers) < bound).sum()) for bound in (chunk.start, chunk.stop))
    return slice(first, last)


def attend_prefill(store: KVStore, stretches: Sequence[Stretch], device: torch.device) -> Attend:
    """Writes tokens of several rows, one stretch after the other, each after what its row has already, and attends."""
    places = torch.cat([torch.arange(one.places.start, one.places.stop) for one in stretches]).to(device)
    blocks = layers.query_blocks(stretches).to(device)

    def attend(layer: int, query: torch.Tensor, pair: Pair, scaling: float) -> torch.Tensor:
        return layers.attend_stretches(query, store.write(layer, places, *pair), stretches, blocks, scaling)

    return attend


def attend_step(store: KVStore, reads: Reads, starts: torch.Tensor, lengths: torch.Tensor) -> Attend:
    """Writes one token for each row after its others, and attends. All that changes between steps is in tensors."""
    places, grown = starts + lengths, lengths + 1

    def attend(layer: int, query: torch.Tensor, pair: Pair, scaling: float) -> torch.Tensor:
        return layers.attend_step(query, store.write(layer, places, *pair), reads, grown, scaling)

    return attend


class KVCache:
    """A least-recently-used cache, bounded in bytes. Knows prompts by their tokens and the pixels of their frames."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: list[tuple[PromptTokens, torch.Tensor]] = []  # least recently used first

    @property
    def bytes(self) -> int:
        """Memory that the cache takes."""
        return sum(stored.nbytes for _, stored in self._entries)

    def find(self, row: PromptTokens) -> torch.Tensor | None:
        """Keys and values of the longest stored part with which the row's prefix begins: ... x tokens x size."""
        number, common = max(
            ((number, row.tokens_in_common(entry)) for number, (entry, _) in enumerate(self._entries)),
            key=lambda found: found[1],
            default=(0, 0),
        )
        if not common:
            return None
        entry = self._entries.pop(number)
        self._entries.append(entry)
        return entry[1][..., :common, :]

    def put(self, row: PromptTokens, stored: torch.Tensor) -> None:
        """Keep a copy of the keys and values of the row's prefix; shorter ones that it begins with are dropped."""
        is_kept = any(row.is_prefix_of(entry) for entry, _ in self._entries)
        if is_kept or not 0 < stored.nbytes <= self._max_bytes:
            return
        self._entries = [kept for kept in self._entries if not kept[0].is_prefix_of(row)]
        while self.bytes + stored.nbytes > self._max_bytes:
            del self._entries[0]
        self._entries.append((row, stored.clone()))

    def clear(self) -> None:
        """Give the memory back."""
        self._entries.clear()
