"""What runs cost, for a page: one line for each run, method, stage or question. Each run is read once as it grows."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from trace_ves.core import TraceVesError
from trace_ves.cost.lines import CostLine, cost_lines, group_lines
from trace_ves.cost.prices import load_prices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.cost.lines import Key
    from trace_ves.cost.prices import Prices
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
    whole: CostLine | None
    """All of them together; None where nothing was spent."""


class Costs:
    """The costs of a library's runs. Threads may share it."""

    def __init__(self, library: Library, prices: Prices | None = None) -> None:
        self._library = library
        self._prices = prices or load_prices()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, list[CostLine]]] = {}

    def table(self, grouping: str, run: str = "") -> CostTable:
        """The costs of one run or of all, added up by a key of `GROUPINGS`."""
        keys = GROUPINGS[grouping]
        finest = [line for key in self._library.runs if run in {"", key} for line in self._lines(key)]
        grouped = sorted(group_lines(finest, keys), key=_expense, reverse=True)
        whole = group_lines(finest, ())
        return CostTable(keys, grouped[:MOST_LINES], len(grouped), whole[0] if whole else None)

    def _lines(self, key: str) -> list[CostLine]:
        index = self._library.runs[key]
        with self._lock:
            known = self._known.get(key)
            if known is None or known[0] != index.generation:
                known = index.generation, cost_lines([(key, _readable(index))], self._prices)
                self._known[key] = known
            return known[1]


def _readable(index: RunIndex) -> Iterator[Prediction]:
    """The whole predictions of a run; damaged lines are told of elsewhere."""
    for question_id in list(index.entries):
        with suppress(TraceVesError, KeyError):
            yield index.read(question_id)


def _expense(line: CostLine) -> tuple[float, int, float]:
    usage = line.spent.usage
    return line.dollars or 0.0, usage.input_tokens + usage.output_tokens, line.spent.seconds
