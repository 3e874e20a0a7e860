"""The tokens that a batch must compute before its first step, in the order in which they can be computed.

First what is missing of the distinct prefixes, then the words of every row after its own prefix: one stream of tokens,
which may be cut anywhere. Runs nothing; knows what is stored where.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch

from trace_ves.backbone.hf.layers import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trace_ves.backbone.hf.plans import BatchPlan
    from trace_ves.backbone.hf.vision import FrameFeatures


@dataclass(frozen=True, slots=True)
class Prefill:
    """A stream of tokens."""

    ids: torch.Tensor
    positions: torch.Tensor
    """In time, height and width: 3 x tokens."""
    stretches: tuple[Stretch, ...]
    frames: tuple[FrameFeatures, ...]
    """What takes the place of the frames' tokens, in order."""
    ends: tuple[int, ...]
    """The last token of each row."""

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
        """The stream in chunks of so many tokens at most, each with its stretches."""
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
