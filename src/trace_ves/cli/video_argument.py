"""A video on the command line: a file, or an address that is fetched into the cache first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trace_ves.cli.options import FiniteRange

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


def fetch_options(command: F) -> F:
    """Add the options of fetching; the command gets them as `fetch_rules`."""

    @click.option("--allow-private", is_flag=True, help="Also fetch from this machine and private networks.")
    @click.option(
        "--max-download-gb",
        type=FiniteRange(min=0, min_open=True),
        default=8.0,
        show_default=True,
        help="Refuse to fetch a larger video.",
    )
    @wraps(command)
    def with_rules(*, allow_private: bool, max_download_gb: float, **others: Any) -> Any:
        from trace_ves.video.download import GIGABYTE, FetchRules

        rules = FetchRules(allow_private=allow_private, most_bytes=int(max_download_gb * GIGABYTE))
        return command(fetch_rules=rules, **others)

    return with_rules  # type: ignore[return-value]


def local_video(video: Path | str, rules: FetchRules, *, quiet: bool = False) -> Path:
    """The file: the one that was named, or the one that an address leads to."""
    if isinstance(video, Path):
        return video
    from trace_ves.cli.progress import LateProgress
    from trace_ves.video.download import size_words
    from trace_ves.video.fetching import fetch_video

    with LateProgress() as progress:
        fetched = fetch_video(video, rules=rules, on_progress=partial(progress, "fetching"))
    if fetched.warning is not None:
        click.echo(f"warning: {fetched.warning}.", err=True)
    if not quiet:
        click.echo(f"{fetched.path.name}: {size_words(fetched.bytes)}, sha256 {fetched.sha256}", err=True)
    return fetched.path


@dataclass(frozen=True, slots=True)
class Sample:
    """The film and the question that come with the package, and the recorded replies of a model that looked at it."""

    folder: Path = Path(__file__).parents[1] / "sample"

    @property
    def film(self) -> Path:
        """The film; LICENSE.md beside it names its sources."""
        return self.folder / "film.mp4"

    @property
    def spec(self) -> str:
        """The backbone that gives the recorded replies."""
        return f"replay:{self.folder / 'recording.jsonl'}"

    def question(self) -> tuple[str, tuple[str, ...]]:
        """The question and its options."""
        from trace_ves.benches import load_bench

        asked = load_bench(self.folder).items[0].question
        return asked.text, asked.options
