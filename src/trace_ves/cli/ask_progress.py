"""How far many questions have come, on standard error: a bar on a terminal, a line for each answer elsewhere."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from trace_ves.cli.ask_options import AskOptions
    from trace_ves.records import Prediction


class AskProgress:
    """Counts questions, errors and dollars. Says nothing for machines but errors."""

    def __init__(self, total: int, chosen: AskOptions) -> None:
        self._chosen = chosen
        self._console = Console(stderr=True, quiet=chosen.as_json)
        self._bar = Progress(
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
