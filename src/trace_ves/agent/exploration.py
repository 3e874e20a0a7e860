"""The explored parts of the video: those without gaps between frames in which an event could be missed.

Exploration is relative to a spacing: a look explores its span for events longer than the time between its frames, but
not for shorter ones. The same rule decides whether a count is complete.
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


def find_unexplored(whole: Interval, moments: Iterable[float], spacing_seconds: float) -> tuple[Interval, ...]:
    """R: the gaps between neighbouring frames that are wider than this spacing; adjacent gaps are merged."""
    borders = sorted({whole.start, whole.end, *(moment for moment in moments if moment in whole)})
    return union(Interval(before, after) for before, after in pairwise(borders) if after - before > spacing_seconds)


def merge_spans(evidence: Iterable[Interval], elsewhere: Sequence[float], gap_seconds: float) -> tuple[Interval, ...]:
    """Merge the spans of a count that are close together, unless a frame between them shows something else."""
    return union(evidence, gap=gap_seconds, differ=lambda a, b: any(a.end < t < b.start for t in elsewhere))


def pick_spacing(occurrences: Iterable[Interval], settings: TraceSettings) -> float:
    """The spacing for a count, with which no occurrence as long as those found is missed."""
    shortest = min((span.length for span in occurrences), default=0.0)
    return min(settings.seen_spacing_seconds, max(1.0, settings.occurrence_share * shortest))


def find_unpromising(
    preview: Sequence[float], notes: Iterable[SegmentNote], occurrences: Iterable[Interval]
) -> tuple[Interval, ...]:
    """For a count, the gaps between frames of the storyboard or the scan that the notes call not promising.

    Only gaps that are not longer than the shortest occurrence found.
    """
    longest = min((span.length for span in occurrences), default=0.0)
    unpromising = [note for note in notes if not note.promising]
    moments = [moment for moment in preview if any(note.start <= moment <= note.end for note in unpromising)]
    neighbours = set(pairwise(preview))
    return tuple(
        Interval(before, after)
        for before, after in pairwise(moments)
        if (before, after) in neighbours and after - before <= longest
    )


def overlaps_mostly(one: Interval, other: Interval) -> bool:
    """Whether two spans share more than half of the shorter one."""
    shared = one.intersection(other)
    return shared is not None and 2 * shared.length > min(one.length, other.length)


def fill_gaps(span: Interval, moments: Iterable[float], count: int) -> list[float]:
    """This many new moments in a span, in the widest gaps between these moments and each other."""
    inside = sorted({moment for moment in moments if moment in span})
    borders = [span.start, *inside, span.end]
    gaps = [Interval(before, after) for before, after in pairwise(borders)]
    # a gap at an end of the span has a frame on one side only, so it is half a step longer
    steps = [(number > 0) / 2 + (number < len(gaps) - 1) / 2 for number in range(len(gaps))]
    counts = [0] * len(gaps)
    for _ in range(count):
        parts = zip(gaps, counts, steps, strict=True)
        widths = [gap.length / (n + step) if n + step else gap.length * 2 for gap, n, step in parts]
        counts[widths.index(max(widths))] += 1
    new: list[float] = []
    for number, (gap, n, step) in enumerate(zip(gaps, counts, steps, strict=True)):
        if n:
            width = gap.length / (n + step)
            first = gap.start + (width if number > 0 else width / 2)
            new += [first + k * width for k in range(n)]
    return new


def pick_scan_moments(
    storyboard: Sequence[float], notes: Sequence[SegmentNote], excluded: Sequence[Interval], count: int
) -> list[float]:
    """Moments halfway between neighbouring frames of the storyboard, outside the excluded spans.

    If there are more than `count`, those where the scene changes or the notes are promising come first.
    """
    halfway = [((a + b) / 2, a, b) for a, b in pairwise(storyboard)]
    free = [(moment, a, b) for moment, a, b in halfway if not any(moment in span for span in excluded)]
    likely = [m for m, a, b in free if _find_note(notes, a) != _find_note(notes, b) or _is_promising(notes, m)]
    others = [m for m, _, _ in free if m not in likely]
    first = pick_evenly(likely, min(count, len(likely)))
    return sorted(first + pick_evenly(others, min(count - len(first), len(others))))


def _find_note(notes: Sequence[SegmentNote], moment: float) -> int | None:
    return next((number for number, note in enumerate(notes) if note.start <= moment <= note.end), None)


def _is_promising(notes: Sequence[SegmentNote], moment: float) -> bool:
    number = _find_note(notes, moment)
    return number is None or notes[number].promising


def pick_evenly(values: Sequence[float], count: int) -> list[float]:
    """This many of these values, at even distances."""
    return [values[(2 * n + 1) * len(values) // (2 * count)] for n in range(count)]
