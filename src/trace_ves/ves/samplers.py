"""Schedules audited without a model: what a fixed way of picking frames covers, whatever is asked."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from trace_ves.core.errors import InputError
from trace_ves.core.schedules import schedule
from trace_ves.ves.rows import row_of_sampler, row_of_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from trace_ves.core.schedules import FrameTimes
    from trace_ves.records import Item
    from trace_ves.ves.rows import AuditRow


class SamplerRows:
    """The rows of schedules on the items of a bench."""

    def __init__(self, items: Sequence[Item], frame_times: Callable[[Item], FrameTimes]) -> None:
        self._items = items
        self._frame_times = frame_times
        self._exact: set[bool] = set()

    @property
    def exact_times(self) -> frozenset[bool]:
        """Whether schedules chose among frames of the videos (True), of an assumed rate (False), or of both."""
        return frozenset(self._exact)

    def of(self, samplers: Sequence[int | str], *, taken: Collection[str]) -> dict[str, list[AuditRow]]:
        """The rows of each sampler under its name; ` (sampler)` is added to a name that a run has already."""
        names = dict.fromkeys(f"uniform-{each}" if isinstance(each, int) else each for each in samplers)
        endless = next((item for item in self._items if not math.isfinite(item.duration)), None)
        if names and endless is not None:
            raise InputError(
                f"question {endless.question.id!r} has no duration in this bench, so no sampler can be placed on it."
            )
        return {f"{name} (sampler)" if name in taken else name: self._rows(name) for name in names}

    def _rows(self, name: str) -> list[AuditRow]:
        chosen = schedule(name)
        if uniform := re.fullmatch(r"uniform-(\d+)", name):  # fixed by durations alone: the paper's own rows
            return [row_of_sampler(item, int(uniform[1])) for item in self._items]
        rows = []
        for item in self._items:
            times = self._frame_times(item)
            self._exact.add(times.is_exact)
            rows.append(row_of_schedule(item, chosen.timestamps(times)))
        return rows
