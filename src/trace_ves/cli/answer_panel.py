"""A search on a terminal: its progress, and the answer with the clips that support it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from trace_ves.cli.progress import Display
from trace_ves.core import Frame, Termination
from trace_ves.core.display import count_words, describe_stage
from trace_ves.observer import UNLIMITED, CallAnswered, Progress, ReplyRejected, RoundStarted, StageStarted
from trace_ves.web.search_view import EvidenceClip, Found, SearchView, describe_event, span_text, view_answer

if TYPE_CHECKING:
    from trace_ves.runs.asking import AskResult

THUMBNAIL_COLUMNS: Final = 24
HALF_BLOCK: Final = "▀"
MOST_OTHERS: Final = 3  # clips shown that do not support the answer
LEAST_SECONDS: Final = 0.05  # stages that took less are not listed
_DECODING: Final = "decoding"


class SearchScreen(Display):
    """A listener for the observer: shows the round, the current stage and the budget."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self.rejected: list[ReplyRejected] = []  # replies that could not be used, in order
        self.seconds: dict[str, float] = {}  # elapsed time of each stage; time between calls is decoding
        self._stage, self._since = _DECODING, time.monotonic()
        self._round = ""
        self._renderable = self._spinner = Spinner("dots", Text("opening the video"))

    def __call__(self, progress: Progress) -> None:
        """Take one event of the observer."""
        event, now = progress.event, time.monotonic()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._since = now
        if isinstance(event, StageStarted | CallAnswered):
            self._stage = describe_stage(event.stage).title if isinstance(event, StageStarted) else _DECODING
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


def show_result(
    result: AskResult,
    *,
    console: Console | None = None,
    title: str = "answer",
    seconds: Mapping[str, float] | None = None,
    money: str = "",
) -> None:
    """Print the answer with its evidence; `seconds` is how long each stage took, `money` the cost."""
    console = console or Console()
    view = view_answer(result)
    colour = {Found.SETTLED: "green", Found.GUESS: "yellow"}.get(view.found, "red")
    parts: list[RenderableType] = [Text(view.answer, style="bold"), Text(view.ending, style=colour), Text()]
    label = "looked at" if result.termination is Termination.SINGLE_PASS else "evidence"
    rows = [(label, clip) for clip in view.clips] + [("also seen", clip) for clip in view.others[:MOST_OTHERS]]
    if rows:
        parts.append(_evidence(rows, pictures=_shows_colours(console)))
    if view.remark:
        parts.append(Text(view.remark, style="yellow"))
    parts.append(_facts(result, view, seconds or {}, money))
    console.print(Panel(Group(*parts), title=Text(title, overflow="ellipsis"), title_align="left"))


def show_clip(clip: EvidenceClip, *, console: Console) -> None:
    """Print one clip of the evidence: its span, what was seen, and its frames."""
    console.print(_heading(clip))
    for line in clip.caption:
        console.print(Text(line))
    if not _shows_colours(console):
        console.print(Text("frames at " + ", ".join(f"{frame.seconds:.2f} s" for frame in clip.frames)))
        return
    pictures = [
        Text.assemble((f"{frame.seconds:.2f} s", "dim"), "\n", _draw_thumbnail(frame), "\n") for frame in clip.frames
    ]
    console.print(Columns(pictures, padding=(0, 2)))


def _evidence(rows: Sequence[tuple[str, EvidenceClip]], *, pictures: bool) -> Table:
    """One row per clip: its middle frame if the terminal can show it, its span, and what was seen."""
    table = Table.grid(padding=(0, 2))
    for label, clip in rows:
        text = _heading(clip)
        for line in clip.caption:
            is_fact = line in clip.facts
            text.append(f"\n✓ {line}" if is_fact else f"\n{line}", "green" if is_fact else "")
        middle = clip.frames[len(clip.frames) // 2] if clip.frames and pictures else None
        picture = [_draw_thumbnail(middle).append("\n") if middle else Text()] if pictures else []
        table.add_row(*picture, Text(label, "dim"), text)
    return table


def _heading(clip: EvidenceClip) -> Text:
    frames = f"{count_words(len(clip.frames), 'frame')} of {clip.frames[0].picture.height} px" if clip.frames else ""
    return Text.assemble((span_text(clip.span), "bold"), f"  {frames}")


def _facts(result: AskResult, view: SearchView, seconds: Mapping[str, float], money: str) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", min_width=len("still open"))
    facts.add_column()
    if not view.clips:
        facts.add_row("evidence", "none: no clip supports the answer")
    captioned = {fact for clip in view.clips for fact in clip.facts}
    others = [fact for fact in view.settled if fact not in captioned]
    for label, claims in (("settled", others), ("still open", view.still_open)):
        for position, claim in enumerate(claims):
            facts.add_row("" if position else label, Text(claim))
    usage, calls = result.log.usage, result.log.calls
    remembered = sum(len(call.timestamps) for call in calls if call.remembered)
    earlier = f", {remembered} of them for an earlier question" if remembered else ""
    facts.add_row("frames", f"{result.log.frames_supplied} supplied, {len(result.log.timestamps)} different{earlier}")
    if lines := max((call.subtitles or 0 for call in calls), default=0):
        facts.add_row("subtitles", f"up to {count_words(lines, 'line')} sent as text with the frames")
    prediction = result.prediction
    facts.add_row("calls", f"{len(calls)} in {prediction.seconds:.1f} s with {prediction.backbone}")
    if longest := [(stage, spent) for stage, spent in seconds.items() if spent >= LEAST_SECONDS]:
        facts.add_row("seconds", ", ".join(f"{stage} {spent:.1f}" for stage, spent in longest))
    if usage.input_tokens or usage.output_tokens:
        facts.add_row(
            "tokens", f"{usage.input_tokens:,} in ({usage.cached_tokens:,} cached), {usage.output_tokens:,} out"
        )
        facts.add_row("cost", money)
    if faults := sum(call.fault is not None for call in calls):
        facts.add_row("faults", f"{faults} of {len(calls)} replies could not be used")
    return facts


def _shows_colours(console: Console) -> bool:
    return console.is_terminal and console.color_system in ("truecolor", "256") and console.width >= 80


def _draw_thumbnail(frame: Frame) -> Text:
    """Draw a frame with half blocks: each character shows two pixels, one above the other."""
    import numpy as np
    from PIL import Image

    rows = max(1, round(THUMBNAIL_COLUMNS * frame.picture.height / frame.picture.width / 2))
    pixels = np.asarray(Image.fromarray(frame.rgb()).resize((THUMBNAIL_COLUMNS, 2 * rows))).tolist()
    colours = [[f"rgb({','.join(map(str, pixel))})" for pixel in row] for row in pixels]
    lines = [
        Text.assemble(*((HALF_BLOCK, f"{upper} on {lower}") for upper, lower in zip(above, below, strict=True)))
        for above, below in zip(colours[::2], colours[1::2], strict=True)
    ]
    return Text("\n").join(lines)
