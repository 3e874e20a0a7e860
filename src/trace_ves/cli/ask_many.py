"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers, with progress, costs, and a way to go on."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trace_ves.answers.words import clock
from trace_ves.cli.ask_options import COST_REACHED, check_question
from trace_ves.cli.ranking import WORDS, evidence_of, ranking
from trace_ves.core import InputError, Question, Termination, TraceVesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.cli.ask_options import AskOptions
    from trace_ves.cli.question_table import TableRow
    from trace_ves.cli.ranking import Ranked
    from trace_ves.records import Prediction
    from trace_ves.running.ask_many import VideoQuestion

VIDEO_SUFFIXES: Final = frozenset(
    ".3gp .asf .avi .flv .gif .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .mxf .ogm .ogv .ts .vob .webm .wmv".split()  # noqa: SIM905  a list would be a page
)
MOST_VIDEOS: Final = 10_000
_FORMULA: Final = ("=", "+", "@", "\t", "\r")
"""What a spreadsheet would take for a formula, at the beginning of a cell."""


def ask_table(video: Path, file: Path, chosen: AskOptions) -> int:
    """Answer the questions of a table about one video."""
    from trace_ves.cli.question_table import read_questions

    rows = read_questions(file, str(video))
    check_question(str(video), rows[0].question.text, rows[0].question.options, chosen.method)
    duration = _duration(video, chosen)
    lines, status = _answered([(row.question, duration) for row in rows], chosen, inputs=[video, file])
    if lines is None:
        return status
    if chosen.save is not None:
        _write_table(chosen.save / "answers.csv", _table_cells(rows, lines))
    if chosen.as_json:
        answers = [lines[row.question.id].to_json() for row in rows if row.question.id in lines]
        click.echo(json.dumps({"answers": answers, "cost": _cost(lines, chosen)}, ensure_ascii=False))
    else:
        _print_rows(
            ("", "Question", "Answer", "Settled", "Where"),
            [
                (row.question.id, row.question.text, _answer(line), _settled(line), _where(line))
                for row in rows
                if (line := lines.get(row.question.id))
            ],
        )
    return _ended(lines, chosen, status)


def ask_videos(folder: Path, words: str, options: tuple[str, ...], chosen: AskOptions) -> int:
    """Ask every video of a folder, and rank where it was found."""
    check_question(str(folder), words, options, chosen.method)
    asked = []
    for file, duration in _videos(folder):
        name = file.relative_to(folder).as_posix()
        asked.append((Question(name, str(file), words.strip(), tuple(option.strip() for option in options)), duration))
    lines, status = _answered(asked, chosen, inputs=[Path(question.video) for question, _ in asked])
    if lines is None:
        return status
    ranked = ranking(lines.values())
    if chosen.save is not None:
        _write_table(chosen.save / "ranking.csv", _ranking_cells(ranked))
    if chosen.as_json:
        found = {"question": words.strip(), "ranking": [row.to_json() for row in ranked]}
        click.echo(json.dumps(found | {"cost": _cost(lines, chosen)}, ensure_ascii=False))
    else:
        _print_rows(
            ("", "Video", "Found", "Answer", "Where"),
            [
                (str(place), row.video, WORDS[row.found], _answer(row.line), _where(row.line) if row.is_found else "")
                for place, row in enumerate(ranked, 1)
            ],
        )
    return _ended(lines, chosen, status)


# --- asking ---------------------------------------------------------------------------------------


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
    with ExitStack() as stack:
        folder = _folder(chosen.save) if chosen.save else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        refuse_inputs([folder / f"{job.name}.jsonl", folder / "answers.csv", folder / "ranking.csv"], inputs=inputs)
        chosen.say_what_looks()
        progress = stack.enter_context(AskProgress(len(asked), chosen))
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
        go_on = "a higher --max-cost goes on" if chosen.save else "--save DIR keeps answers that can be gone on from"
        click.echo(
            f"stopped: {len(lines)} of {len(asked)} questions have cost ${cost_limit.spent:.4f}, and --max-cost is "
            f"${cost_limit.dollars:g}; {go_on}.",
            err=True,
        )
        return lines, COST_REACHED
    return lines, 0


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


def _videos(folder: Path) -> list[tuple[Path, float]]:
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


# --- showing --------------------------------------------------------------------------------------


def _answer(line: Prediction) -> str:
    if line.error is not None:
        return f"error: {line.error}"
    text = line.extra.get("text")
    letter = f"{line.answer}. " if line.extra.get("options") and line.answer else ""
    return f"{letter}{text}" if isinstance(text, str) else "no answer"


def _settled(line: Prediction) -> str:
    return "yes" if line.termination == Termination.STABLE_PREFIX_FOUND else "no"


def _where(line: Prediction) -> str:
    return ", ".join(f"{clock(span.start)}-{clock(span.end)}" for span in evidence_of(line))


def _print_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold", justify="left" if name else "right")
    for row in rows:
        table.add_row(*(Text(" ".join(cell.split())) for cell in row))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)


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


def _table_cells(rows: Sequence[TableRow], lines: dict[str, Prediction]) -> list[dict[str, Any]]:
    answered = [(row, lines[row.question.id]) for row in rows if row.question.id in lines]
    return [{**row.cells, "id": row.question.id, **_cells(line)} for row, line in answered]


def _ranking_cells(ranked: Sequence[Ranked]) -> list[dict[str, Any]]:
    return [
        {"rank": place, "video": row.video, "found": WORDS[row.found]} | _cells(row.line)
        for place, row in enumerate(ranked, 1)
    ]


def _cells(line: Prediction) -> dict[str, Any]:
    return {
        "answer": line.answer or "",
        "text": line.extra.get("text") or "",
        "settled": _settled(line),
        "evidence": "; ".join(f"{span.start:.2f}-{span.end:.2f}" for span in evidence_of(line)),
        "frames": line.frames_supplied,
        "error": line.error or "",
    }


def _write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    from trace_ves.core.outputs import write_output

    out = StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    write_output(path, out.getvalue())


def _cell(value: object) -> object:
    """A model's words that a spreadsheet would run as a formula are marked as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
