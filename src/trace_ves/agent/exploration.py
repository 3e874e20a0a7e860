"""What has been seen well enough: the timeline without the gaps between frames in which an event could hide.

Explored is relative to a spacing: a look closes its span for events longer than the time between its frames, and the
span is open for a closer look. Whether a count is complete follows from the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from trace_ves.core import Interval
from trace_ves.core.interval import union

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.records.search import SegmentNote


def unexplored(whole: Interval, moments: Iterable[float], spacing_seconds: float) -> tuple[Interval, ...]:
    """R: the gaps between neighbouring frames that are wider than this; gaps that share a frame are one segment."""
    borders = sorted({whole.start, whole.end, *(moment for moment in moments if moment in whole)})
    return union(Interval(before, after) for before, after in pairwise(borders) if after - before > spacing_seconds)


def occurrences(evidence: Iterable[Interval], elsewhere: Sequence[float], gap_seconds: float) -> tuple[Interval, ...]:
    """The spans of a count; those close together are one, unless a frame between them shows something else."""
    merged: list[Interval] = []
    for span in sorted(evidence):
        last = merged[-1] if merged else None
        if last is None or span.start - last.end > gap_seconds or any(last.end < t < span.start for t in elsewhere):
            merged.append(span)
        else:
            merged[-1] = Interval(last.start, max(last.end, span.end))
    return tuple(merged)


def counting_spacing(occurrences: Iterable[Interval], settings: TraceSettings) -> float:
    """The spacing through which no occurrence slips that is like those found: a part of the shortest of them."""
    shortest = min((span.length for span in occurrences), default=0.0)
    return min(settings.seen_spacing_seconds, max(1.0, settings.occurrence_share * shortest))


def passed_over(
    shown: Sequence[float], notes: Iterable[SegmentNote], occurrences: Iterable[Interval]
) -> tuple[Interval, ...]:
    """For a count, the gaps between frames of the storyboard or the scan that the notes call not promising.

    Only gaps through which no occurrence slips that is as long as the shortest found.
    """
    longest = min((span.length for span in occurrences), default=0.0)
    dull = [note for note in notes if not note.promising]
    moments = [moment for moment in shown if any(note.start <= moment <= note.end for note in dull)]
    neighbours = set(pairwise(shown))
    return tuple(
        Interval(before, after)
        for before, after in pairwise(moments)
        if (before, after) in neighbours and after - before <= longest
    )


def overlap_mostly(one: Interval, other: Interval) -> bool:
    """Whether two spans share more than half of the shorter one."""
    shared = one.intersection(other)
    return shared is not None and 2 * shared.length > min(one.length, other.length)


def spread(span: Interval, known: Iterable[float], count: int) -> list[float]:
    """So many new moments in a span, each in the widest gap that the known moments and the other new ones leave."""
    inside = sorted({moment for moment in known if moment in span})
    borders = [span.start, *inside, span.end]
    gaps = [Interval(before, after) for before, after in pairwise(borders)]
    # A gap at the end of the span has no frame on that side, so it is half a step longer than its frames are apart.
    steps = [(number > 0) / 2 + (number < len(gaps) - 1) / 2 for number in range(len(gaps))]
    counts = [0] * len(gaps)
    for _ in range(count):
        parts = zip(gaps, counts, steps, strict=True)
        widths = [gap.length / (n + step) if n + step else gap.length * 2 for gap, n, step in parts]
        counts[widths.index(max(widths))] += 1
    moments: list[float] = []
    for number, (gap, n, step) in enumerate(zip(gaps, counts, steps, strict=True)):
        if n:
            width = gap.length / (n + step)
            first = gap.start + (width if number > 0 else width / 2)
            moments += [first + k * width for k in range(n)]
    return moments


def scan_moments(
    storyboard: Sequence[float], notes: Sequence[SegmentNote], taken: Sequence[Interval], count: int
) -> list[float]:
    """Moments halfway between neighbouring frames of the storyboard, outside of the spans that are looked at anyway.

    Where there are more than `count`: first where the scene changes or the notes are promising, evenly among equals.
    """
    halfway = [((a + b) / 2, a, b) for a, b in pairwise(storyboard)]
    free = [(moment, a, b) for moment, a, b in halfway if not any(moment in span for span in taken)]
    likely = [m for m, a, b in free if _note_at(notes, a) != _note_at(notes, b) or _is_promising(notes, m)]
    others = [m for m, _, _ in free if m not in likely]
    first = evenly(likely, min(count, len(likely)))
    return sorted(first + evenly(others, min(count - len(first), len(others))))


def _note_at(notes: Sequence[SegmentNote], moment: float) -> int | None:
    return next((number for number, note in enumerate(notes) if note.start <= moment <= note.end), None)


def _is_promising(notes: Sequence[SegmentNote], moment: float) -> bool:
    number = _note_at(notes, moment)
    return number is None or notes[number].promising


def evenly(values: Sequence[float], count: int) -> list[float]:
    """So many of these values, spread evenly over them."""
    return [values[(2 * n + 1) * len(values) // (2 * count)] for n in range(count)]
