"""Keys and values of a batch: every distinct prefix once, then each row's own tokens, all on one axis.

Two views of the store act as the memory of the decoder layers: one for prefill, one for steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch

from trace_ves.backbone.hf import layers
from trace_ves.backbone.hf.layers import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trace_ves.backbone.hf.layers import Pair, Reads
    from trace_ves.backbone.hf.plans import BatchPlan, PrefixSlot, PromptTokens
    from trace_ves.backbone.hf.vision import FrameFeatures


@dataclass(frozen=True, slots=True)
class StoreShape:
    """How large a store is."""

    layers: int
    key_heads: int
    head_size: int
    tokens: int  # a multiple of a piece of attention

    @property
    def elements(self) -> int:
        """Numbers in the store, keys and values together."""
        return 2 * self.layers * self.key_heads * self.head_size * self.tokens


class KVStore:
    """The tensors, as views of a flat piece of memory, so that stores of several shapes can share one."""

    def __init__(self, shape: StoreShape, memory: torch.Tensor) -> None:
        self.shape = shape
        whole = (2, shape.layers, shape.key_heads, shape.tokens, shape.head_size)
        self._stored = memory[: shape.elements].view(whole)

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
        """The stream of a batch whose rows have these places for their own tokens.

        Given are the positions of the leading rows' tokens, and how many of them are stored already.
        """
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


class PrefillMemory:
    """Takes tokens of several rows, one stretch after the other, each after what its row has already."""

    def __init__(self, store: KVStore, stretches: Sequence[Stretch], device: torch.device) -> None:
        self._store = store
        self._stretches = stretches
        places = [torch.arange(one.places.start, one.places.stop) for one in stretches]
        self._places = torch.cat(places).to(device)
        self._blocks = layers.query_blocks(stretches).to(device)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Write the tokens of one layer and attend."""
        stored = self._store.write(layer, self._places, key, value)
        return layers.attend_stretches(query, stored, self._stretches, self._blocks, scaling)


class StepMemory:
    """Takes one token for each row. All that changes from step to step is in tensors."""

    def __init__(self, store: KVStore, reads: Reads, starts: torch.Tensor, lengths: torch.Tensor) -> None:
        self._store = store
        self._reads = reads
        self._places = starts + lengths
        self._lengths = lengths + 1

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Write the new token of every row after its others and attend."""
        stored = self._store.write(layer, self._places, key, value)
        return layers.attend_step(query, stored, self._reads, self._lengths, scaling)


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
