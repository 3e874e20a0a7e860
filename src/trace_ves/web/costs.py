"""The costs page: the costs of runs by run, method, stage or question."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trace_ves.core import TraceVesError
from trace_ves.records.run_file import read_retried
from trace_ves.runs.cost import KEYS, CostLine, Key, add_lines, answer_lines
from trace_ves.runs.prices import Prices, load_prices, price_notes

if TYPE_CHECKING:
    from trace_ves.records import Prediction
    from trace_ves.records.run_index import RunIndex
    from trace_ves.web.library import Library

GROUPINGS: Final[dict[str, tuple[Key, ...]]] = {
    "run": ("run", "backbone"),
    "method": ("method", "backbone"),
    "stage": ("run", "stage"),
    "question": ("question_id", "run"),
}
"""The groupings of the page, each with the keys of its lines."""
MOST_LINES: Final = 2000


class CostTable(NamedTuple):
    """The lines of the page, the most expensive first."""

    keys: tuple[Key, ...]
    lines: list[CostLine]
    total: int  # how many lines there are, shown or not
    whole: CostLine | None  # the sum of all lines; None if there are none
    note: str  # the date of the prices


class Costs:
    """The costs of a library's runs; a run is read again only if it has grown. Threads may share it."""

    def __init__(self, library: Library, prices: Prices | None = None) -> None:
        self._library = library
        self._prices = prices or load_prices()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, list[CostLine]]] = {}

    def table(self, grouping: str, run: str = "") -> CostTable:
        """Add up the costs of one run, or of all, by one of `GROUPINGS`."""
        run_lines = []
        with self._lock:
            for key, index in list(self._library.runs.items()):
                if run in {"", key}:
                    if self._known.get(key, (None,))[0] != index.generation:
                        self._known[key] = index.generation, self._read(key, index)
                    run_lines += self._known[key][1]
        keys = GROUPINGS[grouping]
        answers = [line for line in run_lines if line.method is not None]
        if grouping == "stage":
            lines = [line for line in run_lines if line.stage is not None]
        elif grouping == "question":
            lines = [line for line in run_lines if line.question_id is not None]
        else:
            lines = _sum_by(keys, answers)
        whole = next(iter(_sum_by((), answers)), None)
        note = " ".join(price_notes(self._prices.of(line.backbone) for line in answers if line.backbone))
        return CostTable(keys, heapq.nlargest(MOST_LINES, lines, key=_expense), len(lines), whole, note)

    def _read(self, key: str, index: RunIndex) -> list[CostLine]:
        """Read a run once, and add up its costs by method, by stage and by question."""
        by_method: tuple[Key, ...] = ("run", "method", "backbone")
        return add_lines(
            line
            for prediction in _paid_lines(index)
            for by in (by_method, GROUPINGS["stage"], GROUPINGS["question"])
            for line in answer_lines(key, prediction, self._prices, by)
        )


def _paid_lines(index: RunIndex) -> Iterator[Prediction]:
    """Yield the lines of a run, then the failed ones that were asked again; damaged lines are skipped."""
    for question_id in list(index.entries):
        with suppress(TraceVesError, KeyError):
            yield index.read(question_id)
    with suppress(TraceVesError):
        yield from read_retried(index.path)


def _sum_by(keys: tuple[Key, ...], lines: list[CostLine]) -> list[CostLine]:
    others: dict[str, Any] = {key: None for key in KEYS if key not in keys}
    return add_lines(replace(line, **others) for line in lines)


def _expense(line: CostLine) -> tuple[float, int, float]:
    usage = line.spent.usage
    return line.dollars or 0.0, usage.input_tokens + usage.output_tokens, line.spent.seconds
