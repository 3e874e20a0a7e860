"""Which packets to decode for the frames that are wanted, and how to share the work. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.video.index import FrameIndex

_THREADING_GAIN: Final = 0.25
"""Share of each further core that a decoder with threads of its own turns into speed, as measured on VP9 and AV1."""

_MIN_PIXELS_FOR_THREADS: Final = 64_000_000
"""Less is decoded by one thread in some 80 ms, of which threads within a decoder save little and cost a third more."""


@dataclass(frozen=True, slots=True)
class Group:
    """Frames that one run of the decoder gives: from a start packet to the last one wanted."""

    start: int
    wanted: tuple[int, ...]
    """Packet numbers in decode order."""

    @property
    def packets(self) -> int:
        """Packets that go through the decoder: what the group costs."""
        return self.wanted[-1] - self.start + 1


def plan(index: FrameIndex, rows: Iterable[int]) -> tuple[Group, ...]:
    """The groups that give these frames, in decode order."""
    by_start: dict[int, set[int]] = {}
    for row in rows:
        by_start.setdefault(int(index.start[row]), set()).add(int(index.packet[row]))
    return tuple(Group(start, tuple(sorted(by_start[start]))) for start in sorted(by_start))


def readers_pay(groups: Sequence[Group], cores: int) -> bool:
    """Whether readers side by side, one group at a time each, end before one reader with a thread for each core."""
    loads = [0] * cores
    for cost in sorted((group.packets for group in groups), reverse=True):
        loads[loads.index(min(loads))] += cost
    return max(loads) <= sum(loads) / (1 + _THREADING_GAIN * (cores - 1))


def threads_pay(groups: Sequence[Group], frame_pixels: int) -> bool:
    """Whether there is so much to decode that threads within a decoder save time worth what they cost."""
    return sum(group.packets for group in groups) * frame_pixels >= _MIN_PIXELS_FOR_THREADS
