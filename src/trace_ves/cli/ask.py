"""`trace-ves ask`: one question about one video, watched live, with the clips that the answer rests on."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trace_ves.cli.backbone_options import backbone_options, subtitles_option, transcripts_option
from trace_ves.cli.estimate_screen import show_estimate
from trace_ves.cli.video_argument import VideoArgument, fetch_options, local_video
from trace_ves.core.outputs import refuse_inputs
from trace_ves.core.simulation import simulation_notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.asking import AskResult
    from trace_ves.fetching import FetchRules
    from trace_ves.observer import ReplyRejected

SAMPLE_LENGTH: Final = 200


@click.command("ask", short_help="Ask a question about a video.")
@click.argument("video", type=VideoArgument())
@click.argument("question")
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="TEXT",
    help="One option; repeat for each. None: answer in words.",
)
@click.option(
    "--backbone",
    metavar="SPEC",
    help="For example gemini:MODEL, openai:MODEL@http://host:port/v1, anthropic:MODEL.  "
    "[default: the first provider whose key is set]",
)
@click.option(
    "--method", default="trace", show_default=True, help="For example trace, uniform-64, avp, package.module:callable."
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    metavar="N",
    help="Frames that may be supplied over all calls.  [default: 112 for trace; others as their definition says]",
)
@backbone_options
@fetch_options
@subtitles_option
@click.option("--estimate", "estimate_only", is_flag=True, help="Print what the answer will cost, and send nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON, and nothing else.")
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="DIR", help="Save the answer: clips, frames, page, record."
)
@transcripts_option
@click.option("--overwrite", is_flag=True, help="Replace an answer that --save finds in DIR.")
@click.option("--view", is_flag=True, help="Open the story of the answer in the browser.")
def command(
    *,
    video: Path | str,
    question: str,
    options: tuple[str, ...],
    backbone: str | None,
    method: str,
    budget: int | None,
    fetch_rules: FetchRules,
    subtitles: bool,
    estimate_only: bool,
    as_json: bool,
    save: Path | None,
    transcripts: bool,
    overwrite: bool,
    view: bool,
    **model_options: Any,
) -> int:
    """Ask QUESTION about VIDEO, a file or an http(s) address. A dash for QUESTION reads it from standard input.

    The exit status is 1 where most replies of the model could not be used, so that the answer rests on little.
    """
    from trace_ves.asking import ask
    from trace_ves.backbone.registry import default_spec, open_backbone
    from trace_ves.cli.answer_panel import show_result
    from trace_ves.cli.ask_folder import check_writable, replaced_files, save_result
    from trace_ves.cli.ask_screen import AskScreen
    from trace_ves.cli.progress import LateProgress

    words = sys.stdin.read() if question == "-" else question
    _check_question(str(video), words, options, method)
    video = local_video(video, fetch_rules, quiet=as_json)
    _check_video(video, spec=backbone or "")
    spec = backbone or default_spec()
    if estimate_only:
        from trace_ves import video as videos
        from trace_ves.cost.prices import load_prices

        with videos.open(video) as opened:
            durations = [opened.duration]
        return show_estimate([(method, spec)], durations, load_prices(), model_options, budget=budget, as_json=as_json)
    if save is not None:
        refuse_inputs(replaced_files(save), inputs=[video])
        check_writable(save, overwrite=overwrite)
    if spec.partition(":")[0] == "glance" and not as_json:
        from trace_ves.backbone.glance import NOTICE

        click.echo(NOTICE, err=True)
    if (simulated := simulation_notes([spec])) and not as_json:
        click.echo(simulated, err=True)
    with AskScreen(quiet=as_json) as screen:
        model = open_backbone(spec, **model_options)
        result = ask(
            video,
            words,
            options,
            backbone=model,
            method=method,
            budget=budget,
            listener=screen,
            subtitles=subtitles,
        )
    if not transcripts:
        result = replace(result, transcript=None)
    if as_json:
        click.echo(json.dumps(as_record(result), ensure_ascii=False))
    else:
        show_result(result)
    warning = unusable_replies(result, screen.rejected)
    if warning:
        click.echo(f"warning: {warning}", err=True)
    if save is not None:  # after printing: an answer that was paid for is not lost to a full disk
        with LateProgress() as progress:
            save_result(result, save, on_progress=lambda done, total: progress("saving", done, total))
        click.echo(f"saved in {save}", err=True)
    if view:
        from trace_ves.cli.view import view_answer

        view_answer(result)
    return int(warning is not None)


def _check_question(video: str, words: str, options: tuple[str, ...], method: str) -> None:
    """Say what is wrong with the question or the method before a video is fetched."""
    from trace_ves.asking import make_question
    from trace_ves.methods import open_method

    make_question(video, words, options)
    open_method(method)


def _check_video(video: Path, *, spec: str) -> None:
    """Say what is wrong with the file before anything is said about models."""
    if spec.partition(":")[0] == "lab":  # it answers about twins that were never drawn
        return
    from trace_ves import video as videos

    videos.open(video).close()


def unusable_replies(result: AskResult, rejected: Sequence[ReplyRejected]) -> str | None:
    """What to tell a person if most replies of the model could not be used, with a sample; else None."""
    calls = len(result.log.calls)
    if 2 * len(rejected) <= calls:
        return None
    first = rejected[0]
    said = " ".join(first.raw.split())
    cut = said if len(said) <= SAMPLE_LENGTH else f"{said[:SAMPLE_LENGTH]}…"
    sample = f'It said: "{cut}".' if cut else "It said nothing."
    return (
        f"{len(rejected)} of {calls} replies of {result.prediction.backbone} could not be used, so the answer rests "
        f"on little. The first, of the stage {first.stage}: {first.reason} "
        f"{sample} Try a larger model, a server that enforces JSON schemas, or "
        "--method uniform-16, which asks one simple question."
    )


def as_record(result: AskResult) -> dict[str, object]:
    """The question, its answer in words, and the line of a run file."""
    from trace_ves.records.saved_answer import SavedAnswer

    saved = SavedAnswer.of(result.question, result.duration, result.prediction, text=result.text, stable=result.stable)
    return saved.to_json()
