"""`trace-ves frames`: the very pictures that a line of a run names, or those of a video at given moments."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.cli.video_argument import VideoArgument, fetch_options, local_video

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.fetching import FetchRules


def _seconds(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[float, ...]:
    """Moments as seconds, or minutes and seconds, or hours, minutes and seconds: 75.5, 1:15.5, 0:01:15.5."""
    return tuple(_moment(value) for value in values)


def _moment(value: str) -> float:
    if not re.fullmatch(r"(\d+:)?(\d+:)?\d+(\.\d+)?", value, re.ASCII):
        raise click.BadParameter(f"{value!r} is no time; give seconds, M:SS or H:MM:SS, such as 75.5 or 1:15.5.")
    seconds = 0.0
    for part in value.split(":"):
        seconds = 60 * seconds + float(part)
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{value[:20]}… is too large.")
    return seconds


@click.command(options_metavar="[OPTIONS]")
@click.argument("source", metavar="RUN|VIDEO", type=VideoArgument())
@click.argument("rest", metavar="[QUESTION] OUT", nargs=-1, required=True)
@click.option("--bench", type=click.Path(path_type=Path), help="The bench; by default the one the run was made on.")
@click.option(
    "--at", "moments", callback=_seconds, multiple=True, help="A moment of a video, as 75.5 or 1:15.5; repeatable."
)
@click.option("--height", type=click.IntRange(min=1), help="Rows of the pictures at most; with --at.")
@fetch_options
def command(
    *,
    source: Path | str,
    rest: tuple[str, ...],
    bench: Path | None,
    moments: tuple[float, ...],
    height: int | None,
    fetch_rules: FetchRules,
) -> None:
    """Write the frames that RUN looked at for QUESTION to the folder OUT, from the source video.

    A video whose checksum is not the one that the run noted is refused. With --at, write the frames of VIDEO that are
    on screen at these moments; no run is needed, and VIDEO may be an http(s) address.
    """
    if moments:
        if len(rest) != 1 or bench is not None:
            raise click.UsageError("with --at, give a video and a folder: trace-ves frames VIDEO --at 12.5 OUT")
        _write_moments(local_video(source, fetch_rules), moments, height, Path(rest[0]))
        return
    if not isinstance(source, Path):
        raise click.UsageError("an address is fetched with --at SECONDS alone; a run is a file")
    if len(rest) != 2:
        raise click.UsageError("give a run, a question and a folder; or a video and a folder, with --at SECONDS")
    if height is not None:
        raise click.UsageError("--height goes with --at; the frames of a run have the heights that it noted")
    _write_question(source, rest[0], bench, Path(rest[1]))


def _write_question(run_file: Path, question: str, bench: Path | None, out: Path) -> None:
    from trace_ves.benchmarks import load_bench
    from trace_ves.core.errors import InputError
    from trace_ves.running.logged_frames import bench_of, prediction_of, write_frames
    from trace_ves.ves import load_run

    prediction = prediction_of(load_run(run_file), question)
    loaded = load_bench(bench or bench_of(run_file))
    item = next((item for item in loaded.items if item.question.id == question), None)
    if item is None or loaded.path is None:
        raise InputError(f"{loaded.path}: no question {question!r} in this bench.")
    written = write_frames(prediction, loaded.path.parent / item.question.video, out)
    source = f"{written.calls} calls" if written.calls else "the run's timestamps"
    click.echo(f"{written.pictures} pictures of {source} are in {written.folder}; frames.csv names each.")
    if not written.checked:
        click.echo("warning: the run noted no checksum, so this may be another video.", err=True)
    _warn(written.warnings)


def _write_moments(path: Path, moments: Sequence[float], height: int | None, out: Path) -> None:
    from trace_ves import video
    from trace_ves.running.logged_frames import empty_folder, write_moments

    with video.open(path) as opened:
        for asked, name in zip(moments, write_moments(opened, moments, height, empty_folder(out)), strict=True):
            click.echo(f"{asked:g} s: {out / name}")
        _warn(opened.warnings)


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}.", err=True)
