"""Spans of time as models name them: any two numbers, cut to where they may lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.core import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence


def inside_segments(start: float, end: float, segments: Sequence[Interval]) -> list[Interval]:
    """The parts of a model's span that lie inside the segments; none where it is no span at all."""
    if not start <= end:  # also where either is not a number
        return []
    shared = ((max(start, piece.start), min(end, piece.end)) for piece in segments)
    return [Interval(first, last) for first, last in shared if first < last]
