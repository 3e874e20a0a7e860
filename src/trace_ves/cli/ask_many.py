"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers that can be stopped and continued."""

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

from trace_ves.backbone.replies import folded
from trace_ves.cli.ask import NOT_FOUND, AskOptions, check_question, check_video
from trace_ves.cli.options import COST_REACHED
from trace_ves.cli.process import warn
from trace_ves.cli.progress import LateProgress
from trace_ves.cli.question_table import print_rows, read_questions, write_rows
from trace_ves.core import InputError, Question, TraceVesError
from trace_ves.core.display import count_words
from trace_ves.core.files import refuse_inputs
from trace_ves.records.run_file import read_retried
from trace_ves.records.transcript import TranscriptIndex
from trace_ves.runs.answering import Job, RunOptions
from trace_ves.runs.asking import VideoQuestion, ask_many
from trace_ves.runs.prices import with_date
from trace_ves.web.search_view import Found, SearchView, span_text, view_search

if TYPE_CHECKING:
    from trace_ves.records import Prediction


_DENIALS: Final = frozenset({"no", "none", "nothing", "nowhere", "never", "nobody", "not", "0", "zero", "absent"})
"""An answer that begins with one of these says that a video does not show it."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One line, with its question and the view of its search."""

    line: Prediction
    question: Question
    view: SearchView  # its answer is the error if there was one
    title: str  # the question, or the video

    def to_json(self) -> dict[str, object]:
        """For machines."""
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
        """The columns of a CSV file; `folder` is where its clips and page are."""
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
    """The answers, the surest first."""
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
    """A line with the view of its search; in a folder, an answer that denies is not found."""
    view = view_search(line, question)
    words = folded(str(line.extra.get("text") or ""))
    if line.error:
        view = replace(view, answer=line.error)
    elif of_folder and view.found in {Found.SETTLED, Found.GUESS} and words and words[0] in _DENIALS:
        view = replace(view, found=Found.NO, clips=())
    return AnswerLine(line, question, view, line.question_id if of_folder else question.text)


def ask_table(video: Path, file: Path, chosen: AskOptions) -> int:
    """Answer the questions of a table about one video."""
    rows = read_questions(file, str(video))
    check_question(str(video), rows[0].question.text, rows[0].question.options, chosen)
    duration = check_video(video, chosen)
    if chosen.costs.estimate_only:
        return chosen.show_estimate([duration] * len(rows))
    asked = [VideoQuestion(row.question, duration) for row in rows]
    lines, retried, status = _answer_all(asked, chosen, inputs=[video, file])
    answered = [row for row in rows if row.question.id in lines]
    found = [read_answer(lines[row.question.id], row.question) for row in answered]
    labels = [{**row.cells, "id": row.question.id} for row in answered]
    printed = {"answers": [each.line.to_json() | {"found": each.view.found} for each in found]}
    return _finish(found, labels, printed, chosen, status, retried=retried, title=f"{video.name}: {file.name}")


def ask_videos(folder: Path, words: str, options: tuple[str, ...], chosen: AskOptions) -> int:
    """Ask about every video of a folder, and rank the videos by how sure the answer is."""
    question = check_question(str(folder), words, options, chosen)
    videos = _videos_in(folder)
    if chosen.costs.estimate_only:
        return chosen.show_estimate(list(videos.values()))
    asked = [
        VideoQuestion(replace(question, id=file.relative_to(folder).as_posix(), video=str(file)), duration)
        for file, duration in videos.items()
    ]
    lines, retried, status = _answer_all(asked, chosen, inputs=list(videos))
    questions = {one.question.id: one.question for one in asked}
    found = rank(read_answer(line, questions[name], of_folder=True) for name, line in lines.items())
    labels = [{"rank": place, "video": each.title} for place, each in enumerate(found, 1)]
    printed = {"question": question.text, "ranking": [each.to_json() for each in found]}
    nowhere = bool(found) and all(each.view.found is Found.NO for each in found)
    status = status or (NOT_FOUND if nowhere else 0)
    return _finish(found, labels, printed, chosen, status, retried=retried, title=question.text, ranked=True)


def _save(
    answered: Sequence[AnswerLine], labels: Sequence[Mapping[str, Any]], chosen: AskOptions, save: Path, title: str
) -> list[dict[str, Any]]:
    """Save each answer in its own folder, and a page over all; returns the rows of the CSV file."""
    from trace_ves.web.saving import save_line, write_index

    pages, cells = {}, []
    transcripts = TranscriptIndex(save / f"{Job(chosen.method, chosen.spec(), chosen.budget).name}.jsonl")
    with LateProgress() as progress:
        for done, (each, label) in enumerate(zip(answered, labels, strict=True)):
            progress("saving", done, len(answered))
            name, folder = each.line.question_id, ""
            if each.line.error is None:
                folder = save_line(each.line, each.question, save, transcripts.read(name))
            pages[name] = folder
            cells.append({**label, **each.cells(folder)})
    rows = [(each.title, each.view, pages[each.line.question_id]) for each in rank(answered)]
    write_index(save / "index.html", title, rows)
    return cells


def _videos_in(folder: Path) -> dict[Path, float]:
    """The duration of each video below a folder, by name; unreadable files are reported and left out."""
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
            except TraceVesError as error:
                warn(f"left out: {error}")
    if not durations:
        raise InputError(f"{folder}: there is no video in this folder that can be read.")
    return durations


class _Progress(LateProgress):
    """Counts the answers and their dollars; prints errors, and without a terminal a line for each answer."""

    def __init__(self, total: int, chosen: AskOptions) -> None:
        super().__init__(Console(stderr=True, quiet=chosen.as_json))
        self._total, self._chosen = total, chosen
        self._done = 0
        self._dollars = 0.0

    def begin(self, done: int) -> None:
        """Say how many were answered before."""
        self._done = done
        if done:
            self.print(f"{done} of {self._total} were answered before")

    def finish(self, line: Prediction) -> None:
        """Count one more answer."""
        self._done += 1
        cost = self._chosen.cost([line])
        self._dollars += cost.dollars or 0.0
        note = f"{self._done} of {self._total}"
        spent = "" if cost.dollars is None else f", {with_date(f'${self._dollars:.4f}', [cost.price])}"
        self("asking", self._done, self._total, f"{note}{spent}")
        if line.error or not self.console.is_terminal:
            words = f"error: {line.error}" if line.error else view_search(line).answer
            self.print(f"{note}: {line.question_id}: {words}")


def _answer_all(
    asked: Sequence[VideoQuestion], chosen: AskOptions, *, inputs: Sequence[Path]
) -> tuple[dict[str, Prediction], list[Prediction], int]:
    """Every line by its question, lines that were asked again, and the exit status."""
    from trace_ves.runs.evaluate import LEAST_CONCURRENCY

    job = Job(chosen.method, chosen.spec(), chosen.budget)
    options = RunOptions(
        backbone_options={"concurrency": max(LEAST_CONCURRENCY, chosen.workers), **chosen.model},
        open_videos=chosen.workers,
        transcripts=chosen.transcripts,
        subtitles=chosen.subtitles,
    )
    save, cost_limit = chosen.save, chosen.costs.limit
    if save and save.exists():
        if not save.is_dir():
            raise InputError(f"{save} is a file; name a folder for --save.")
        if any(save.iterdir()) and not any(save.glob("*.run.toml")):
            raise InputError(f"{save} is not empty; name another folder for --save.")
    names = (f"{job.name}.jsonl", "answers.csv", "ranking.csv", "index.html")
    refuse_inputs([save, *(save / name for name in names)] if save else [], inputs=inputs)
    chosen.print_notice()
    with nullcontext(save) if save else TemporaryDirectory() as folder, _Progress(len(asked), chosen) as progress:
        lines, file = ask_many(
            asked,
            job,
            Path(folder),
            options=options,
            workers=chosen.workers,
            cost_limit=cost_limit,
            begun=progress.begin,
            finished=progress.finish,
        )
        retried = list(read_retried(file))
    if cost_limit is not None and cost_limit.stopped:
        done = f"{len(lines)} of {len(asked)} questions have cost {cost_limit}"
        click.echo(f"stopped: {done}; continue with a higher --max-cost.", err=True)
        return lines, retried, COST_REACHED
    return lines, retried, 0


def _finish(
    answered: Sequence[AnswerLine],
    labels: Sequence[Mapping[str, Any]],  # the first cells of each row
    printed: Mapping[str, Any],  # as JSON, without the cost
    chosen: AskOptions,
    status: int,
    *,
    retried: Sequence[Prediction],
    title: str,
    ranked: bool = False,
) -> int:
    """Save and print the answers as a table or as JSON, and what they cost; the exit status is 1 after an error."""
    if chosen.save is not None:
        name = "ranking.csv" if ranked else "answers.csv"
        write_rows(chosen.save / name, _save(answered, labels, chosen, chosen.save, title))
    lines = [each.line for each in answered]
    errors = sum(line.error is not None for line in lines)
    frames = sum(line.frames_supplied for line in lines)
    cost = chosen.cost(lines, retried)
    if not chosen.as_json:
        rows = []
        for place, each in enumerate(answered, 1):
            where = ", ".join(span_text(clip.span) for clip in each.view.clips)
            name = str(place) if ranked else each.line.question_id
            rows.append((name, each.title, each.view.found, each.view.answer, where))
        print_rows(("", "Video" if ranked else "Question", "Found", "Answer", "Where"), rows)
    else:
        paid = {"frames_supplied": frames, "dollars": cost.dollars, "price": cost.to_json()["price"]}
        click.echo(json.dumps({**printed, "cost": paid}, ensure_ascii=False))
    spent = "" if cost.dollars is None else f", {cost.money}"
    saved = f"; open {chosen.save / 'index.html'}" if chosen.save else ""
    answers, failed = count_words(len(lines), "answer"), count_words(errors, "error")
    click.echo(f"{answers}, {failed}, {frames:,} frames supplied{spent}{saved}", err=True)
    return status or int(bool(errors))
