"""The videos of a folder and of those below it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from trace_ves.core import InputError, TraceVesError

VIDEO_SUFFIXES: Final = frozenset(
    ".3gp .asf .avi .flv .gif .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .mxf .ogm .ogv .ts .vob .webm .wmv".split()  # noqa: SIM905  a list would be a page
)
MOST_VIDEOS: Final = 10_000


def videos_in(folder: Path) -> list[tuple[Path, float]]:
    """The videos in a folder and below it, by name, with their durations; what cannot be read is named and left out."""
    from trace_ves import video as videos
    from trace_ves.cli.progress import LateProgress

    files: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(place, name) for name in names if Path(name).suffix.lower() in VIDEO_SUFFIXES and name[0] != "."]
    if len(files) > MOST_VIDEOS:
        raise InputError(f"{folder}: there are {len(files)} videos in this folder; at most {MOST_VIDEOS} can be asked.")
    found = []
    with LateProgress() as progress:
        for done, file in enumerate(sorted(files)):
            progress("opening videos", done, len(files))
            try:
                with videos.open(file) as opened:
                    found.append((file, opened.duration))
            except TraceVesError as error:
                click.echo(f"warning: left out: {error}", err=True)
    if not found:
        raise InputError(f"{folder}: there is no video in this folder that can be read.")
    return found
