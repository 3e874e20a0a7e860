"""Progress of a run on standard error: done, rate, cost, accuracy so far, time left, and the first errors."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trace_ves.backbone.retry import WaitingNotices
from trace_ves.core.display import TRACE_TERMINAL, is_trace
from trace_ves.records import Usage
from trace_ves.runs.run import Watcher

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import Console

    from trace_ves.records import Item, Prediction
    from trace_ves.runs.job import Job
    from trace_ves.runs.prices import Price, Prices
    from trace_ves.runs.run import Plan

PLAIN_EVERY_SECONDS: Final = 30.0
"""How often a line is printed where standard error is no terminal."""

LATE_SECONDS: Final = 2.0
"""Nothing is said of what takes less."""

LEAST_SECONDS: Final = 0.5
"""A shorter time says nothing about a rate."""


@dataclass(slots=True)
class Tally:
    """How far one job has come."""

    total: int
    price: Price | None
    done: int = 0
    done_now: int = 0
    """Of those, the ones answered since this command began."""
    correct: int = 0
    errors: int = 0
    usage: Usage = Usage()
    flex: Usage = Usage()
    """The part of the tokens that the cheaper tier answered."""
    last: float | None = None
    """Seconds from the start of the command to this job's latest answer."""
    first: float | None = None

    def add(self, item: Item, line: Prediction) -> None:
        """Count a finished question."""
        self.done += 1
        self.correct += line.answer == item.answer
        self.errors += line.error is not None
        self.usage += line.usage
        self.flex += line.flex_usage

    def add_now(self, item: Item, prediction: Prediction, elapsed: float) -> None:
        """Count a question that was asked now, so many seconds after the start of the command."""
        self.add(item, prediction)
        self.done_now += 1
        self.first = max(0.0, elapsed - prediction.seconds) if self.first is None else self.first
        self.last = elapsed

    @property
    def dollars(self) -> float | None:
        """What it cost so far; None where the model has no price."""
        return None if self.price is None else self.price.of(self.usage, self.flex)

    @property
    def per_minute(self) -> float | None:
        """Questions a minute since this job was begun."""
        if self.first is None or self.last is None or self.last - self.first < LEAST_SECONDS:
            return None
        return 60 * self.done_now / (self.last - self.first)

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; nothing where there is no rate yet."""
        rate = self.per_minute
        return None if rate is None else 60 * (self.total - self.done) / rate

    def cells(self) -> tuple[str, ...]:
        """Done, errors, rate, cost, accuracy, time left, as they are shown."""
        rate, left = self.per_minute, self.seconds_left
        return (
            f"{self.done}/{self.total}",
            str(self.errors),
            "" if rate is None else f"{rate:,.1f}/min",
            "?" if self.dollars is None else f"${self.dollars:.2f}",
            f"{100 * self.correct / self.done:.1f}%" if self.done else "",
            "done" if self.done == self.total else "" if left is None else duration(left),
        )


COLUMNS: Final = ("Done", "Errors", "Rate", "Cost", "Acc so far", "Left")


class LiveTable(Watcher):
    """A table that grows while a run goes on; on a screen it is redrawn, elsewhere a line comes now and then."""

    def __init__(self, console: Console, prices: Prices) -> None:
        self._console = console
        self._prices = prices
        self._tallies: dict[Job, Tally] = {}
        self._lock = threading.Lock()
        self._began = self._printed = time.monotonic()
        self._waiting, self._closing = WaitingNotices(), ExitStack()
        self._live = Live(
            get_renderable=lambda: Group(self.table(), self._waiting), console=console, refresh_per_second=4
        )

    def checking(self, done: int, total: int) -> None:
        """Show how many videos have been compared with the bench's durations, once that takes long."""
        elapsed = time.monotonic() - self._printed
        if elapsed >= (LATE_SECONDS if self._console.is_terminal else PLAIN_EVERY_SECONDS):
            self._printed = time.monotonic()
            self._console.print(f"checked the durations of {done} of {total} videos", highlight=False)

    def begin(self, plan: Plan) -> None:
        """Count what was finished before, and start to draw."""
        self._began = self._printed = time.monotonic()
        for job in plan.jobs:
            tally = Tally(len(plan.items), self._prices.of(job.backbone))
            for item in plan.items:
                if found := plan.finished[job].get(item.question.id):
                    tally.add(item, found)
            self._tallies[job] = tally
        if self._console.is_terminal:
            self._closing.enter_context(self._waiting)
            self._live.start()

    def finished(self, job: Job, item: Item, prediction: Prediction) -> None:
        """Count one more."""
        with self._lock:
            self._tallies[job].add_now(item, prediction, time.monotonic() - self._began)
            is_first_error = prediction.error is not None and self._tallies[job].errors == 1
        if is_first_error:
            said = f"{job.name}: the first error, question {item.question.id!r}: {prediction.error}"
            self._console.print(said, markup=False, highlight=False, soft_wrap=True)
        due = time.monotonic() - self._printed >= PLAIN_EVERY_SECONDS or self._tallies[job].cells()[-1] == "done"
        if not self._console.is_terminal and due:
            self._printed = time.monotonic()
            cells = zip(COLUMNS, self._tallies[job].cells(), strict=True)
            said = ", ".join(f"{name} {cell}" for name, cell in cells if cell)
            self._console.print(f"{job.name}: {said}", markup=False, highlight=False, soft_wrap=True)

    def table(self) -> Table:
        """The table as it stands now."""
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        drawn.add_column("Run")
        for name in COLUMNS:
            drawn.add_column(name, justify="right")
        with self._lock:
            for job, tally in self._tallies.items():
                cells = tally.cells()
                style = "red" if tally.errors else ""
                drawn.add_row(
                    Text(job.name, style=TRACE_TERMINAL if is_trace(job.name) else ""),
                    *cells[:1],
                    Text(cells[1], style=style),
                    *cells[2:],
                )
            if len(self._tallies) > 1:
                drawn.add_section()
                drawn.add_row("all", *_together(list(self._tallies.values())))
        return drawn

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()
        self._closing.close()


def _together(tallies: Sequence[Tally]) -> tuple[str, ...]:
    """All jobs in one row; accuracies of different methods do not add up."""
    asked = [tally for tally in tallies if tally.first is not None and tally.last is not None]
    whole = Tally(
        total=sum(tally.total for tally in tallies),
        price=None,
        done=sum(tally.done for tally in tallies),
        done_now=sum(tally.done_now for tally in tallies),
        errors=sum(tally.errors for tally in tallies),
        first=min((tally.first or 0.0 for tally in asked), default=None),
        last=max((tally.last or 0.0 for tally in asked), default=None),
    )
    done, errors, rate, _, _, left = whole.cells()
    known = [tally.dollars for tally in tallies if tally.dollars is not None]
    cost = f"${sum(known):.2f}" if known else "?"
    return done, errors, rate, cost, "", left


def duration(seconds: float) -> str:
    """Seconds as `2 h 05 min`, `3 min 20 s` or `12 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
