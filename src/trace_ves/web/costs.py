"""What runs cost, for a page: one line for each run, method, stage or question. Each run is read once as it grows."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from trace_ves.core import TraceVesError
from trace_ves.runs.cost import KEYS, CostLine, Spent, cost_lines, group_lines
from trace_ves.runs.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trace_ves.records import Prediction
    from trace_ves.records.run_index import RunIndex
    from trace_ves.runs.cost import Key
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
ANSWERS_AT_ONCE: Final = 1000
"""Answers of a run that are in memory at one time."""


class CostTable(NamedTuple):
    """Lines as a page shows them, the most expensive first, and how many there are in all."""

    keys: tuple[Key, ...]
    lines: list[CostLine]
    total: int
    whole: CostLine | None
    """All of them together; None where nothing was spent."""


class Costs:
    """The costs of a library's runs. Threads may share it."""

    def __init__(self, library: Library, prices: Prices | None = None) -> None:
        self._library = library
        self._prices = prices or load_prices()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, _RunCosts]] = {}

    def table(self, grouping: str, run: str = "") -> CostTable:
        """The costs of one run or of all, added up by a key of `GROUPINGS`."""
        runs = [self._of_run(key) for key in self._library.runs if run in {"", key}]
        lines = _merged(line for each in runs for line in each.lines[grouping])
        whole = _merged(line for each in runs for line in each.lines[""])
        total = sum(each.questions for each in runs) if grouping == "question" else len(lines)
        return CostTable(GROUPINGS[grouping], _most_expensive(lines), total, whole[0] if whole else None)

    def _of_run(self, key: str) -> _RunCosts:
        index = self._library.runs[key]
        with self._lock:
            known = self._known.get(key)
            if known is None or known[0] != index.generation:
                known = index.generation, _RunCosts()
                for answers in _chunks(_readable(index)):
                    known[1].add(cost_lines([(key, answers)], self._prices))
                self._known[key] = known
            return known[1]


class _RunCosts:
    """The costs of one run by every grouping, and under no name those of all of it.

    Of its questions only the most expensive are kept, so that a run of any size takes little memory.
    """

    def __init__(self) -> None:
        self.lines: dict[str, list[CostLine]] = {grouping: [] for grouping in ("", *GROUPINGS)}
        self.questions = 0
        """Lines by question that there were in all."""

    def add(self, finest: list[CostLine]) -> None:
        """Take in the lines of further answers."""
        for grouping, before in self.lines.items():
            new = group_lines(finest, GROUPINGS.get(grouping, ()))
            if grouping == "question":
                self.questions += len(new)
                self.lines[grouping] = _most_expensive([*before, *new])
            else:
                self.lines[grouping] = _merged([*before, *new])


def _merged(lines: Iterable[CostLine]) -> list[CostLine]:
    """Lines about different answers, added up where their keys agree."""
    found: dict[tuple[str | None, ...], CostLine] = {}
    for line in lines:
        key = tuple(getattr(line, name) for name in KEYS)
        before = found.get(key)
        found[key] = line if before is None else _sum(before, line)
    return list(found.values())


def _sum(one: CostLine, other: CostLine) -> CostLine:
    dollars = None if one.dollars is None or other.dollars is None else one.dollars + other.dollars
    spent = Spent.total([one.spent, other.spent])
    return replace(one, questions=one.questions + other.questions, spent=spent, dollars=dollars)


def _most_expensive(lines: list[CostLine]) -> list[CostLine]:
    return sorted(lines, key=_expense, reverse=True)[:MOST_LINES]


def _chunks(answers: Iterator[Prediction]) -> Iterator[list[Prediction]]:
    while chunk := list(islice(answers, ANSWERS_AT_ONCE)):
        yield chunk


def _readable(index: RunIndex) -> Iterator[Prediction]:
    """The whole predictions of a run; damaged lines are told of elsewhere."""
    for question_id in list(index.entries):
        with suppress(TraceVesError, KeyError):
            yield index.read(question_id)


def _expense(line: CostLine) -> tuple[float, int, float]:
    usage = line.spent.usage
    return line.dollars or 0.0, usage.input_tokens + usage.output_tokens, line.spent.seconds
