"""Commands that serve something: the pages of `view` and `studio`, and `mcp` for assistants."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.ask import SAMPLE_FILM, SAMPLE_SPEC, sample_question
from trace_ves.cli.options import (
    backbone_option,
    backbone_options,
    count_type,
    no_browser_option,
    path_type,
    port_type,
    prices_option,
    requires_extra,
    session_cost_option,
)
from trace_ves.core.errors import InputError
from trace_ves.core.files import refuse_inputs

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.runs.asking import AskResult
    from trace_ves.web.library import Library


@click.command("view")
@click.argument("folder", metavar="DIR", type=path_type)
@click.option("--bench", type=path_type, help="The bench of these runs. Default: the one they name.")
@click.option("--videos", type=path_type, help="The folder of the videos. Default: the bench's.")
@click.option("--host", default="127.0.0.1", help="Address to listen on; visitors need the printed link.")
@click.option("--port", default=8642, type=port_type, help="0 picks a free port.")
@click.option("--export", "file", type=path_type, metavar="FILE.html", help="Write one question as a page.")
@click.option("--question", metavar="ID", help="The question for --export.")
@click.option("--run", "run_name", metavar="NAME", help="The run for --export; not needed if there is only one.")
@no_browser_option
@requires_extra("The page", "web")
def view_command(
    *,
    folder: Path,
    bench: Path | None,
    videos: Path | None,
    host: str,
    port: int,
    file: Path | None,
    question: str | None,
    run_name: str | None,
    no_browser: bool,
) -> None:
    """See what the methods of the run files in DIR looked at, and why they stopped.

    DIR holds run files, as `trace-ves run --out DIR` writes them, or one answer of `trace-ves ask --save DIR`.
    """
    if file is None and (question is not None or run_name is not None):
        raise click.UsageError("--question and --run select what --export writes; add --export FILE.html.")
    if videos is not None and not videos.is_dir():
        raise InputError(f"{videos}: no such folder; give the folder of the videos with --videos.")
    if file is not None:  # an export may replace an earlier export, but not a file that it is made from
        inputs = [path for path in folder.iterdir() if path.suffix != ".html"] if folder.is_dir() else [folder]
        refuse_inputs([file], inputs=[*inputs, *([bench, bench / "questions.jsonl"] if bench else [])])
        if file.suffix.lower() not in {".html", ".htm"} and (file.is_file() or not file.exists()):
            raise InputError(f"{file}: --export writes an HTML page; give a name that ends with .html.")
    with _open_runs(folder, bench, videos) as library:
        if file is not None:
            refuse_inputs([file], inputs=map(library.video_of, library.questions.values()))
            _export(library, file, question, run_name)
            return
        question_id = next(iter(library.questions)) if len(library.questions) == 1 and not bench else ""
        page = folder / "story.html"
        if question_id and page.is_file() and library.video_of(library.questions[question_id]) is None:
            click.echo(page.resolve().as_uri())  # the page of `ask --save` holds frames, and the video is not here
            if not no_browser:
                webbrowser.open(page.resolve().as_uri())
        else:
            serve_library(library, host=host, port=port, browser=not no_browser, question=question_id)


@contextmanager
def _open_runs(folder: Path, bench: Path | None, videos: Path | None) -> Iterator[Library]:
    from trace_ves.web.open_library import is_saved_answer, library_of_answer, open_library, read_saved_answer

    if is_saved_answer(folder):
        from trace_ves.records.transcript import read_saved_transcript

        with tempfile.TemporaryDirectory() as scratch:
            transcript = read_saved_transcript(folder)
            saved = (*read_saved_answer(folder), Path(scratch))
            yield library_of_answer(*saved, videos=videos or folder, transcript=transcript)
    else:
        from trace_ves.cli.progress import LateProgress

        with LateProgress() as progress:
            library = open_library(folder, bench=bench, videos=videos, on_progress=progress)
            library.audit(on_progress=progress)  # so that the first page does not wait for it
        yield library


def announce(url: str, *, browser: bool, err: bool = False) -> None:
    """Print where a page is served, and open it in the browser."""
    click.echo(url, err=err)
    click.echo("Press Ctrl-C to stop.", err=True)
    if browser:
        webbrowser.open(url)


def serve_library(library: Library, *, host: str, port: int, browser: bool, question: str = "") -> None:
    """Serve a library until interrupted, and print the address of its start page, or of the page of `question`."""
    from trace_ves.web.app import create_app
    from trace_ves.web.serve import Address, serve_app

    def ready(address: Address) -> None:
        url = address.url("/question", run=next(iter(library.runs)), id=question) if question else address.url()
        announce(url, browser=browser, err=bool(question))  # standard output belongs to `ask --json`

    serve_app(lambda hosts, token: create_app(library, hosts=hosts, token=token), host=host, port=port, ready=ready)


@requires_extra("The page", "web")
def view_answer(result: AskResult) -> None:
    """Serve the page of one answer until interrupted."""
    from trace_ves.web.saving import answer_library

    with answer_library(result) as library:
        serve_library(library, host="127.0.0.1", port=0, browser=True, question=next(iter(library.questions)))


def _export(library: Library, file: Path, question: str | None, run_name: str | None) -> None:
    from trace_ves.core.display import size_words
    from trace_ves.web.export import write_story

    if question is None:
        if len(library.questions) != 1:
            raise click.UsageError("--export writes one question: give --question ID.")
        question = next(iter(library.questions))
    if run_name is None:
        if len(library.runs) != 1:
            names = ", ".join(library.runs)
            raise InputError(f"there are {len(library.runs)} runs; say which one with --run: {names}.")
        run_name = next(iter(library.runs))
    frames, size = write_story(library, run_name, question, file)
    click.echo(f"{file}: {frames} frames, {size_words(size)}")


@click.command("studio")
@click.argument("videos", metavar="[VIDEOS]...", nargs=-1, type=path_type)
@click.option("--sample", is_flag=True, help="Offer the sample film and its question, with recorded replies.")
@backbone_option
@click.option("--method", default="trace", help="Method selected at first; any that `ask` accepts.")
@click.option(
    "--budget", type=click.IntRange(1, 100_000), metavar="N", help="Frames per question, unless set on the page."
)
@session_cost_option
@backbone_options
@click.option("--save", type=path_type, metavar="DIR", help="Save every answer in its own folder.")
@click.option("--port", default=8643, type=port_type, help="0 picks a free port.")
@no_browser_option
def studio_command(
    *,
    videos: tuple[Path, ...],
    sample: bool,
    backbone: str | None,
    method: str,
    budget: int | None,
    max_cost: float,
    save: Path | None,
    port: int,
    no_browser: bool,
    **model_options: Any,
) -> None:
    """Ask about videos on a page that only this machine can open. VIDEOS are files or folders to start with.

    Drop more videos on the page, or paste an address. It shows what a question will cost, the search while it runs,
    and the clips that support the answer. Nothing is saved without --save.
    """
    with requires_extra("The studio", "web"):
        from trace_ves.web.serve import serve_app
        from trace_ves.web.studio import Model, SampleQuestion, Studio
        from trace_ves.web.studio_app import create_studio_app
    from trace_ves.backbone.registry import default_spec, open_backbone
    from trace_ves.backbone.retry import WaitingNotices
    from trace_ves.runs.methods import open_method
    from trace_ves.runs.prices import load_prices
    from trace_ves.video import open as open_video
    from trace_ves.video.folders import VideoFolders
    from trace_ves.web.saving import make_folder

    sample_questions: list[SampleQuestion] = []
    if sample:
        sample_questions = [SampleQuestion(*sample_question(), SAMPLE_FILM.name)]
        videos, backbone = (*videos, SAMPLE_FILM), backbone or SAMPLE_SPEC
    folders = VideoFolders(videos)
    for path in videos:
        if not path.is_dir():
            with open_video(path):  # fails now if it is not a video
                pass
        elif not VideoFolders([path]).names(1):
            raise InputError(f"{path}: there is no video in this folder.")
    open_method(method)
    if save is not None:
        refuse_inputs([save], inputs=videos)
        make_folder(save)
    spec = backbone or default_spec()
    if spec.partition(":")[0] == "lab":
        raise InputError("the videos of lab are simulated, so there is nothing to show; use glance.")
    model = Model(spec, open_backbone(spec, **model_options), model_options)

    with tempfile.TemporaryDirectory(prefix="trace-ves-studio-") as folder, WaitingNotices() as waiting:
        studio = Studio(
            folders,
            model,
            Path(folder),
            load_prices(),
            method=method,
            budget=budget,
            save=save,
            max_cost=max_cost,
            samples=sample_questions,
        )
        try:
            serve_app(
                lambda hosts, token: create_studio_app(studio, hosts=hosts, token=token, waiting=waiting.lines),
                host="127.0.0.1",
                port=port,
                ready=lambda address: announce(address.url(), browser=not no_browser),
            )
        finally:
            studio.close()


@click.command("mcp")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=path_type)
@click.option("--backbone", "spec", metavar="SPEC", help="The model for `ask`. Default: the first with a key.")
@click.option("--method", default="trace", help="The method that answers questions.")
@click.option("--budget", type=count_type, help="Frames per question. Default: the method's own.")
@session_cost_option
@prices_option
def mcp_command(
    *,
    folders: tuple[Path, ...],
    spec: str | None,
    method: str,
    budget: int | None,
    max_cost: float,
    price_file: Path | None,
) -> None:
    """Let an assistant look at the videos in each FOLDER and ask questions about them.

    The assistant starts this command itself: see docs/integrations.md. It opens nothing outside the folders, links
    included, and writes nothing.
    """
    with requires_extra("trace-ves mcp", "video,mcp"):
        from trace_ves.integrations.mcp import VideoServer
    from trace_ves.runs.cost import CostLimit, LimitedBackbone
    from trace_ves.runs.methods import open_method
    from trace_ves.runs.prices import load_prices
    from trace_ves.video.folders import VideoFolders

    open_method(method)  # fails now for a misspelt name
    prices = load_prices(price_file)

    def open_model() -> Backbone:
        from trace_ves.backbone.registry import OPENED_UNASKED, default_spec, open_backbone

        backbone = open_backbone(spec or default_spec())
        limit = CostLimit(max_cost, prices)
        if backbone.name.partition(":")[0] in OPENED_UNASKED and "@" not in backbone.name:
            limit.check([backbone.name])  # a model on your own machine may have no price
        return LimitedBackbone(backbone, limit)

    server = VideoServer(VideoFolders(folders), open_model, method=method, budget=budget, max_cost=max_cost)
    server.run("stdio")
