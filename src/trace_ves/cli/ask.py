"""`trace-ves ask` with one question about a video. For sessions see `ask_session`, for many questions `ask_many`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trace_ves.cli.options import (
    COST_REACHED,
    CostOptions,
    backbone_option,
    backbone_options,
    cost_options,
    count_type,
    fetch_options,
    file_type,
    local_video,
    path_type,
    subtitles_option,
    transcripts_option,
    video_type,
)
from trace_ves.cli.process import read_text, warn
from trace_ves.core.display import GLANCE_NOTICE, simulation_notes
from trace_ves.core.files import refuse_inputs
from trace_ves.core.question import LETTERS

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.core import Question
    from trace_ves.observer import ReplyRejected
    from trace_ves.records import Prediction
    from trace_ves.runs.asking import AskResult, AskSession
    from trace_ves.runs.cost import RunCost
    from trace_ves.video.download import FetchRules

_SAMPLE: Final = Path(__file__).parents[1] / "sample"
SAMPLE_FILM: Final = _SAMPLE / "film.mp4"  # LICENSE.md beside it names its sources
SAMPLE_SPEC: Final = f"replay:{_SAMPLE / 'recording.jsonl'}"  # recorded replies of a model
SAMPLE_CREDITS: Final = "Film: Big Buck Bunny (Blender Foundation, CC BY 3.0), Intel's sample videos (CC BY 4.0)."
NOT_FOUND: Final = 4  # the exit status if the video does not show what the question asks for
EXCERPT_LENGTH: Final = 200  # characters quoted of a reply that could not be used


@dataclass(frozen=True)
class AskOptions:
    """The options of the command."""

    method: str
    backbone: str | None  # the spec; None takes the first provider whose key is set
    budget: int | None
    subtitles: bool
    transcripts: bool
    record: Path | None
    save: Path | None
    overwrite: bool
    as_json: bool
    view: bool
    workers: int
    costs: CostOptions
    model: Mapping[str, Any]  # keyword arguments of `open_backbone`

    @classmethod
    def of(cls, params: dict[str, Any]) -> AskOptions:
        """Make the options from click's parameters; those that are not fields are options of the model."""
        own = {field.name: params.pop(field.name) for field in fields(cls) if field.name in params}
        return cls(**own, model=params)

    def spec(self) -> str:
        """The spec of the model; if none is set up, a `BackboneConfigError` says what to do."""
        from trace_ves.backbone.registry import default_spec

        return self.backbone or default_spec()

    def open_session(self, video: Path) -> AskSession:
        """Open the video and the model, and print a notice if its replies are not those of a real model."""
        from trace_ves.backbone.registry import open_backbone
        from trace_ves.runs.asking import AskSession
        from trace_ves.runs.cost import LimitedBackbone

        model = open_backbone(self.spec(), **self.model)
        self.print_notice(model)
        if self.costs.limit is not None:
            self.costs.limit.check([model.name])
            if self.spec().partition(":")[0] != "lab":  # lab is free, and `AskSession` needs it to open its videos
                model = LimitedBackbone(model, self.costs.limit)
        return AskSession(
            video, backbone=model, method=self.method, budget=self.budget, subtitles=self.subtitles, record=self.record
        )

    def print_notice(self, model: Backbone | None = None) -> None:
        """Say on standard error if replies are recorded, simulated, or limited to synthetic videos."""
        notice = GLANCE_NOTICE if self.spec().partition(":")[0] == "glance" else simulation_notes([self.spec()])
        if recorded := ", ".join(getattr(model, "recorded_from", ())):
            notice = f"The replies of {recorded} are recorded: no model is called."
        if notice and not self.as_json:
            click.echo(notice, err=True)

    def cost(self, lines: Sequence[Prediction], retried: Sequence[Prediction] = ()) -> RunCost:
        """What these lines cost, including the failed ones that were asked again."""
        from trace_ves.runs.cost import RunCost

        return RunCost.of(self.method, lines, self.costs.prices.of(self.spec()), retried)

    def show_estimate(self, durations: Sequence[float]) -> int:
        """Print what one question about each of these videos will cost."""
        runs = [(self.method, self.spec())]
        return self.costs.show_estimate(runs, durations, self.model, budget=self.budget, as_json=self.as_json)


def check_video(video: Path, settings: AskOptions) -> float:
    """Return the duration of the video; raise if it or its subtitles cannot be read, before a model is opened."""
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.runs.answering import find_opener
    from trace_ves.runs.asking import require_subtitles
    from trace_ves.runs.video_pool import SharedVideo

    is_lab = (settings.backbone or "").partition(":")[0] == "lab"  # its videos are simulated
    with closing(SharedVideo(video, find_opener(open_backbone(settings.spec())) if is_lab else None)) as opened:
        duration = opened.duration
        if settings.subtitles and not is_lab:
            require_subtitles(video, opened)
        return duration


def check_question(video: str, text: str, options: tuple[str, ...], settings: AskOptions) -> Question:
    """Make the question; raise if it or the method is invalid, before a video is fetched."""
    from trace_ves.runs.asking import make_question

    question = make_question(video, text, options)
    check_method(settings)
    return question


def check_method(settings: AskOptions) -> None:
    """Raise if the method is unknown, or if --subtitles is set and the method does not read them."""
    from trace_ves.runs.methods import open_method, refuse_unread_subtitles

    method = open_method(settings.method)
    if settings.subtitles:
        refuse_unread_subtitles([method])


def sample_question() -> tuple[str, tuple[str, ...]]:
    """The question about the sample film, and its options."""
    from trace_ves.benches import load_bench

    question = load_bench(_SAMPLE).items[0].question
    return question.text, question.options


@click.command("ask")
@click.argument("video", type=video_type, required=False)
@click.argument("question", required=False)
@click.option(
    "-o", "--option", "options", multiple=True, metavar="TEXT", help="One option; repeat. Omit for a free-text answer."
)
@click.option(
    "--questions", "table", type=file_type, metavar="FILE", help="Answer every question in a table, CSV or JSON lines."
)
@click.option("--sample", is_flag=True, help="See a sample film and question answered, offline, from recorded replies.")
@backbone_option
@click.option("--method", default="trace", help="trace, uniform-64, avp, package.module:callable, …")
@click.option(
    "--budget",
    type=count_type,
    metavar="N",
    help="Maximum number of frames to send to the model.  [default: 112 for trace; the method's own for others]",
)
@backbone_options
@fetch_options
@subtitles_option
@click.option("--workers", default=4, type=click.IntRange(1, 256), help="Questions to run in parallel.")
@cost_options
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@click.option(
    "--save",
    type=path_type,
    metavar="DIR",
    help="Write clips, frames, a page and the record to DIR. The same command continues many questions there.",
)
@transcripts_option
@click.option(
    "--record",
    type=file_type,
    metavar="FILE",
    help="Write the prompts and replies to FILE, without frames; --backbone replay:FILE replays them.",
)
@click.option("--overwrite", is_flag=True, help="Replace the answer in DIR.")
@click.option("--view", is_flag=True, help="Open the search in the browser.")
def ask_command(
    *,
    video: Path | str | None,
    question: str | None,
    options: tuple[str, ...],
    table: Path | None,
    sample: bool,
    fetch_rules: FetchRules,
    **params: Any,
) -> int:
    """Ask QUESTION about VIDEO, a file or an http(s) address. A dash for QUESTION reads it from standard input.

    Without QUESTION, a prompt opens where you can ask several. If VIDEO is a folder, the question is asked about each
    of its videos, and the videos are ranked by how sure the answer is.

    The exit status is 4 if nothing was found, 3 if --max-cost stopped the search, and 1 if most replies were unusable.
    """
    settings = AskOptions.of(params)
    if sample:
        if video is not None or options or table is not None:
            raise click.UsageError("--sample has its own film and question; leave out VIDEO, QUESTION and options.")
        video, settings = SAMPLE_FILM, replace(settings, backbone=settings.backbone or SAMPLE_SPEC)
        question, options = sample_question()
        if not settings.as_json:
            lettered = [f"  {letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
            click.echo("\n".join([SAMPLE_CREDITS, f"Question: {question}", *lettered]), err=True)
    if video is None:
        raise click.UsageError("Name a video. To see an answer first, without a key: trace-ves ask --sample")
    text = read_text(question, options)
    is_folder = isinstance(video, Path) and video.is_dir()
    _check_combination(settings, text, options, table, is_folder=is_folder)
    if is_folder:
        from trace_ves.cli.ask_many import ask_videos

        return ask_videos(Path(video), text or "", options, settings)
    if text is not None:
        check_question(str(video), text, options, settings)
    file = local_video(video, fetch_rules, quiet=settings.as_json)
    if table is not None:
        from trace_ves.cli.ask_many import ask_table

        return ask_table(file, table, settings)
    if text is None:
        from trace_ves.cli.ask_session import ask_in_session

        return ask_in_session(file, settings)
    status = _ask_once(file, text, options, settings)
    if sample and not settings.as_json:
        own = 'For your own video:\n  trace-ves ask VIDEO "QUESTION"'
        click.echo(f"Next: --save DIR writes the clips and a page. {own}", err=True)
    return status


def _check_combination(
    settings: AskOptions, text: str | None, options: tuple[str, ...], table: Path | None, *, is_folder: bool
) -> None:
    """Refuse options that contradict each other, before anything is opened."""
    kind, _, recording = (settings.backbone or "").partition(":")
    replayed = Path(recording) if kind == "replay" else None
    refuse_inputs([settings.record, settings.save], inputs=[settings.costs.price_file, replayed])
    settings.costs.prices.of("")  # read now: an error in them must not lose a paid answer
    if table is not None and (text is not None or options or is_folder):
        raise click.UsageError("--questions reads questions and options from FILE, about one video.")
    if is_folder and text is None:
        raise click.UsageError("A folder needs a QUESTION; a session without one is about a single video.")
    if text is None and table is None:
        if options:
            raise click.UsageError("-o needs a QUESTION; at the prompt, write options after the question, with bars.")
        if settings.costs.estimate_only:
            raise click.UsageError("--estimate needs a QUESTION or --questions FILE.")
    if settings.record is not None and (is_folder or table is not None):
        raise click.UsageError("--record is for one video; --save DIR writes .transcripts, which replay: reads too.")
    if settings.view and (text is None or is_folder):
        raise click.UsageError("--view opens one answer; for several, use --save DIR and `trace-ves view DIR`.")


def _ask_once(video: Path, text: str, options: tuple[str, ...], settings: AskOptions) -> int:
    from trace_ves.cli.progress import LateProgress
    from trace_ves.runs.cost import CostReachedError

    duration = check_video(video, settings)
    settings.spec()  # a missing model is reported before a folder is made
    if settings.costs.estimate_only:
        return settings.show_estimate([duration])
    if settings.save is not None:
        from trace_ves.web.saving import prepare_folder

        prepare_folder(settings.save, video, overwrite=settings.overwrite)
    try:
        with settings.open_session(video) as session:
            result, status = search_and_print(partial(session.ask, text, options), settings)
    except CostReachedError as error:
        click.echo(f"stopped: {error}", err=True)
        return COST_REACHED
    if settings.save is not None:  # print before saving, so that a full disk does not lose a paid answer
        from trace_ves.web.saving import save_result

        with LateProgress() as progress:
            save_result(result, settings.save, on_progress=partial(progress, "saving"))
        click.echo(f"saved in {settings.save}", err=True)
    if settings.view:
        from trace_ves.cli.pages import view_answer

        view_answer(result)
    return status


def search_and_print(
    search: Callable[..., AskResult], settings: AskOptions, *, title: str = "answer"
) -> tuple[AskResult, int]:
    """Show the progress of a search and print its answer; returns the result and the exit status."""
    from rich.console import Console

    from trace_ves.cli.answer_panel import SearchScreen, show_result
    from trace_ves.web.search_view import Found, view_answer

    with SearchScreen(Console(stderr=True, quiet=settings.as_json)) as screen:
        result = search(listener=screen)
    if not settings.transcripts:
        result = replace(result, transcript=None)
    found = view_answer(result).found
    paid = settings.cost([result.prediction])
    if settings.as_json:
        cost = paid.to_json()
        seconds = {stage: round(spent, 3) for stage, spent in screen.seconds.items()}
        spent = {key: cost[key] for key in ("total", "by_stage", "price")} | {"seconds": seconds}
        click.echo(json.dumps(result.to_json() | {"found": found, "cost": spent}, ensure_ascii=False))
    else:
        show_result(result, title=title, seconds=screen.seconds, money=paid.money)
    if 2 * len(screen.rejected) > len(result.log.calls):
        warn(_describe_rejected(result, screen.rejected))
        return result, 1
    return result, NOT_FOUND if found is Found.NO else 0


def _describe_rejected(result: AskResult, rejected: Sequence[ReplyRejected]) -> str:
    first = rejected[0]
    text = " ".join(first.raw.split())
    excerpt = text if len(text) <= EXCERPT_LENGTH else f"{text[:EXCERPT_LENGTH]}…"
    quote = f'It said: "{excerpt}".' if excerpt else "It said nothing."
    return (
        f"{len(rejected)} of {len(result.log.calls)} replies of {result.prediction.backbone} could not be used, so the "
        f"answer has little support. The first, of the stage {first.stage}: {first.reason} {quote} "
        "Try a larger model, a server that enforces JSON schemas, or --method uniform-16, which asks one simple "
        "question."
    )
