"""What a person sees while a question is being answered, and when it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from trace_ves.core import Termination
from trace_ves.core.stages import describe
from trace_ves.observer import UNLIMITED, Decided, RoundStarted, StageStarted

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from trace_ves.asking import AskResult
    from trace_ves.core import Interval
    from trace_ves.observer import Progress

ACTIONS: Final = {
    "STOP": "the answer is stable",
    "DROP": "dropping a clip that misleads",
    "REFINE": "a closer look is needed",
    "EXPAND": "more has to be found",
    None: "nothing is left to look at",
}
"""What TRACE decides, in words."""

TERMINATIONS: Final = {
    Termination.STABLE_PREFIX_FOUND: ("a stable prefix was found, and a replay over the same clips agrees", "green"),
    Termination.NO_STABLE_PREFIX: (
        "no stable prefix was found: at best a forced answer, not claimed to be sufficient",
        "yellow",
    ),
    Termination.SINGLE_PASS: ("one pass; nothing is claimed about sufficiency", "yellow"),
    Termination.SELF_REPORTED: ("the model said itself that it had seen enough", "yellow"),
    Termination.EXHAUSTED: ("rounds or frames ran out; nothing is claimed about sufficiency", "yellow"),
}


class AskScreen:
    """A listener for the observer: shows the round, what is looked at, and the budget, on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._live = Live(console=self._console, transient=True, refresh_per_second=8)
        self._round = ""
        self._spinner = Spinner("dots", Text("opening the video"))

    def __enter__(self) -> Self:
        self._live.start()
        self._live.update(self._spinner)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show what is going on."""
        match progress.event:
            case RoundStarted(number=number):
                self._round = f"round {number}: "
            case StageStarted(stage=stage, spans=spans):
                self._show(describe(stage).doing, _spans(spans), progress)
            case Decided(action=action):
                self._show(ACTIONS.get(action, str(action)), "", progress)

    def _show(self, doing: str, where: str, progress: Progress) -> None:
        self._spinner.update(text=Text.assemble((self._round, "bold"), doing, (f"  {where}" if where else "", "dim")))
        self._live.update(Group(self._spinner, _budget(progress)))


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
    shown = ", ".join(f"{clock(span.start)}-{clock(span.end)}" for span in distinct[:most])
    return shown if len(distinct) <= most else f"{shown} and {len(distinct) - most} more"


def clock(seconds: float) -> str:
    """A moment as a player shows it, to a tenth of a second."""
    minutes, rest = divmod(round(seconds * 10), 600)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest / 10:04.1f}" if hours else f"{minutes}:{rest / 10:04.1f}"


def show_result(result: AskResult, saved: Path | None = None) -> None:
    """Print the answer, whether it was earned, the evidence, and what it cost."""
    words, colour = TERMINATIONS[result.termination]
    letter = "" if result.question.is_open or result.answer is None else f"{result.answer}.  "
    answer = Text(letter + (result.text or "no answer"), style="bold" if result.answer else "bold red")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    for clip in sorted(result.bundle, key=lambda clip: clip.span):
        span = f"{clock(clip.span.start)} - {clock(clip.span.end)}"
        facts.add_row("evidence", f"{span}   {len(clip.frames)} frames of {clip.frames[0].picture.height} px")
    if not result.bundle:
        facts.add_row("evidence", "none kept")
    usage = result.log.usage
    facts.add_row("frames", f"{result.log.frames_supplied} supplied, {len(result.log.timestamps)} different")
    facts.add_row(
        "calls", f"{len(result.log.calls)} in {result.prediction.seconds:.1f} s with {result.prediction.backbone}"
    )
    if usage.input_tokens or usage.output_tokens:
        facts.add_row(
            "tokens", f"{usage.input_tokens:,} in ({usage.cached_tokens:,} cached), {usage.output_tokens:,} out"
        )
    faults = sum(call.fault is not None for call in result.log.calls)
    if faults:
        facts.add_row("faults", f"{faults} replies of the model could not be used")
    if saved is not None:
        facts.add_row("saved", str(saved))
    Console().print(Panel(Group(answer, Text(words, style=colour), Text(), facts), title="answer", title_align="left"))
