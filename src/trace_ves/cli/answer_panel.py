"""A search on a terminal: what it is doing while it goes on, and the answer with what supports it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from trace_ves.cli.progress import Display
from trace_ves.observer import UNLIMITED, ReplyRejected, RoundStarted
from trace_ves.web.search_view import describe_event, span_text, view_answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from trace_ves.core import Frame
    from trace_ves.observer import Progress
    from trace_ves.runs.asking import AskResult
    from trace_ves.runs.prices import Prices
    from trace_ves.web.search_view import EvidenceClip

THUMBNAIL_COLUMNS: Final = 24
HALF_BLOCK: Final = "▀"


class SearchScreen(Display):
    """A listener for the observer: shows the round, what is looked at, and the budget."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self.rejected: list[ReplyRejected] = []  # replies of the model that could not be used, in the order they came
        self._round = ""
        self._shown = self._spinner = Spinner("dots", Text("opening the video"))

    def __call__(self, progress: Progress) -> None:
        """Show what is going on."""
        event = progress.event
        if isinstance(event, ReplyRejected):
            self.rejected.append(event)
        elif isinstance(event, RoundStarted):
            self._round = f"{describe_event(event)}: "
        elif doing := describe_event(event):
            self._spinner.update(text=Text.assemble((self._round, "bold"), doing))
            self.show(Group(self._spinner, _budget(progress)))


def _budget(progress: Progress) -> Table:
    used, is_bounded = progress.frames_supplied, progress.budget < UNLIMITED
    total = progress.budget if is_bounded else None
    row = Table.grid(padding=(0, 1))
    text = f"{used} of {progress.budget} frames" if is_bounded else f"{used} frames"
    row.add_row("  budget", ProgressBar(total=total, completed=used, width=40), text)
    return row


def show_result(result: AskResult, *, console: Console | None = None, title: str = "answer") -> None:
    """Print the answer with all that is needed to judge it."""
    console = console or Console()
    view = view_answer(result)
    parts: list[RenderableType] = [
        Text(view.answer, style="bold" if result.answer else "bold red"),
        Text(view.ending, style="green" if result.stable else "yellow"),
        Text(),
    ]
    if view.clips:
        parts.append(_evidence(view.clips, pictures=_shows_colours(console)))
    if view.remark:
        parts.append(Text(view.remark, style="yellow"))
    parts.append(_facts(result, view.still_open))
    console.print(Panel(Group(*parts), title=Text(title, overflow="ellipsis", no_wrap=True), title_align="left"))


def show_clip(seen: EvidenceClip, *, console: Console) -> None:
    """Print one clip of the evidence: when it is, what was seen, and each of its frames."""
    console.print(Text.assemble((span_text(seen.span), "bold"), f"  {_size(seen)}"))
    for fact in seen.facts:
        console.print(Text(fact))
    if not _shows_colours(console):
        console.print(Text("frames at " + ", ".join(f"{frame.seconds:.2f} s" for frame in seen.frames)))
        return
    pictures = [
        Text.assemble((f"{frame.seconds:.2f} s", "dim"), "\n", draw_thumbnail(frame), "\n") for frame in seen.frames
    ]
    console.print(Columns(pictures, padding=(0, 2)))


def _evidence(clips: Sequence[EvidenceClip], *, pictures: bool) -> Table:
    """A row for each clip: its middle frame where the terminal can show it, its time, and what was seen there."""
    table = Table.grid(padding=(0, 2))
    for seen in clips:
        words = Text.assemble(("evidence  ", "dim"), (span_text(seen.span), "bold"), f"  {_size(seen)}")
        for fact in seen.facts:
            words.append(f"\n          {fact}")
        if pictures:
            middle = seen.frames[len(seen.frames) // 2] if seen.frames else None
            table.add_row(draw_thumbnail(middle).append("\n") if middle else Text(), words)
        else:
            table.add_row(words)
    return table


def _size(seen: EvidenceClip) -> str:
    if not seen.frames:
        return "no frames"
    count = len(seen.frames)
    return f"{count} frame{'' if count == 1 else 's'} of {seen.frames[0].picture.height} px"


def _facts(result: AskResult, still_open: tuple[str, ...]) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    if not result.bundle:
        facts.add_row("evidence", "none kept")
    for place, need in enumerate(still_open):
        facts.add_row("" if place else "still open", Text(need))
    usage, calls = result.log.usage, result.log.calls
    remembered = sum(len(call.timestamps) for call in calls if call.remembered)
    earlier = f", {remembered} of them shown for an earlier question" if remembered else ""
    facts.add_row("frames", f"{result.log.frames_supplied} supplied, {len(result.log.timestamps)} different{earlier}")
    if shown := max((call.subtitles or 0 for call in calls), default=0):
        facts.add_row("subtitles", f"up to {shown} lines shown as text beside the frames")
    facts.add_row("calls", f"{len(calls)} in {result.prediction.seconds:.1f} s with {result.prediction.backbone}")
    if usage.input_tokens or usage.output_tokens:
        facts.add_row(
            "tokens", f"{usage.input_tokens:,} in ({usage.cached_tokens:,} cached), {usage.output_tokens:,} out"
        )
    if faults := sum(call.fault is not None for call in calls):
        facts.add_row("faults", f"{faults} of {len(calls)} replies could not be used")
    return facts


def _shows_colours(console: Console) -> bool:
    return console.is_terminal and console.color_system in ("truecolor", "256") and console.width >= 80


def draw_thumbnail(frame: Frame, columns: int = THUMBNAIL_COLUMNS) -> Text:
    """A frame in half blocks: each character is two pixels, one above the other."""
    import numpy as np
    from PIL import Image

    rows = max(1, round(columns * frame.picture.height / frame.picture.width / 2))
    pixels = np.asarray(Image.fromarray(frame.rgb()).resize((columns, 2 * rows))).tolist()
    colours = [[f"rgb({','.join(map(str, pixel))})" for pixel in row] for row in pixels]
    lines = [
        Text.assemble(*((HALF_BLOCK, f"{upper} on {lower}") for upper, lower in zip(above, below, strict=True)))
        for above, below in zip(colours[::2], colours[1::2], strict=True)
    ]
    return Text("\n").join(lines)


def show_estimate(
    runs: Sequence[tuple[str, str]],
    durations: Sequence[float],
    prices: Prices,
    model_options: Mapping[str, Any],
    *,
    budget: int | None,
    as_json: bool,
) -> int:
    """Print what these methods and backbones will cost for questions about videos of these lengths."""
    from trace_ves.runs.estimate import estimate, estimate_table
    from trace_ves.ves.terminal import print_table

    click.echo("measuring the calls of each method in a simulation; nothing is sent", err=True)
    estimates = [
        estimate(method, spec, durations, prices.of(spec), budget=budget, model_options=model_options)
        for method, spec in runs
    ]
    if as_json:
        click.echo(json.dumps([each.to_json() for each in estimates], indent=2))
    else:
        console = Console()
        print_table(estimate_table(estimates), console if console.is_terminal else Console(width=120))
    return 0
