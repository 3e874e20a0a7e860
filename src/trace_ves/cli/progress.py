"""The progress display of every command, on standard error: live on a terminal, lines of text elsewhere."""

import time
from contextlib import ExitStack
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

SHOWN_AFTER_SECONDS: Final = 2.0
PLAIN_WIDTH: Final = 120


def output_console(width: int = PLAIN_WIDTH) -> Console:
    """Standard output; `width` columns wide if it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


class Display:
    """Draws the object last passed to `show`, with notices about rate limits below it."""

    def __init__(self, console: Console | None = None, *, transient: bool = True) -> None:
        self.console: Final = console or Console(stderr=True)
        self._stack = ExitStack()
        self._transient = transient
        self._renderable: RenderableType = ""
        self._is_live = False

    def show(self, renderable: RenderableType) -> None:
        """Draw this object from now on, if standard error is a terminal."""
        self._renderable = renderable
        if self._is_live or not self.console.is_terminal or self.console.quiet:
            return
        from trace_ves.backbone.retry import WaitingNotices  # most displays end before anything is drawn

        waiting = self._stack.enter_context(WaitingNotices())
        self._stack.enter_context(
            Live(
                get_renderable=lambda: Group(self._renderable, waiting),
                console=self.console,
                transient=self._transient,
                refresh_per_second=8,
            )
        )
        self._is_live = True

    def print(self, line: str) -> None:
        """Print a line above the display."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if self._renderable:
            self.show(self._renderable)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class LateProgress(Display):
    """A bar that appears after two seconds. Call it with a label, the number done and the total."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._started = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._task = self._bar.add_task("", total=None, note="")
        self._label = ""

    def __call__(self, label: str, done: int, total: int | None, note: str = "") -> None:
        """Update the bar; without a total it only shows that work continues."""
        if label != self._label:
            self._label = label
            self._bar.reset(self._task, description=label, total=total)
        self._bar.update(self._task, completed=done, note=note)
        if time.monotonic() - self._started >= SHOWN_AFTER_SECONDS:
            self.show(self._bar)
