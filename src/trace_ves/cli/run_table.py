"""Progress of a run on standard error: done, errors, rate, cost, accuracy so far and time left for each job."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table
from rich.text import Text

from trace_ves.cli.progress import SHOWN_AFTER_SECONDS, Display
from trace_ves.core.display import TRACE_TERMINAL, is_trace
from trace_ves.runs.cost import Spent, sum_stages
from trace_ves.runs.prices import Price, Prices, add_price_notes, price_notes
from trace_ves.runs.run import Plan, Watcher

if TYPE_CHECKING:
    from rich.console import Console

    from trace_ves.records import Item, Prediction
    from trace_ves.runs.answering import Job
    from trace_ves.ves.table import Table as AuditTable

PLAIN_EVERY_SECONDS: Final = 30.0  # how often a line is printed if standard error is not a terminal
LEAST_SECONDS: Final = 0.5  # too short to compute a rate
LONGEST_NAME: Final = 40
COLUMNS: Final = ("Done", "Errors", "Rate", "Cost", "Acc so far", "Left")


@dataclass(slots=True)
class Tally:
    """The progress of one job."""

    total: int
    price: Price | None = None
    done: int = 0
    done_now: int = 0  # those answered by this command
    correct: int = 0
    errors: int = 0
    dollars: float = 0.0
    first: float | None = None  # when the first question of this command was asked, in seconds from its start
    last: float = 0.0  # when the latest was answered

    def add(self, item: Item, line: Prediction) -> None:
        """Count a finished question."""
        self.done += 1
        self.correct += line.answer == item.answer
        self.errors += line.error is not None
        self.pay(line)

    def pay(self, line: Prediction) -> None:
        """Add what a line cost."""
        if self.price is not None:
            self.dollars += sum(sum_stages(line).values(), Spent()).dollars(self.price) or 0.0

    def add_now(self, item: Item, prediction: Prediction, elapsed: float) -> None:
        """Count a question that was answered `elapsed` seconds after the start of the command."""
        self.add(item, prediction)
        self.done_now += 1
        self.first = max(0.0, elapsed - prediction.seconds) if self.first is None else self.first
        self.last = elapsed

    def cells(self) -> tuple[str, ...]:
        """The cells under `COLUMNS`."""
        seconds = 0.0 if self.first is None else self.last - self.first
        rate = self.done_now / seconds if seconds >= LEAST_SECONDS else None
        left = "" if rate is None else format_duration((self.total - self.done) / rate)
        return (
            f"{self.done}/{self.total}",
            str(self.errors),
            "" if rate is None else f"{60 * rate:,.1f}/min",
            "?" if self.price is None else f"${self.dollars:.2f}",
            f"{100 * self.correct / self.done:.1f}%" if self.done else "",
            "" if self.done == self.total else left,
        )


class RunTable(Display, Watcher):
    """A live table of the jobs of a run; if standard error is not a terminal, a line from time to time."""

    def __init__(self, prices: Prices, console: Console | None = None) -> None:
        super().__init__(console, transient=False)
        self._prices = prices
        self._tallies: dict[Job, Tally] = {}
        self._began = self._printed = time.monotonic()

    def checking(self, done: int, total: int) -> None:
        """Print how many durations have been compared with the bench, if it takes long."""
        if self._is_due(SHOWN_AFTER_SECONDS if self.console.is_terminal else PLAIN_EVERY_SECONDS):
            self.print(f"checked the durations of {done} of {total} videos")

    def begin(self, plan: Plan) -> None:
        """Count earlier results and start to draw."""
        self._began = self._printed = time.monotonic()
        for job in plan.jobs:
            tally = self._tallies[job] = Tally(len(plan.items), self._prices.of(job.backbone))
            for item in plan.items:
                if line := plan.finished[job].get(item.question.id):
                    tally.add(item, line)
            for line in plan.retried.get(job, ()):
                tally.pay(line)
        self.show(self)

    def finished(self, job: Job, item: Item, prediction: Prediction) -> None:
        """Count one more result."""
        tally = self._tallies[job]
        tally.add_now(item, prediction, time.monotonic() - self._began)
        cells = tally.cells()
        if prediction.error is not None and tally.errors == 1:
            self.print(f"{job.name}: first error, question {item.question.id!r}: {prediction.error}")
        if not self.console.is_terminal and (tally.done == tally.total or self._is_due(PLAIN_EVERY_SECONDS)):
            labelled = {**dict(zip(COLUMNS, cells, strict=True)), "Cost": add_price_notes(cells[3], [tally.price])}
            self.print(f"{job.name}: {', '.join(f'{name} {cell}' for name, cell in labelled.items() if cell)}")

    def _is_due(self, seconds: float) -> bool:
        """Whether nothing was printed for `seconds`; if so, restart the timer."""
        now = time.monotonic()
        if now - self._printed < seconds:
            return False
        self._printed = now
        return True

    def __rich__(self) -> Table:
        """The current table."""
        notes = " ".join(price_notes(tally.price for tally in self._tallies.values()))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=notes or None, caption_justify="left")
        table.add_column("Run")
        for name in COLUMNS:
            table.add_column(name, justify="right")
        for job, tally in self._tallies.items():
            done, errors, *others = tally.cells()
            run = Text(shorten_name(job.name), style=TRACE_TERMINAL if is_trace(job.name) else "")
            table.add_row(run, done, Text(errors, style="red" if tally.errors else ""), *others)
        return table


def shorten_name(name: str) -> str:
    """Shorten the name of a backbone or run: drop the scheme and path of its URL, then cut the middle if needed."""
    name = re.sub(r"@https?://([^/\s,)]+)[^\s,)]*", r"@\1", name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 15]}…{name[-14:]}"


def shorten_names(table: AuditTable) -> AuditTable:
    """A table with short names in its headings and rows."""
    sections = tuple(
        replace(
            section,
            heading=" ".join(map(shorten_name, section.heading.split(" "))),
            rows=tuple(replace(row, name=shorten_name(row.name)) for row in section.rows),
        )
        for section in table.sections
    )
    return replace(table, sections=sections)


def format_duration(seconds: float) -> str:
    """Format seconds as `2 h 05 min`, `3 min 20 s` or `12 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
