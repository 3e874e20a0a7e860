"""`trace-ves videos`: which videos a bench needs, which are there, and whether those are the right ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.benchmarks import Bench
    from trace_ves.benchmarks.manifest import NeededVideo
    from trace_ves.records import Item

    Progress = Callable[[str, int, int], None]


@click.command()
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("--missing", is_flag=True, help="List only what is missing or has a problem.")
@click.option("--check", is_flag=True, help="Open every video that is there, and compare its duration with the bench.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each video.")
def command(*, bench: Path, missing: bool, check: bool, as_json: bool) -> None:
    """List the videos that BENCH needs, and say which of them are there.

    Nothing is fetched. A line has the state, the place from the folder of the bench, how many questions are about it,
    its duration, and the address that the bench has for it.
    """
    from trace_ves.benchmarks import load_bench
    from trace_ves.benchmarks.manifest import manifest, summary
    from trace_ves.cli.progress import LateProgress
    from trace_ves.core.jsonl import dump_line

    loaded = load_bench(bench)
    folder = loaded.path.parent if loaded.path else Path()
    videos = manifest(loaded.items, folder)
    if check:
        with LateProgress() as progress:
            videos = checked(videos, loaded, folder, progress)
    for video in videos:
        if missing and video.there and video.problem is None:
            continue
        click.echo(dump_line(video.to_json()) if as_json else line(video), nl=not as_json)
    click.echo(f"{loaded.path}: {summary(videos)}", err=as_json)


def line(video: NeededVideo) -> str:
    """One video as a person reads it."""
    from trace_ves.report.terminal import printable

    state = video.problem or ("there" if video.there else "missing")
    seconds = "" if video.duration is None else f"{video.duration:g} s"
    questions = f"{video.questions} question{'' if video.questions == 1 else 's'}"
    return printable("  ".join(word for word in (state, video.video, questions, seconds, video.url) if word))


def checked(videos: list[NeededVideo], bench: Bench, folder: Path, progress: Progress) -> list[NeededVideo]:
    """The same videos, with what is wrong with those that are there."""
    first = {item.question.video: item for item in reversed(bench.items)}
    found = []
    for number, video in enumerate(videos, start=1):
        found.append(replace(video, problem=_problem(first[video.video], folder)) if video.there else video)
        progress("opening videos", number, len(videos))
    return found


def _problem(item: Item, folder: Path) -> str | None:
    from trace_ves.core.errors import MissingExtraError, TraceVesError
    from trace_ves.running.durations import is_duration
    from trace_ves.video import open as open_video

    try:
        with open_video(folder / item.question.video) as video:
            seconds = video.duration
    except MissingExtraError:
        raise
    except TraceVesError:
        return "cannot be read as a video"
    return None if is_duration(item, seconds) else f"has {seconds:.1f} s, and the bench says {item.duration:g} s"
