"""The answer on a terminal: what it is, why the search stopped, what each clip shows, what it cost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from trace_ves.web.search_view import answer_words, clock_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from trace_ves.core import Clip
    from trace_ves.runs.asking import AskResult
    from trace_ves.runs.prices import Prices
    from trace_ves.web.search_view import SeenClip

THUMBNAIL_COLUMNS: Final = 24
HALF_BLOCK: Final = "▀"


def show_result(result: AskResult, *, console: Console | None = None, title: str = "answer") -> None:
    """Print the answer with all that a person needs to judge it."""
    console = console or Console()
    words = answer_words(result)
    letter = "" if result.question.is_open or result.answer is None else f"{result.answer}.  "
    answer = Text(letter + (result.text or "no answer"), style="bold" if result.answer else "bold red")
    parts: list[RenderableType] = [answer, Text(words.ending, style="green" if result.stable else "yellow"), Text()]
    if words.clips:
        parts.append(_evidence(words.clips, pictures=_shows_colours(console)))
    if words.remark:
        parts.append(Text(words.remark, style="yellow"))
    parts.append(_facts(result, words.still_open))
    console.print(Panel(Group(*parts), title=Text(title, overflow="ellipsis", no_wrap=True), title_align="left"))


def show_clip(seen: SeenClip, *, console: Console) -> None:
    """Print one clip of the evidence: when it is, what was seen, and each of its frames."""
    clip = seen.clip
    console.print(
        Text.assemble((f"{clock_words(clip.span.start)} - {clock_words(clip.span.end)}", "bold"), f"  {_size(clip)}")
    )
    for fact in seen.facts:
        console.print(Text(fact))
    if not _shows_colours(console):
        console.print(Text("frames at " + ", ".join(f"{frame.seconds:.2f} s" for frame in clip.frames)))
        return
    row: list[Text] = []
    for frame in clip.frames:
        picture = thumbnail(replace(clip, frames=(frame,)))
        row.append(Text.assemble((f"{frame.seconds:.2f} s", "dim"), "\n", picture, "\n"))
    console.print(Columns(row, padding=(0, 2)))


def _evidence(clips: Sequence[SeenClip], *, pictures: bool) -> Table:
    """A row for each clip: its middle frame where the terminal can show it, its time, and what was seen there."""
    table = Table.grid(padding=(0, 2))
    for seen in clips:
        clip = seen.clip
        time = f"{clock_words(clip.span.start)} - {clock_words(clip.span.end)}"
        told = Text.assemble(("evidence  ", "dim"), (time, "bold"), f"  {_size(clip)}")
        for fact in seen.facts:
            told.append(f"\n          {fact}")
        table.add_row(*([thumbnail(clip).append("\n")] if pictures else []), told)
    return table


def _size(clip: Clip) -> str:
    if not clip.frames:
        return "no frames"
    count = len(clip.frames)
    return f"{count} frame{'' if count == 1 else 's'} of {clip.frames[0].picture.height} px"


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


def thumbnail(clip: Clip, columns: int = THUMBNAIL_COLUMNS) -> Text:
    """The middle frame of a clip in half blocks: each character is two pixels, one above the other."""
    from PIL import Image

    if not clip.frames:
        return Text()
    frame = clip.frames[len(clip.frames) // 2]
    rows = max(1, round(columns * frame.picture.height / frame.picture.width / 2))
    pixels = Image.fromarray(frame.rgb()).resize((columns, 2 * rows)).load()
    assert pixels is not None  # noqa: S101  an image in memory has pixels
    picture = Text()
    for row in range(rows):
        for column in range(columns):
            upper, lower = pixels[column, 2 * row], pixels[column, 2 * row + 1]
            picture.append(HALF_BLOCK, style=f"rgb{_rgb(upper)} on rgb{_rgb(lower)}")
        picture.append("\n" if row < rows - 1 else "")
    return picture


def _rgb(pixel: object) -> str:
    return str(pixel).replace(" ", "")


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
    from rich.console import Console

    from trace_ves.backbone.registry import detail_of
    from trace_ves.runs.estimate import estimate, estimate_table
    from trace_ves.ves.terminal import print_table

    click.echo("measuring the calls of each method in a simulation; nothing is sent", err=True)
    flex = model_options["service_tier"] != "standard"
    found = [
        estimate(
            method,
            spec,
            durations,
            prices.of(spec),
            budget=budget,
            detail=detail_of(spec, model_options["detail"]),
            flex=flex,
        )
        for method, spec in runs
    ]
    if as_json:
        click.echo(json.dumps([each.to_json() for each in found], indent=2))
    else:
        console = Console()
        print_table(estimate_table(found), console if console.is_terminal else Console(width=120))
    return 0
