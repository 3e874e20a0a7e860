"""Schedules audited without a model: what a fixed way of picking frames covers, whatever is asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.errors import InputError
from trace_ves.core.schedules import schedule
from trace_ves.ves.coverage import coverage
from trace_ves.ves.row_table import NO_TERMINATION, UNSCORED, RowTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from trace_ves.core.schedules import FrameTimes, Schedule
    from trace_ves.records import Item
    from trace_ves.records.item_table import ItemTable

BATCH_FRAMES: Final = 500_000
"""Frames that are counted at one time."""


class SamplerRows:
    """The rows of schedules on the items of a bench."""

    def __init__(self, table: ItemTable, frame_times: Callable[[Item], FrameTimes]) -> None:
        self._table = table
        self._frame_times = frame_times
        self._exact: set[bool] = set()

    @property
    def exact_times(self) -> frozenset[bool]:
        """Whether schedules chose among frames of the videos (True), of an assumed rate (False), or of both."""
        return frozenset(self._exact)

    def of(self, samplers: Sequence[int | str], *, taken: Collection[str]) -> dict[str, RowTable]:
        """The rows of each sampler under its name; a name that a run has already is told apart."""
        names = dict.fromkeys(f"uniform-{each}" if isinstance(each, int) else each for each in samplers)
        endless = np.flatnonzero(~np.isfinite(self._table.duration))
        if names and len(endless):
            raise InputError(
                f"question {self._table.ids[int(endless[0])]!r} has no duration in this bench, so no sampler can be "
                "placed on it."
            )
        return {f"{name} (sampler)" if name in taken else name: self._rows(schedule(name)) for name in names}

    def _rows(self, chosen: Schedule) -> RowTable:
        if uniform := re.fullmatch(r"uniform-(\d+)", chosen.name):  # fixed by durations alone: the paper's own rows
            return self._uniform(int(uniform[1]))
        found: list[NDArray[np.int64]] = []
        batch: list[NDArray[np.float64]] = []
        start = frames = 0
        for at in range(len(self._table)):
            times = self._frame_times(self._table.bare_item(at))
            self._exact.add(times.is_exact)
            batch.append(times.seconds[chosen.pick(times)])
            frames += len(batch[-1])
            if frames >= BATCH_FRAMES or at + 1 == len(self._table):
                counts = np.array([len(each) for each in batch], np.int64)
                found.append(self._counted(start, np.concatenate(batch), counts))
                batch, start, frames = [], at + 1, 0
        return self._table_of(np.concatenate(found, axis=1))

    def _uniform(self, count: int) -> RowTable:
        """`centred_uniform` over each video, for many of them at once."""
        step = max(1, BATCH_FRAMES // count)
        odd = 2 * np.arange(count) + 1
        found = []
        for start in range(0, len(self._table), step):
            durations = self._table.duration[start : start + step]
            moments = (odd * durations[:, np.newaxis] / (2 * count)).ravel()
            found.append(self._counted(start, moments, np.full(len(durations), count)))
        return self._table_of(np.concatenate(found, axis=1))

    def _counted(self, start: int, moments: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frames supplied, distinct, inside, and density; a frame that was chosen twice was supplied twice."""
        places = np.arange(start, start + len(counts))
        found = coverage(self._table, places, moments, counts)
        return np.stack([counts, found.distinct, found.inside, found.density])

    def _table_of(self, counts: NDArray[np.int64]) -> RowTable:
        supplied, distinct, inside, density = counts
        return RowTable(
            self._table.ids,
            correct=np.full(len(self._table), UNSCORED, np.int8),
            frames_supplied=supplied,
            frames_distinct=distinct,
            frames_inside=inside,
            density=density,
            termination=np.full(len(self._table), NO_TERMINATION, np.int8),
        ).packed()
