"""A progress bar that only appears where something takes long, and only where a person is looking."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

SHOWN_AFTER_SECONDS: Final = 2.0


class LateProgress:
    """Call it with a label, what is done and what there is; after two seconds it shows a bar on standard error."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, visible=False)
        self._label = ""
        self._shown = False

    def __call__(self, label: str, done: int, total: int | None) -> None:
        """Note how far something has come; without a total, only that it goes on."""
        if not self._shown:
            if time.monotonic() - self._started < SHOWN_AFTER_SECONDS or not self._progress.console.is_terminal:
                return
            self._progress.start()
            self._shown = True
        if label != self._label:
            self._label = label
            self._progress.reset(self._task, description=label, total=total, visible=True)
        self._progress.update(self._task, completed=done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._progress.stop()
