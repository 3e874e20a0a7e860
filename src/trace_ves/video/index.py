"""The index of shown frames: the timestamp of each, its packet, and the packet at which to start decoding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from trace_ves.video.container import NO_TIME, PacketTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """The shown frames in display order; row 0 is the first frame, at time 0."""

    packets: PacketTable
    time_base: Fraction  # seconds per tick of `pts`
    pts: NDArray[np.int64]  # strictly increasing
    packet: NDArray[np.int64]  # the packet of the frame, numbered in decode order
    start: NDArray[np.int64]  # the packet at which decoding must start to get this frame exactly
    seconds: NDArray[np.float64]  # the timestamps as nearest floats, from 0
    duration: float  # seconds from the first frame to the end of the last

    def __len__(self) -> int:
        return len(self.pts)

    def locate(self, seconds: float) -> int:
        """The row of the frame on screen at a moment; floats are compared, so that a frame's own time matches."""
        return max(0, int(np.searchsorted(self.seconds, seconds, side="right")) - 1)


def timestamps_can_be_trusted(packets: PacketTable) -> bool:
    """Whether every shown packet has its own timestamp."""
    shown = np.sort(packets.pts[~packets.is_discard])
    return bool(np.all(shown != NO_TIME)) and bool(np.all(shown[1:] != shown[:-1]))


def index_by_pts(packets: PacketTable, time_base: Fraction, rate: Fraction) -> FrameIndex:
    """The index of a file with distinct timestamps, which give the display order."""
    shown = np.flatnonzero(~packets.is_discard)
    packet = shown[np.argsort(packets.pts[shown], kind="stable")]
    return make_index(packets, time_base, packets.pts[packet], packet, rate)


def index_by_output(packets: PacketTable, output: NDArray[np.int64], time_base: Fraction, rate: Fraction) -> FrameIndex:
    """The index of a file with missing or repeated timestamps: they are sorted and assigned in decoder output order."""
    pts = _filled(packets.pts[output], time_base, rate)
    pts = np.sort(pts, kind="stable")
    last_at_its_moment = np.append(pts[1:] != pts[:-1], True) if len(pts) else np.zeros(0, dtype=np.bool_)
    return make_index(packets, time_base, pts[last_at_its_moment], output[last_at_its_moment], rate)


def index_by_rate(packets: PacketTable, output: NDArray[np.int64], rate: Fraction) -> FrameIndex:
    """The index of a stream without timestamps, from a constant frame rate."""
    return make_index(packets, 1 / rate, np.arange(len(output), dtype=np.int64), output, rate)


def without_starts(index: FrameIndex, starts: Iterable[int]) -> FrameIndex:
    """The index without these packets as starts; decoding then starts at earlier keyframes."""
    is_key = index.packets.is_key.copy()
    is_key[list(starts)] = False
    packets = replace(index.packets, is_key=is_key)
    return replace(index, packets=packets, start=_starts(packets, index.packet))


def make_index(
    packets: PacketTable,
    time_base: Fraction,
    pts: NDArray[np.int64],
    packet: NDArray[np.int64],
    rate: Fraction,
) -> FrameIndex:
    """Make the index of frames in display order."""
    ticks = pts - pts[0] if len(pts) else pts
    seconds = _seconds(ticks, time_base)
    end = 0
    if len(ticks):  # the duration of the last frame: from the file, else the median, else from the frame rate
        typical = int(np.median(np.diff(ticks))) if len(ticks) > 1 else 0
        declared = int(packets.duration[packet[-1]]) if packets.pts[packet[-1]] != NO_TIME else 0
        if declared <= 0 or 0 < 100 * typical < declared:
            declared = typical
        end = int(ticks[-1]) + (declared or _ticks_per_frame(rate, time_base))
    pts.flags.writeable = seconds.flags.writeable = False  # callers get these two
    duration = end * time_base.numerator / time_base.denominator
    return FrameIndex(packets, time_base, pts, packet, _starts(packets, packet), seconds, duration)


def _ticks_per_frame(rate: Fraction, time_base: Fraction) -> int:
    return max(1, round(1 / (rate * time_base)))


def _seconds(ticks: NDArray[np.int64], time_base: Fraction) -> NDArray[np.float64]:
    """Convert ticks to the nearest floats."""
    exact_as_float = len(ticks) == 0 or int(ticks[-1]) * time_base.numerator < 2**53
    if exact_as_float:
        return (ticks * time_base.numerator).astype(np.float64) / float(time_base.denominator)
    exact = [int(tick) * time_base.numerator / time_base.denominator for tick in ticks]
    return np.array(exact, dtype=np.float64)


def _starts(packets: PacketTable, packet: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each frame, the last keyframe in decode order that is not shown after it.

    A frame that is decoded after a keyframe but shown before it may refer to the previous group.
    """
    keys = np.flatnonzero(packets.is_key)
    if len(keys) == 0:
        return np.zeros(len(packet), dtype=np.int64)
    rank = np.full(len(packets), -1, dtype=np.int64)
    rank[packet] = np.arange(len(packet))
    slot = np.searchsorted(keys, packet, side="right") - 1
    while True:
        leads = (slot > 0) & (rank[keys[slot]] > rank[packet])
        if not leads.any():
            return np.where(slot < 0, 0, keys[slot])
        slot = slot - leads


def _filled(pts: NDArray[np.int64], time_base: Fraction, rate: Fraction) -> NDArray[np.int64]:
    """Fill missing timestamps evenly between their neighbours, or by the frame rate at the ends."""
    known = np.flatnonzero(pts != NO_TIME)
    step = _ticks_per_frame(rate, time_base)
    if len(known) == 0:
        return np.arange(len(pts), dtype=np.int64) * step
    first, last = int(known[0]), int(known[-1])
    base = int(pts[first])  # subtracted, so that the interpolation in floats is exact
    filled = np.interp(np.arange(len(pts)), known, (pts[known] - base).astype(np.float64))
    filled[:first] = (np.arange(first) - first) * step
    beyond = np.arange(1, len(pts) - last)
    filled[last + 1 :] = filled[last] + beyond * step
    return np.round(filled).astype(np.int64) + base
