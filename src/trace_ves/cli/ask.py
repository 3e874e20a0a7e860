"""`trace-ves ask`: one question about a video. Sessions are in `ask_session`, tables and folders in `ask_many`."""

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
NOT_FOUND: Final = 4  # the exit status where what was asked for was not found
SAMPLE_LENGTH: Final = 200


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
    def of(cls, given: dict[str, Any]) -> AskOptions:
        """The options as click gives them; those that are not a field are the model's."""
        own = {field.name: given.pop(field.name) for field in fields(cls) if field.name in given}
        return cls(**own, model=given)

    def spec(self) -> str:
        """The spec of the model; if none is set up, a `BackboneConfigError` says what to do."""
        from trace_ves.backbone.registry import default_spec

        return self.backbone or default_spec()

    def open_session(self, video: Path) -> AskSession:
        """Open the video and the model, and say what should be known about the model's replies."""
        from trace_ves.backbone.registry import open_backbone
        from trace_ves.runs.asking import AskSession
        from trace_ves.runs.cost import LimitedBackbone

        model = open_backbone(self.spec(), **self.model)
        self.print_notice(model)
        if self.costs.limit is not None:
            self.costs.limit.check([model.name])
            if self.spec().partition(":")[0] != "lab":  # it is free, and opens simulated videos
                model = LimitedBackbone(model, self.costs.limit)
        return AskSession(
            video,
            backbone=model,
            method=self.method,
            budget=self.budget,
            subtitles=self.subtitles,
            record=self.record,
        )

    def print_notice(self, model: Backbone | None = None) -> None:
        """Say on standard error if replies are recorded, simulated, or limited to synthetic videos."""
        notice = GLANCE_NOTICE if self.spec().partition(":")[0] == "glance" else simulation_notes([self.spec()])
        if recorded := ", ".join(getattr(model, "recorded_from", ())):
            notice = f"The replies of {recorded} are recorded: no model is called."
        if notice and not self.as_json:
            click.echo(notice, err=True)

    def cost(self, lines: Sequence[Prediction], retried: Sequence[Prediction] = ()) -> RunCost:
        """What answers cost, including those that failed and were asked again."""
        from trace_ves.runs.cost import RunCost

        return RunCost.of(self.method, lines, self.costs.prices.of(self.spec()), retried)

    def show_estimate(self, durations: Sequence[float]) -> int:
        """Print what questions about videos of these lengths will cost."""
        runs = [(self.method, self.spec())]
        return self.costs.show_estimate(runs, durations, self.model, budget=self.budget, as_json=self.as_json)


def check_video(video: Path, chosen: AskOptions) -> float:
    """The duration of the video; raises what is wrong with the file or its subtitles before a model is opened."""
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.runs.answering import opener_of
    from trace_ves.runs.asking import require_subtitles
    from trace_ves.runs.video_pool import SharedVideo

    is_lab = (chosen.backbone or "").partition(":")[0] == "lab"  # it opens simulated videos
    with closing(SharedVideo(video, opener_of(open_backbone(chosen.spec())) if is_lab else None)) as opened:
        duration = opened.duration
        if chosen.subtitles and not is_lab:
            require_subtitles(video, opened)
        return duration


def check_question(video: str, words: str, options: tuple[str, ...], chosen: AskOptions) -> Question:
    """The question; raises what is wrong with it or the method before a video is fetched."""
    from trace_ves.runs.asking import make_question

    question = make_question(video, words, options)
    check_method(chosen)
    return question


def check_method(chosen: AskOptions) -> None:
    """Raise what is wrong with the method, or that it does not read subtitles."""
    from trace_ves.runs.methods import open_method, refuse_unread_subtitles

    method = open_method(chosen.method)
    if chosen.subtitles:
        refuse_unread_subtitles([method])


def sample_question() -> tuple[str, tuple[str, ...]]:
    """The question about the sample film, and its options."""
    from trace_ves.benches import load_bench

    asked = load_bench(_SAMPLE).items[0].question
    return asked.text, asked.options


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
    help="Write clips, frames, a page and the record to DIR. Many questions can be continued there.",
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
    **given: Any,
) -> int:
    """Ask QUESTION about VIDEO, a file or an http(s) address. A dash for QUESTION reads it from standard input.

    Without QUESTION, a prompt opens where you can ask several. If VIDEO is a folder, the question is asked about each
    of its videos, and the videos are ranked by how sure the answer is.

    The exit status is 4 if it was not found, 3 if --max-cost stopped it, and 1 if most replies could not be used.
    """
    chosen = AskOptions.of(given)
    if sample:
        if video is not None or options or table is not None:
            raise click.UsageError("--sample brings its film and its question; leave out VIDEO, QUESTION and options.")
        video, chosen = SAMPLE_FILM, replace(chosen, backbone=chosen.backbone or SAMPLE_SPEC)
        question, options = sample_question()
        if not chosen.as_json:
            lettered = [f"  {letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
            click.echo("\n".join([SAMPLE_CREDITS, f"Question: {question}", *lettered]), err=True)
    if video is None:
        raise click.UsageError("Name a video. To see an answer first, without a key: trace-ves ask --sample")
    words = read_text(question, options)
    is_folder = isinstance(video, Path) and video.is_dir()
    _check_combination(chosen, words, options, table, is_folder=is_folder)
    if is_folder:
        from trace_ves.cli.ask_many import ask_videos

        return ask_videos(Path(video), words or "", options, chosen)
    if words is not None:
        check_question(str(video), words, options, chosen)
    file = local_video(video, fetch_rules, quiet=chosen.as_json)
    if table is not None:
        from trace_ves.cli.ask_many import ask_table

        return ask_table(file, table, chosen)
    if words is None:
        from trace_ves.cli.ask_session import ask_in_session

        return ask_in_session(file, chosen)
    status = _ask_once(file, words, options, chosen)
    if sample and not chosen.as_json:
        click.echo('Next: --save DIR writes the clips and a page. Your own: trace-ves ask VIDEO "QUESTION"', err=True)
    return status


def _check_combination(
    chosen: AskOptions, words: str | None, options: tuple[str, ...], table: Path | None, *, is_folder: bool
) -> None:
    """Refuse options that make no sense together, before anything is opened."""
    if table is not None and (words is not None or options or is_folder):
        raise click.UsageError("--questions names the questions and options itself, about one video.")
    if is_folder and words is None:
        raise click.UsageError("A folder is asked one QUESTION; a session is about one video.")
    if words is None and table is None:
        if options:
            raise click.UsageError("-o gives the options of QUESTION; at the prompt they follow it after bars.")
        if chosen.costs.estimate_only:
            raise click.UsageError("--estimate needs to know how many questions there are; give QUESTION.")
    if chosen.record is not None and (is_folder or table is not None):
        raise click.UsageError("--record is for one video; --save DIR writes .transcripts, which replay: reads too.")
    if chosen.view and (words is None or is_folder):
        raise click.UsageError("--view opens the story of one answer; `trace-ves view DIR` opens what --save kept.")


def _ask_once(video: Path, words: str, options: tuple[str, ...], chosen: AskOptions) -> int:
    from trace_ves.cli.progress import LateProgress
    from trace_ves.runs.cost import CostReachedError

    duration = check_video(video, chosen)
    chosen.spec()  # a missing model is reported before a folder is made
    if chosen.costs.estimate_only:
        return chosen.show_estimate([duration])
    if chosen.save is not None:
        from trace_ves.web.saving import prepare_folder

        prepare_folder(chosen.save, video, overwrite=chosen.overwrite)
    try:
        with chosen.open_session(video) as session:
            result, status = search_and_print(partial(session.ask, words, options), chosen)
    except CostReachedError as error:
        click.echo(f"stopped: {error}", err=True)
        return COST_REACHED
    if chosen.save is not None:  # after printing: an answer that was paid for is not lost to a full disk
        from trace_ves.web.saving import save_result

        with LateProgress() as progress:
            save_result(result, chosen.save, on_progress=partial(progress, "saving"))
        click.echo(f"saved in {chosen.save}", err=True)
    if chosen.view:
        from trace_ves.cli.pages import view_answer

        view_answer(result)
    return status


def search_and_print(
    search: Callable[..., AskResult], chosen: AskOptions, *, title: str = "answer"
) -> tuple[AskResult, int]:
    """Show the progress of a search, and print its answer; also the exit status."""
    from rich.console import Console

    from trace_ves.cli.answer_panel import SearchScreen, show_result
    from trace_ves.web.search_view import Found, view_answer

    with SearchScreen(Console(stderr=True, quiet=chosen.as_json)) as screen:
        result = search(listener=screen)
    if not chosen.transcripts:
        result = replace(result, transcript=None)
    found = view_answer(result).found
    paid = chosen.cost([result.prediction])
    if chosen.as_json:
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
    said = " ".join(first.raw.split())
    cut = said if len(said) <= SAMPLE_LENGTH else f"{said[:SAMPLE_LENGTH]}…"
    sample = f'It said: "{cut}".' if cut else "It said nothing."
    return (
        f"{len(rejected)} of {len(result.log.calls)} replies of {result.prediction.backbone} could not be used, so the "
        f"answer has little support. The first, of the stage {first.stage}: {first.reason} {sample} "
        "Try a larger model, a server that enforces JSON schemas, or --method uniform-16, which asks one simple "
        "question."
    )
