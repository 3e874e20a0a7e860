"""A video on the command line: a file, or an address that is fetched into the cache first."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trace_ves.cli.options import FiniteRange
from trace_ves.core import InputError, TraceVesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.video.download import FetchRules

F = TypeVar("F", bound="Callable[..., Any]")


class VideoArgument(click.Path):
    """A path becomes a `Path`; an address stays a string, since a path would fold its slashes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path or the address."""
        from trace_ves.video.download import is_address

        return value if isinstance(value, str) and is_address(value) else super().convert(value, param, ctx)


_OPTIONS = (
    click.option("--allow-private", is_flag=True, help="Fetch also from this machine and from private networks."),
    click.option(
        "--max-download-gb",
        type=FiniteRange(min=0, min_open=True),
        default=8.0,
        show_default=True,
        help="Refuse to fetch a larger video.",
    ),
)


def fetch_options(command: F) -> F:
    """Adds what a person may say about fetching; the command gets it as `fetch_rules`."""

    @wraps(command)
    def with_rules(*, allow_private: bool, max_download_gb: float, **others: Any) -> Any:
        from trace_ves.video.download import GIGABYTE, FetchRules

        rules = FetchRules(allow_private=allow_private, most_bytes=int(max_download_gb * GIGABYTE))
        return command(fetch_rules=rules, **others)

    wrapped: Any = with_rules
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def local_video(video: Path | str, rules: FetchRules, *, quiet: bool = False) -> Path:
    """The file: the one that was named, or the one that an address leads to."""
    if isinstance(video, Path):
        return video
    from trace_ves.cli.progress import LateProgress
    from trace_ves.video.download import size_words
    from trace_ves.video.fetching import fetch_video

    with LateProgress() as progress:
        fetched = fetch_video(video, rules=rules, on_progress=lambda done, total: progress("fetching", done, total))
    if fetched.warning is not None:
        click.echo(f"warning: {fetched.warning}.", err=True)
    if not quiet:
        click.echo(f"{fetched.path.name}: {size_words(fetched.bytes)}, sha256 {fetched.sha256}", err=True)
    return fetched.path


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
