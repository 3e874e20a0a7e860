"""What runs cost, for a page: lines by run, method, stage or question. Each run is read once as it grows."""

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
"""What the lines can be added up by."""
MOST_LINES: Final = 2000


class CostTable(NamedTuple):
    """Lines as a page shows them, the most expensive first, and how many there are in all."""

    keys: tuple[Key, ...]
    lines: list[CostLine]
    total: int
    whole: CostLine | None  # all of them together; None if nothing was spent
    note: str  # from which day the prices are


class Costs:
    """The costs of a library's runs. Threads may share it."""

    def __init__(self, library: Library, prices: Prices | None = None) -> None:
        self._library = library
        self._prices = prices or load_prices()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, list[CostLine]]] = {}

    def table(self, grouping: str, run: str = "") -> CostTable:
        """The costs of one run or of all, added up by a key of `GROUPINGS`."""
        read = []
        with self._lock:
            for key, index in list(self._library.runs.items()):
                if run in {"", key}:
                    if self._known.get(key, (None,))[0] != index.generation:
                        self._known[key] = index.generation, self._read(key, index)
                    read += self._known[key][1]
        keys = GROUPINGS[grouping]
        answers = [line for line in read if line.method is not None]
        if grouping == "stage":
            lines = [line for line in read if line.stage is not None]
        elif grouping == "question":
            lines = [line for line in read if line.question_id is not None]
        else:
            lines = _sum_by(keys, answers)
        whole = next(iter(_sum_by((), answers)), None)
        note = " ".join(price_notes(self._prices.of(line.backbone) for line in answers if line.backbone))
        return CostTable(keys, heapq.nlargest(MOST_LINES, lines, key=_expense), len(lines), whole, note)

    def _read(self, key: str, index: RunIndex) -> list[CostLine]:
        """The lines of one run by method, by stage and by question, from one reading of its file."""
        by_method: tuple[Key, ...] = ("run", "method", "backbone")
        return add_lines(
            line
            for prediction in _paid_lines(index)
            for by in (by_method, GROUPINGS["stage"], GROUPINGS["question"])
            for line in answer_lines(key, prediction, self._prices, by)
        )


def _paid_lines(index: RunIndex) -> Iterator[Prediction]:
    """The lines of a run, and those that failed and were asked again; the page of the run names damaged lines."""
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
