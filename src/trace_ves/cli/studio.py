"""`trace-ves studio`: a page to ask on: pick a video, type a question, watch the search, read its story."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.backbone_options import backbone_option, backbone_options
from trace_ves.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp

    from trace_ves.asking import AskResult
    from trace_ves.studio.studio import Studio
    from trace_ves.web.serve import Address


@click.command("studio", short_help="Ask questions about videos on a page, and watch the search.")
@click.argument("videos", metavar="VIDEOS...", nargs=-1, required=True, type=click.Path(path_type=Path))
@backbone_option
@click.option(
    "--method", default="trace", show_default=True, help="Chosen first on the page; any name that `ask` takes."
)
@click.option(
    "--budget", type=click.IntRange(1, 100_000), metavar="N", help="Frames for a question, unless the page says."
)
@backbone_options
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="DIR", help="Save every answer in a folder of its own."
)
@click.option("--port", default=8643, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def command(
    *,
    videos: tuple[Path, ...],
    backbone: str | None,
    method: str,
    budget: int | None,
    save: Path | None,
    port: int,
    no_browser: bool,
    **model_options: Any,
) -> None:
    """Ask about the videos in VIDEOS, files or folders, on a page of this machine alone.

    The page shows what a question will cost before anything is sent, the search while it goes on, and its story.
    Nothing is kept but what --save writes.
    """
    try:
        from trace_ves.studio.studio import Model, Studio
        from trace_ves.studio.videos import VideoFolders
        from trace_ves.web.serve import open_browser, serve_app
    except ModuleNotFoundError as error:
        known = {"fastapi", "starlette", "uvicorn", "jinja2"}
        raise (
            MissingExtraError("The studio", "web") if (error.name or "").partition(".")[0] in known else error
        ) from None
    from trace_ves.backbone.registry import default_spec, open_backbone
    from trace_ves.backbone.waiting import WaitingNotices
    from trace_ves.cost.prices import load_prices
    from trace_ves.methods import open_method

    found = VideoFolders(videos)
    if not found.find():
        raise InputError(f"{', '.join(map(str, videos))}: no video there; name a video file, or a folder with some.")
    open_method(method)
    if save is not None:
        _make(save)
    spec = backbone or default_spec()
    if spec.partition(":")[0] == "lab":
        raise InputError(
            "lab answers about twins that were never drawn, so there is no video to ask about; use glance."
        )
    model = Model(spec, open_backbone(spec, **model_options), model_options)

    def ready(address: Address) -> None:
        click.echo(address.url())
        click.echo("Ctrl-C ends it.", err=True)
        if not no_browser:
            open_browser(address.url())

    with tempfile.TemporaryDirectory(prefix="trace-ves-studio-") as folder, WaitingNotices() as waiting:
        studio = Studio(
            found,
            model,
            Path(folder),
            load_prices(),
            method=method,
            budget=budget,
            save=_saving(save) if save else None,
        )
        try:
            serve_app(_maker(studio, waiting.lines), host="127.0.0.1", port=port, ready=ready)
        finally:
            studio.close()


def _maker(studio: Studio, waiting: Callable[[], list[str]]) -> Callable[[Collection[str] | None, str | None], ASGIApp]:
    from trace_ves.studio.app import create_studio_app

    return lambda hosts, token: create_studio_app(studio, hosts=hosts, token=token, waiting=waiting)


def _saving(folder: Path) -> Callable[[AskResult, int], None]:
    """Saves each answer as `ask --save` does, in a folder that is not there yet."""
    from trace_ves.answers.saving import check_writable, save_result

    def save(result: AskResult, number: int) -> None:
        while (place := folder / f"answer-{number:03d}").exists():
            number += 1
        check_writable(place)
        save_result(result, place)

    return save


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be written to: {error.strerror}; name another folder for --save.") from None
