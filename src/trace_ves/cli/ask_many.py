"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers, resumable with --save."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from trace_ves.backbone.replies import fold_words
from trace_ves.cli.ask import NOT_FOUND, AskOptions, check_question, check_video
from trace_ves.cli.options import COST_REACHED
from trace_ves.cli.process import warn
from trace_ves.cli.progress import LateProgress
from trace_ves.cli.question_table import print_rows, read_questions, write_rows
from trace_ves.core import InputError, Question, VideoError
from trace_ves.core.display import count_words
from trace_ves.core.files import refuse_inputs
from trace_ves.records.run_file import read_retried
from trace_ves.records.transcript import TranscriptIndex
from trace_ves.runs.answering import Job, RunOptions
from trace_ves.runs.asking import VideoQuestion, ask_many
from trace_ves.runs.prices import add_price_notes
from trace_ves.web.search_view import Found, SearchView, span_text, view_search

if TYPE_CHECKING:
    from trace_ves.records import Prediction


_DENIALS: Final = frozenset({"no", "none", "nothing", "nowhere", "never", "nobody", "not", "0", "zero", "absent"})
"""If the answer about one video of a folder begins with one of these words, the video counts as "not found"."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """An answered question: its run line and the view of its search."""

    line: Prediction
    question: Question
    view: SearchView  # after an error, `view.answer` is the error
    title: str  # the question, or the video

    def to_json(self) -> dict[str, object]:
        """The answer as an entry of `ranking` in the JSON output."""
        return {
            "video": self.line.question_id,
            "found": self.view.found,
            "answer": self.line.answer,
            "text": self.line.extra.get("text"),
            "evidence": [[clip.span.start, clip.span.end] for clip in self.view.clips],
            "open_claims": len(self.view.still_open),
            "frames_supplied": self.line.frames_supplied,
            "error": self.line.error,
        }

    def cells(self, folder: str) -> dict[str, Any]:
        """The cells of a CSV row; `folder` is the answer's folder below --save."""
        spans = "; ".join(f"{clip.span.start:.2f}-{clip.span.end:.2f}" for clip in self.view.clips)
        return {
            "answer": self.line.answer or "",
            "text": self.line.extra.get("text") or "",
            "found": self.view.found,
            "evidence": spans,
            "seen": "; ".join(clip.seen for clip in self.view.clips if clip.seen),
            "frames": self.line.frames_supplied,
            "folder": folder,
            "error": self.line.error or "",
        }


def rank(answers: Iterable[AnswerLine]) -> list[AnswerLine]:
    """Sort answers, the surest first."""
    order = list(Found)
    return sorted(
        answers,
        key=lambda each: (
            order.index(each.view.found),
            len(each.view.still_open),
            -len(each.view.clips),
            each.line.question_id,
        ),
    )


def read_answer(line: Prediction, question: Question, *, of_folder: bool = False) -> AnswerLine:
    """Make the view of a line; in a folder of videos, an answer such as "no" or "none" becomes "not found"."""
    view = view_search(line, question)
    leading_words = fold_words(str(line.extra.get("text") or ""))
    if line.error:
        view = replace(view, answer=line.error)
    elif of_folder and view.found in {Found.SETTLED, Found.GUESS} and leading_words and leading_words[0] in _DENIALS:
        view = replace(view, found=Found.NO, clips=())
    return AnswerLine(line, question, view, line.question_id if of_folder else question.text)


def ask_table(video: Path, file: Path, settings: AskOptions) -> int:
    """Answer the questions of a table about one video."""
    rows = read_questions(file, str(video))
    check_question(str(video), rows[0].question.text, rows[0].question.options, settings)
    duration = check_video(video, settings)
    if settings.costs.estimate_only:
        return settings.show_estimate([duration] * len(rows))
    questions = [VideoQuestion(row.question, duration) for row in rows]
    lines, retried, status = _answer_all(questions, settings, inputs=[video, file])
    answered = [row for row in rows if row.question.id in lines]
    answers = [read_answer(lines[row.question.id], row.question) for row in answered]
    labels = [{**row.cells, "id": row.question.id} for row in answered]
    output = {"answers": [each.line.to_json() | {"found": each.view.found} for each in answers]}
    return _finish(answers, labels, output, settings, status, retried=retried, title=f"{video.name}: {file.name}")


def ask_videos(folder: Path, text: str, options: tuple[str, ...], settings: AskOptions) -> int:
    """Ask about every video of a folder, and rank the videos by how sure the answer is."""
    question = check_question(str(folder), text, options, settings)
    videos = _videos_in(folder)
    if settings.costs.estimate_only:
        return settings.show_estimate(list(videos.values()))
    questions = [
        VideoQuestion(replace(question, id=file.relative_to(folder).as_posix(), video=str(file)), duration)
        for file, duration in videos.items()
    ]
    lines, retried, status = _answer_all(questions, settings, inputs=list(videos))
    by_id = {each.question.id: each.question for each in questions}
    answers = rank(read_answer(line, by_id[name], of_folder=True) for name, line in lines.items())
    labels = [{"rank": place, "video": each.title} for place, each in enumerate(answers, 1)]
    output = {"question": question.text, "ranking": [each.to_json() for each in answers]}
    is_nowhere = bool(answers) and all(each.view.found is Found.NO for each in answers)
    status = status or (NOT_FOUND if is_nowhere else 0)
    return _finish(answers, labels, output, settings, status, retried=retried, title=question.text, ranked=True)


def _save(
    answers: Sequence[AnswerLine], labels: Sequence[Mapping[str, Any]], settings: AskOptions, save: Path, title: str
) -> list[dict[str, Any]]:
    """Save each answer in its own folder and a page that lists them; returns the rows of the CSV file."""
    from trace_ves.web.saving import save_line, write_index

    pages, cells = {}, []
    transcripts = TranscriptIndex(save / f"{Job(settings.method, settings.spec(), settings.budget).name}.jsonl")
    with LateProgress() as progress:
        for done, (each, label) in enumerate(zip(answers, labels, strict=True)):
            progress("saving", done, len(answers))
            name, folder = each.line.question_id, ""
            if each.line.error is None:
                folder = save_line(each.line, each.question, save, transcripts.read(name))
            pages[name] = folder
            cells.append({**label, **each.cells(folder)})
    rows = [(each.title, each.view, pages[each.line.question_id]) for each in rank(answers)]
    write_index(save / "index.html", title, rows)
    return cells


def _videos_in(folder: Path) -> dict[Path, float]:
    """The duration of each video below a folder, sorted by path; unreadable files are left out with a warning."""
    from trace_ves import video as videos
    from trace_ves.video.folders import walk_videos

    files = sorted(walk_videos(folder))
    durations = {}
    with LateProgress() as progress:
        for done, file in enumerate(files):
            progress("opening videos", done, len(files))
            try:
                with videos.open(file) as opened:
                    durations[file] = opened.duration
            except VideoError as error:
                warn(f"left out: {error}")
    if not durations:
        raise InputError(f"{folder}: this folder has no readable video.")
    return durations


class _Progress(LateProgress):
    """Counts answers and dollars. Prints each error; prints each answer too if standard error is not a terminal."""

    def __init__(self, total: int, settings: AskOptions) -> None:
        super().__init__(Console(stderr=True, quiet=settings.as_json))
        self._total, self._settings = total, settings
        self._done = 0
        self._dollars = 0.0

    def begin(self, done: int) -> None:
        """Print how many questions an earlier command has answered."""
        self._done = done
        if done:
            self.print(f"{done} of {self._total} are already answered")

    def finish(self, line: Prediction) -> None:
        """Count one more answer."""
        self._done += 1
        cost = self._settings.cost([line])
        self._dollars += cost.dollars or 0.0
        note = f"{self._done} of {self._total}"
        spent = "" if cost.dollars is None else f", {add_price_notes(f'${self._dollars:.4f}', [cost.price])}"
        self("asking", self._done, self._total, f"{note}{spent}")
        if line.error or not self.console.is_terminal:
            outcome = f"error: {line.error}" if line.error else view_search(line).answer
            self.print(f"{note}: {line.question_id}: {outcome}")


def _answer_all(
    questions: Sequence[VideoQuestion], settings: AskOptions, *, inputs: Sequence[Path]
) -> tuple[dict[str, Prediction], list[Prediction], int]:
    """Answer the questions; returns each line by question id, the failed lines asked again, and the exit status."""
    from trace_ves.runs.evaluate import LEAST_CONCURRENCY

    job = Job(settings.method, settings.spec(), settings.budget)
    options = RunOptions(
        backbone_options={"concurrency": max(LEAST_CONCURRENCY, settings.workers), **settings.model},
        open_videos=settings.workers,
        transcripts=settings.transcripts,
        subtitles=settings.subtitles,
    )
    save, cost_limit = settings.save, settings.costs.limit
    if save and save.exists():
        if not save.is_dir():
            raise InputError(f"{save} is a file; name a folder for --save.")
        if any(save.iterdir()) and not any(save.glob("*.run.toml")):
            raise InputError(f"{save} is not empty; name another folder for --save.")
    refuse_inputs([save], inputs=inputs)
    settings.print_notice()
    with nullcontext(save) if save else TemporaryDirectory() as folder, _Progress(len(questions), settings) as progress:
        lines, file = ask_many(
            questions,
            job,
            Path(folder),
            options=options,
            workers=settings.workers,
            cost_limit=cost_limit,
            on_begin=progress.begin,
            on_answer=progress.finish,
        )
        retried = list(read_retried(file))
    if cost_limit is not None and cost_limit.stopped:
        done = f"{len(lines)} of {len(questions)} questions have cost {cost_limit}"
        click.echo(f"stopped: {done}; continue with a higher --max-cost.", err=True)
        return lines, retried, COST_REACHED
    return lines, retried, 0


def _finish(
    answers: Sequence[AnswerLine],
    labels: Sequence[Mapping[str, Any]],  # the first cells of each row
    output: Mapping[str, Any],  # the JSON output without the cost
    settings: AskOptions,
    status: int,
    *,
    retried: Sequence[Prediction],
    title: str,
    ranked: bool = False,
) -> int:
    """Save and print the answers and their cost; returns the exit status, 1 if a question failed."""
    if settings.save is not None:
        name = "ranking.csv" if ranked else "answers.csv"
        write_rows(settings.save / name, _save(answers, labels, settings, settings.save, title))
    lines = [each.line for each in answers]
    errors = sum(line.error is not None for line in lines)
    frames = sum(line.frames_supplied for line in lines)
    cost = settings.cost(lines, retried)
    if not settings.as_json:
        rows = []
        for place, each in enumerate(answers, 1):
            spans = ", ".join(span_text(clip.span) for clip in each.view.clips)
            name = str(place) if ranked else each.line.question_id
            rows.append((name, each.title, each.view.found, each.view.answer, spans))
        print_rows(("", "Video" if ranked else "Question", "Found", "Answer", "Where"), rows)
    else:
        paid = {"frames_supplied": frames, "dollars": cost.dollars, "price": cost.to_json()["price"]}
        click.echo(json.dumps({**output, "cost": paid}, ensure_ascii=False))
    spent = "" if cost.dollars is None else f", {cost.money}"
    saved = f"; open {settings.save / 'index.html'}" if settings.save else ""
    counts = f"{count_words(len(lines), 'answer')}, {count_words(errors, 'error')}"
    click.echo(f"{counts}, {frames:,} frames supplied{spent}{saved}", err=True)
    return status or int(bool(errors))
