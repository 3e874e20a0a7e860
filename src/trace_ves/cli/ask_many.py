"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers, with progress, costs, and a way to go on."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trace_ves.cli.answer_tables import print_answers, print_ranking, write_answers, write_ranking
from trace_ves.cli.ask_options import COST_REACHED, check_question, check_video
from trace_ves.cli.ranking import ranking
from trace_ves.cli.video_folder import videos_in
from trace_ves.core import InputError, Question
from trace_ves.core.folders import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.cli.ask_options import AskOptions
    from trace_ves.records import Prediction
    from trace_ves.running.ask_many import VideoQuestion

_FORGOTTEN_AFTER_SECONDS: Final = 30 * 24 * 3600


def ask_table(video: Path, file: Path, chosen: AskOptions) -> int:
    """Answer the questions of a table about one video."""
    from trace_ves.cli.question_table import read_questions

    rows = read_questions(file, str(video))
    check_question(str(video), rows[0].question.text, rows[0].question.options, chosen.method)
    check_video(video, chosen)
    duration = _duration(video, chosen)
    lines, status = _answered([(row.question, duration) for row in rows], chosen, inputs=[video, file])
    if lines is None:
        return status
    if chosen.save is not None:
        write_answers(chosen.save / "answers.csv", rows, lines)
    if chosen.as_json:
        answers = [lines[row.question.id].to_json() for row in rows if row.question.id in lines]
        click.echo(json.dumps({"answers": answers, "cost": _cost(lines, chosen)}, ensure_ascii=False))
    else:
        print_answers(rows, lines)
    return _ended(lines, chosen, status)


def ask_videos(folder: Path, words: str, options: tuple[str, ...], chosen: AskOptions) -> int:
    """Ask every video of a folder, and rank where it was found."""
    check_question(str(folder), words, options, chosen.method)
    asked = []
    for file, duration in videos_in(folder):
        name = file.relative_to(folder).as_posix()
        asked.append((Question(name, str(file), words.strip(), tuple(option.strip() for option in options)), duration))
    lines, status = _answered(asked, chosen, inputs=[Path(question.video) for question, _ in asked])
    if lines is None:
        return status
    ranked = ranking(lines.values())
    if chosen.save is not None:
        write_ranking(chosen.save / "ranking.csv", ranked)
    if chosen.as_json:
        found = {"question": words.strip(), "ranking": [row.to_json() for row in ranked]}
        click.echo(json.dumps(found | {"cost": _cost(lines, chosen)}, ensure_ascii=False))
    else:
        print_ranking(ranked)
    return _ended(lines, chosen, status)


def _answered(
    asked: Sequence[tuple[Question, float]], chosen: AskOptions, *, inputs: Sequence[Path]
) -> tuple[dict[str, Prediction] | None, int]:
    """Every line by its question, and the exit status so far; no lines where only an estimate was wanted."""
    from trace_ves.cli.ask_progress import AskProgress
    from trace_ves.cli.estimate_screen import show_estimate
    from trace_ves.core.outputs import refuse_inputs
    from trace_ves.methods import open_method, refuse_unread_subtitles
    from trace_ves.running.ask_many import VideoQuestion, ask_many
    from trace_ves.running.evaluate import LEAST_CONCURRENCY
    from trace_ves.running.job import Job, RunOptions

    if chosen.subtitles:
        refuse_unread_subtitles([open_method(chosen.method)])
    spec = chosen.spec()
    if chosen.estimate_only:
        runs, durations = [(chosen.method, spec)], [duration for _, duration in asked]
        return None, show_estimate(
            runs, durations, chosen.prices(), chosen.model, budget=chosen.budget, as_json=chosen.as_json
        )
    questions: list[VideoQuestion] = [VideoQuestion(question, duration) for question, duration in asked]
    job = Job(chosen.method, spec, chosen.budget)
    options = RunOptions(
        backbone_options={"concurrency": max(LEAST_CONCURRENCY, chosen.workers), **chosen.model},
        open_videos=chosen.workers,
        transcripts=chosen.transcripts,
        subtitles=chosen.subtitles,
    )
    cost_limit = chosen.cost_limit()
    folder = _folder(chosen.save) if chosen.save else _place_to_go_on_from(questions, chosen)
    refuse_inputs([folder / f"{job.name}.jsonl", folder / "answers.csv", folder / "ranking.csv"], inputs=inputs)
    chosen.say_what_looks()
    with AskProgress(len(asked), chosen) as progress:
        lines, _ = ask_many(
            questions,
            job,
            folder,
            options=options,
            workers=chosen.workers,
            cost_limit=cost_limit,
            begun=progress.begun,
            finished=progress.finished,
        )
    if cost_limit is not None and cost_limit.stopped:
        click.echo(
            f"stopped: {len(lines)} of {len(asked)} questions have cost ${cost_limit.spent:.4f}, and --max-cost is "
            f"${cost_limit.dollars:g}; a higher --max-cost goes on.",
            err=True,
        )
        return lines, COST_REACHED
    if chosen.save is None and not any(line.error for line in lines.values()):
        shutil.rmtree(folder, ignore_errors=True)
    return lines, 0


def _place_to_go_on_from(asked: Sequence[VideoQuestion], chosen: AskOptions) -> Path:
    """Where answers wait that nobody asked to save, in case the command is stopped: the same command finds them."""
    videos = {one.question.video: _state(Path(one.question.video)) for one in asked}
    words = [(one.question.id, one.question.text, one.question.options) for one in asked]
    same = (sorted(videos.items()), words, chosen.method, chosen.spec(), chosen.budget, chosen.subtitles, chosen.model)
    name = hashlib.sha256(json.dumps(same, default=str).encode()).hexdigest()[:24]
    home = cache_dir() / "asked"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in home.iterdir():
        with suppress(OSError):  # another process may forget it too
            if time.time() - old.stat().st_mtime > _FORGOTTEN_AFTER_SECONDS:
                shutil.rmtree(old)
    return home / name


def _state(video: Path) -> tuple[int, int] | None:
    try:
        status = video.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _folder(save: Path) -> Path:
    """The folder that answers are kept in: a new one, or one that such answers were kept in before."""
    if save.is_dir() and any(save.iterdir()) and not any(save.glob("*.run.toml")):
        raise InputError(f"{save} is not empty; name another folder for --save.")
    if save.exists() and not save.is_dir():
        raise InputError(f"{save} is a file; name a folder for --save.")
    return save


def _duration(video: Path, chosen: AskOptions) -> float:
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.running.answering import opener_of
    from trace_ves.running.video_pool import SharedVideo

    opener = None
    if (chosen.backbone or "").partition(":")[0] == "lab":  # it opens videos that were never drawn
        opener = opener_of(open_backbone(chosen.spec()))
    shared = SharedVideo(video, opener)
    try:
        return shared.duration
    finally:
        shared.close()


def _ended(lines: dict[str, Prediction], chosen: AskOptions, status: int) -> int:
    """Say what it cost and where it is kept; the exit status is 1 where a question ended in an error."""
    errors = [line for line in lines.values() if line.error is not None]
    cost = _cost(lines, chosen)
    spent = "" if cost["dollars"] is None else f", ${cost['dollars']:.4f}"
    kept = f"; kept in {chosen.save}" if chosen.save else ""
    click.echo(
        f"{len(lines)} answered, {len(errors)} errors, {cost['frames_supplied']} frames supplied{spent}{kept}", err=True
    )
    return status or int(bool(errors))


def _cost(lines: dict[str, Prediction], chosen: AskOptions) -> dict[str, float | None]:
    """Frames and dollars of all answers; no dollars where the model has no price."""
    costs = [chosen.dollars(line) for line in lines.values()]
    dollars = None if None in costs else sum(cost for cost in costs if cost is not None)
    return {"frames_supplied": sum(line.frames_supplied for line in lines.values()), "dollars": dollars}
