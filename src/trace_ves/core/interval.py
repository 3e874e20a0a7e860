"""Spans of video time, set arithmetic on them, and the paper's sampling schedule.

Times are presentation times in seconds; the first frame of the stream is at 0. Intervals are closed at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A span of source-video time in seconds, including both ends."""

    start: float
    end: float

    def __post_init__(self) -> None:
        if not (0 <= self.start <= self.end and math.isfinite(self.end)):
            raise ValueError(f"an interval needs 0 <= start <= end < inf, got start={self.start}, end={self.end}")

    def __contains__(self, seconds: float) -> bool:
        return self.start <= seconds <= self.end

    def __str__(self) -> str:
        return f"{self.start:.1f}-{self.end:.1f} s"

    @property
    def length(self) -> float:
        """Seconds from start to end."""
        return self.end - self.start

    @property
    def centre(self) -> float:
        """The moment halfway between start and end."""
        return self.start + self.length / 2

    def intersection(self, other: Interval) -> Interval | None:
        """The overlap: a single moment if the two touch, None if they are disjoint."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Interval(start, end) if start <= end else None


def clip_to_segments(start: float, end: float, segments: Iterable[Interval]) -> tuple[Interval, ...]:
    """The parts of start-end, which may be any two numbers, inside the segments, without empty parts."""
    if not start <= end:  # also if either is NaN
        return ()
    overlaps = ((max(start, piece.start), min(end, piece.end)) for piece in segments)
    return tuple(Interval(first, last) for first, last in overlaps if first < last)


def iou(one: Interval, other: Interval) -> float:
    """Intersection over union; 0 if both are empty."""
    overlap = one.intersection(other)
    shared = overlap.length if overlap else 0.0
    total = one.length + other.length - shared
    return shared / total if total > 0 else 0.0


def union(
    intervals: Iterable[Interval], *, gap: float = 0.0, differ: Callable[[Interval, Interval], bool] | None = None
) -> tuple[Interval, ...]:
    """The intervals in order of time; those at most `gap` apart are merged, unless they `differ`."""
    merged: list[Interval] = []
    for interval in sorted(intervals):
        last = merged[-1] if merged else None
        if last is None or interval.start > last.end + gap or (differ and differ(last, interval)):
            merged.append(interval)
        else:
            merged[-1] = Interval(last.start, max(last.end, interval.end))
    return tuple(merged)


def union_length(intervals: Iterable[Interval]) -> float:
    """Seconds that at least one of the intervals covers."""
    return math.fsum(interval.length for interval in union(intervals))


def subtract(whole: Interval, parts: Iterable[Interval], *, shortest: float = 0.0) -> tuple[Interval, ...]:
    """The pieces of `whole` without `parts` that are longer than `shortest`, in order of time."""
    pieces: list[Interval] = []
    start = whole.start
    for part in union(part for part in parts if part.length):
        if part.end < whole.start or part.start > whole.end:
            continue
        if part.start > start:
            pieces.append(Interval(start, part.start))
        start = max(start, part.end)
    if start < whole.end:
        pieces.append(Interval(start, whole.end))
    return tuple(piece for piece in pieces if piece.length > shortest)


def centred_uniform(span: Interval, count: int) -> tuple[float, ...]:
    """The paper's canonical schedule: t_j = start + (j + 1/2) * length / count."""
    if count < 1:
        raise ValueError(f"a sampler needs at least one frame, got {count}")
    return tuple(span.start + (2 * j + 1) * span.length / (2 * count) for j in range(count))
