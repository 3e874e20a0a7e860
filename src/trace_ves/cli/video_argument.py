"""A video on the command line: a file, or an address that is fetched into the cache first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.options import gather_options, positive_type
from trace_ves.cli.process import warn

if TYPE_CHECKING:
    from trace_ves.video.download import FetchRules


class VideoArgument(click.Path):
    """A path becomes a `Path`; an address stays a string, because a path would merge its slashes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path or the address."""
        from trace_ves.video.download import is_address

        return value if isinstance(value, str) and is_address(value) else super().convert(value, param, ctx)


def _fetch_rules(allow_private: bool, max_download_gb: float) -> FetchRules:
    from trace_ves.video.download import GIGABYTE, FetchRules

    return FetchRules(allow_private=allow_private, most_bytes=int(max_download_gb * GIGABYTE))


fetch_options = gather_options(
    "fetch_rules",
    _fetch_rules,
    click.option("--allow-private", is_flag=True, help="Also fetch from this machine and private networks."),
    click.option("--max-download-gb", type=positive_type, default=8.0, help="Refuse to fetch a larger video."),
)
"""The options of fetching; the command gets them as `fetch_rules`."""


def local_video(video: Path | str, rules: FetchRules, *, quiet: bool = False) -> Path:
    """The named file, or the file fetched from an address."""
    if isinstance(video, Path):
        return video
    from trace_ves.cli.progress import LateProgress
    from trace_ves.video.download import size_words
    from trace_ves.video.fetching import fetch_video

    with LateProgress() as progress:
        fetched = fetch_video(video, rules=rules, on_progress=partial(progress, "fetching"))
    warn(fetched.warning)
    if not quiet:
        click.echo(f"{fetched.path.name}: {size_words(fetched.bytes)}, sha256 {fetched.sha256}", err=True)
    return fetched.path


@dataclass(frozen=True, slots=True)
class Sample:
    """The film and question that ship with the package, and recorded replies of a model."""

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
