"""What runs cost, for a page: lines by run, method, stage or question. Each run is read once as it grows."""

from __future__ import annotations

import heapq
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trace_ves.core import TraceVesError
from trace_ves.runs.cost import KEYS, add_lines, answer_lines
from trace_ves.runs.prices import load_prices, price_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.records.run_index import RunIndex
    from trace_ves.runs.cost import CostLine, Key
    from trace_ves.runs.prices import Prices
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
    whole: CostLine | None  # all of them together; None where nothing was spent
    note: str  # from which day the prices are


class _RunCosts(NamedTuple):
    """The lines of one run."""

    whole: list[CostLine]  # by run, method and backbone
    by_stage: list[CostLine]
    by_question: list[CostLine]  # the most expensive ones, so that a run of any size takes little memory
    questions: int  # lines by question that there were in all


class Costs:
    """The costs of a library's runs. Threads may share it."""

    def __init__(self, library: Library, prices: Prices | None = None) -> None:
        self._library = library
        self._prices = prices or load_prices()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, _RunCosts]] = {}

    def table(self, grouping: str, run: str = "") -> CostTable:
        """The costs of one run or of all, added up by a key of `GROUPINGS`."""
        runs = []
        with self._lock:
            for key, index in self._library.runs.items():
                if run in {"", key}:
                    if self._known.get(key, (None,))[0] != index.generation:
                        self._known[key] = index.generation, self._read(key, index)
                    runs.append(self._known[key][1])
        keys = GROUPINGS[grouping]
        answers = [line for each in runs for line in each.whole]
        if grouping == "stage":
            lines = [line for each in runs for line in each.by_stage]
        elif grouping == "question":
            lines = [line for each in runs for line in each.by_question]
        else:
            lines = _sum_by(keys, answers)
        total = sum(each.questions for each in runs) if grouping == "question" else len(lines)
        whole = _sum_by((), answers)
        note = " ".join(price_notes(self._prices.of(line.backbone) for line in answers if line.backbone))
        return CostTable(keys, heapq.nlargest(MOST_LINES, lines, key=_expense), total, next(iter(whole), None), note)

    def _read(self, key: str, index: RunIndex) -> _RunCosts:
        whole: list[CostLine] = []
        by_stage: list[CostLine] = []
        questions = 0

        def by_question() -> Iterator[CostLine]:
            nonlocal whole, by_stage, questions
            for question_id in list(index.entries):
                with suppress(TraceVesError, KeyError):  # the page of the run names damaged lines
                    prediction = index.read(question_id)
                    price = self._prices.of(prediction.backbone) if prediction.backbone else None
                    whole = add_lines([*whole, *answer_lines(key, prediction, price, ("run", "method", "backbone"))])
                    by_stage = add_lines([*by_stage, *answer_lines(key, prediction, price, GROUPINGS["stage"])])
                    for line in answer_lines(key, prediction, price, GROUPINGS["question"]):
                        questions += 1
                        yield line

        expensive = heapq.nlargest(MOST_LINES, by_question(), key=_expense)
        return _RunCosts(whole, by_stage, expensive, questions)


def _sum_by(keys: tuple[Key, ...], lines: list[CostLine]) -> list[CostLine]:
    others: dict[str, Any] = {key: None for key in KEYS if key not in keys}
    return add_lines(replace(line, **others) for line in lines)


def _expense(line: CostLine) -> tuple[float, int, float]:
    usage = line.spent.usage
    return line.dollars or 0.0, usage.input_tokens + usage.output_tokens, line.spent.seconds
