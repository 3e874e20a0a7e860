"""How many distinct frames of many predictions lie in the evidence, counted for all of them at once.

The rule itself is `rows._row`; this is the same for a batch, and a test holds the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.records.item_table import ItemTable

    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]

WIDEST: Final = 1024
"""Predictions with more frames are counted one by one, so that one of them does not widen all rows of a batch."""
MOST_INTERVALS: Final = 64
"""The same for evidence intervals."""


class Coverage(NamedTuple):
    """Counts for each prediction of a batch."""

    distinct: Places
    inside: Places
    density: Places
    first: Floats
    """The earliest frame; NaN where there is none."""
    last: Floats


def coverage(table: ItemTable, items: Places, moments: Floats, counts: Places) -> Coverage:
    """Count the frames of predictions on these items; `moments` has the frames of all, `counts` how many of each."""
    wide = (counts > WIDEST) | (table.intervals[items] > MOST_INTERVALS)
    if not wide.any():
        return _count(table, items, moments, counts)
    narrow = ~wide
    found = Coverage(*np.zeros((3, len(items)), np.int64), *np.full((2, len(items)), np.nan))
    together = _count(table, items[narrow], moments[np.repeat(narrow, counts)], counts[narrow])
    for column, counted in zip(found, together, strict=True):
        column[narrow] = counted
    ends = np.cumsum(counts)
    for at in np.flatnonzero(wide):
        own = np.unique(moments[ends[at] - counts[at] : ends[at]])
        for column, value in zip(found, _count_one(table, int(items[at]), own), strict=True):
            column[at] = value
    return found


def _count(table: ItemTable, items: Places, moments: Floats, counts: Places) -> Coverage:
    """All predictions as the rows of one matrix; the places behind a row's last frame hold NaN, which lies nowhere."""
    width = max(1, int(counts.max(initial=0)))
    frames = np.full((len(items), width), np.nan)
    frames[np.arange(width) < counts[:, np.newaxis]] = moments
    if np.any(frames[:, 1:] <= frames[:, :-1]):
        frames.sort()  # each row
        frames[:, 1:][frames[:, 1:] == frames[:, :-1]] = np.nan
        frames.sort()
    distinct = np.count_nonzero(~np.isnan(frames), axis=1)
    inside = np.zeros(frames.shape, np.bool_)
    begins, many = table.evidence_at[items], table.intervals[items]
    least = np.where(many > 0, width, 0)
    for number in range(int(many.max(initial=0))):
        has = many > number
        at = np.where(has, begins + number, 0)
        start, end = np.where(has, table.start[at], np.nan), np.where(has, table.end[at], np.nan)
        within = (frames >= start[:, np.newaxis]) & (frames <= end[:, np.newaxis])
        inside |= within
        least = np.where(has, np.minimum(least, np.count_nonzero(within, axis=1)), least)
    return Coverage(
        distinct,
        np.count_nonzero(inside, axis=1),
        least,
        frames[:, 0],
        frames[np.arange(len(items)), np.maximum(distinct - 1, 0)],
    )


def _count_one(table: ItemTable, item: int, frames: Floats) -> tuple[float, ...]:
    """The same for one prediction; its frames are distinct and in order of time."""
    own = slice(table.evidence_at[item], table.evidence_at[item + 1])
    first = np.searchsorted(frames, table.start[own])
    after = np.searchsorted(frames, table.end[own], side="right")
    depth = np.zeros(len(frames) + 1, np.int64)
    np.add.at(depth, first, 1)
    np.add.at(depth, after, -1)
    inside = np.count_nonzero(np.cumsum(depth)[:-1])
    density = (after - first).min() if len(first) else 0
    return len(frames), inside, density, *(frames[[0, -1]] if len(frames) else (np.nan, np.nan))
