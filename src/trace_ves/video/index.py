"""Where each shown frame lies: its timestamp, its packet, and the packet to start decoding at. Pure arithmetic."""

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
    """The shown frames in display order; row 0 is the first one on screen, at time 0."""

    packets: PacketTable
    time_base: Fraction  # seconds for each tick of `pts`
    pts: NDArray[np.int64]  # strictly increasing
    packet: NDArray[np.int64]  # the number, in decode order, of the packet that holds the frame
    start: NDArray[np.int64]  # the number of the packet from which decoding gives this frame exactly
    seconds: NDArray[np.float64]  # the timestamps as the nearest floats, the first at 0
    duration: float  # seconds from the first frame to the end of the last

    def __len__(self) -> int:
        return len(self.pts)

    def locate(self, seconds: float) -> int:
        """The row of the frame on screen at this moment, compared as floats so that a frame's own time finds it."""
        return max(0, int(np.searchsorted(self.seconds, seconds, side="right")) - 1)


def timestamps_can_be_trusted(packets: PacketTable) -> bool:
    """Whether every shown packet has its own timestamp."""
    shown = np.sort(packets.pts[~packets.is_discard])
    return bool(np.all(shown != NO_TIME)) and bool(np.all(shown[1:] != shown[:-1]))


def index_by_pts(packets: PacketTable, time_base: Fraction, rate: Fraction) -> FrameIndex:
    """The index of a file whose packets all carry distinct timestamps: display order is their order."""
    shown = np.flatnonzero(~packets.is_discard)
    packet = shown[np.argsort(packets.pts[shown], kind="stable")]
    return make_index(packets, time_base, packets.pts[packet], packet, rate)


def index_by_output(packets: PacketTable, output: NDArray[np.int64], time_base: Fraction, rate: Fraction) -> FrameIndex:
    """The index where timestamps are missing or shared: they are dealt out in the order the decoder gives frames in."""
    pts = _filled(packets.pts[output], time_base, rate)
    pts = np.sort(pts, kind="stable")
    last_at_its_moment = np.append(pts[1:] != pts[:-1], True) if len(pts) else np.zeros(0, dtype=np.bool_)
    return make_index(packets, time_base, pts[last_at_its_moment], output[last_at_its_moment], rate)


def index_by_rate(packets: PacketTable, output: NDArray[np.int64], rate: Fraction) -> FrameIndex:
    """The index of a stream without any timestamps: frames follow each other at the given rate."""
    return make_index(packets, 1 / rate, np.arange(len(output), dtype=np.int64), output, rate)


def without_starts(index: FrameIndex, starts: Iterable[int]) -> FrameIndex:
    """The index where decoding no longer starts at these packets, but at keyframes before them."""
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
    """The index of frames already in display order."""
    ticks = pts - pts[0] if len(pts) else pts
    seconds = _seconds(ticks, time_base)
    end = 0
    if len(ticks):  # the last frame stays as the file says, else as the others do, else by the declared rate
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
    """Ticks as the floats nearest to their exact times."""
    exact_as_float = len(ticks) == 0 or int(ticks[-1]) * time_base.numerator < 2**53
    if exact_as_float and time_base.denominator < 2**53:
        return (ticks * time_base.numerator).astype(np.float64) / float(time_base.denominator)
    exact = [int(tick) * time_base.numerator / time_base.denominator for tick in ticks]
    return np.array(exact, dtype=np.float64)


def _starts(packets: PacketTable, packet: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each frame the last keyframe at or before it in decode order, moved back while that is shown after it.

    A frame decoded after a keyframe but shown before it leads an open group and refers to the group before.
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
    """The timestamps with missing ones set evenly between their neighbours, or at the declared rate beyond them."""
    known = np.flatnonzero(pts != NO_TIME)
    step = _ticks_per_frame(rate, time_base)
    if len(known) == 0:
        return np.arange(len(pts), dtype=np.int64) * step
    first, last = int(known[0]), int(known[-1])
    base = int(pts[first])  # small numbers, so that the interpolation in floats is exact
    filled = np.interp(np.arange(len(pts)), known, (pts[known] - base).astype(np.float64))
    filled[:first] = (np.arange(first) - first) * step
    beyond = np.arange(1, len(pts) - last)
    filled[last + 1 :] = filled[last] + beyond * step
    return np.round(filled).astype(np.int64) + base
