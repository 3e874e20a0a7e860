"""How far many questions have come, on standard error: a bar on a terminal, a line for each answer elsewhere."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import rich.progress
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from trace_ves.backbone.retry import WaitingNotices
from trace_ves.core.display import describe_stage
from trace_ves.observer import UNLIMITED, Decided, ReplyRejected, RoundStarted, StageStarted
from trace_ves.web.search_view import clock_words

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from trace_ves.cli.ask import AskOptions
    from trace_ves.core import Interval
    from trace_ves.observer import Progress
    from trace_ves.records import Prediction


class AskProgress:
    """Counts questions, errors and dollars. Says nothing for machines but errors."""

    def __init__(self, total: int, chosen: AskOptions) -> None:
        self._chosen = chosen
        self._console = Console(stderr=True, quiet=chosen.as_json)
        self._bar = rich.progress.Progress(
            SpinnerColumn(),
            TextColumn("asking"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[spent]}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._total = total
        self._task = self._bar.add_task("", total=total, spent="")
        self._done = 0
        self._dollars: float | None = 0.0
        self._lock = threading.Lock()

    def begun(self, done: int) -> None:
        """So many were answered before."""
        self._done = done
        self._bar.update(self._task, completed=done)
        if done:
            self._console.print(f"{done} of {self._total} were answered before", highlight=False)

    def finished(self, line: Prediction) -> None:
        """One more is answered."""
        with self._lock:
            self._done += 1
            cost = self._chosen.dollars(line)
            self._dollars = None if cost is None or self._dollars is None else self._dollars + cost
            spent = "" if self._dollars is None else f"${self._dollars:.4f}"
            self._bar.update(self._task, completed=self._done, spent=spent)
            said = f"error: {line.error}" if line.error else line.extra.get("text") or "no answer"
            if not self._console.is_terminal or line.error:
                about = f"{self._done} of {self._total}: {line.question_id}: {said}"
                self._console.print(about, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


ACTIONS: Final = {
    "STOP": "the answer is stable",
    "DROP": "dropping a clip that misleads",
    "REFINE": "a closer look is needed",
    "EXPAND": "more has to be found",
    None: "nothing is left to look at",
}
"""What TRACE decides, in words."""


class AskScreen:
    """A listener for the observer: shows the round, what is looked at, and the budget, on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._live = Live(console=self._console, transient=True, refresh_per_second=8)
        self.rejected: list[ReplyRejected] = []
        """Replies of the model that could not be used, in the order they came."""
        self._waiting, self._closing = WaitingNotices(), ExitStack()
        self._round = ""
        self._spinner = Spinner("dots", Text("opening the video"))

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.quiet:
            self._closing.enter_context(self._waiting)
        self._live.start()
        self._live.update(Group(self._spinner, self._waiting))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        self._closing.close()

    def __call__(self, progress: Progress) -> None:
        """Show what is going on."""
        match progress.event:
            case RoundStarted(number=number):
                self._round = f"round {number}: "
            case StageStarted(stage=stage, spans=spans):
                self._show(describe_stage(stage).doing, _spans(spans), progress)
            case ReplyRejected():
                self.rejected.append(progress.event)
            case Decided(action=action):
                self._show(ACTIONS.get(action, str(action)), "", progress)

    def _show(self, doing: str, where: str, progress: Progress) -> None:
        self._spinner.update(text=Text.assemble((self._round, "bold"), doing, (f"  {where}" if where else "", "dim")))
        self._live.update(Group(self._spinner, _budget(progress), self._waiting))


def _budget(progress: Progress) -> Table:
    bar = Table.grid(padding=(0, 1))
    bounded = progress.budget < UNLIMITED
    total = progress.budget if bounded else None
    used = progress.frames_supplied
    text = f"{used} of {progress.budget} frames" if bounded else f"{used} frames"
    bar.add_row("  budget", ProgressBar(total=total, completed=used, width=40), text)
    return bar


def _spans(spans: tuple[Interval, ...], most: int = 3) -> str:
    distinct = list(dict.fromkeys(spans))
    shown = ", ".join(f"{clock_words(span.start)}-{clock_words(span.end)}" for span in distinct[:most])
    return shown if len(distinct) <= most else f"{shown} and {len(distinct) - most} more"
