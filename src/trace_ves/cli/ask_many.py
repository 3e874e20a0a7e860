"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers that can be stopped and continued."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from trace_ves.backbone.replies import folded
from trace_ves.cli.ask import NOT_FOUND, check_question, check_video
from trace_ves.cli.options import COST_REACHED
from trace_ves.cli.process import warn
from trace_ves.cli.progress import LateProgress
from trace_ves.cli.question_table import print_rows, read_questions, write_rows
from trace_ves.core import InputError, Question, TraceVesError
from trace_ves.core.display import count_words
from trace_ves.core.files import cache_dir
from trace_ves.records.run_file import read_retried
from trace_ves.records.transcript import TranscriptIndex
from trace_ves.runs.answering import Job
from trace_ves.runs.asking import VideoQuestion, ask_many
from trace_ves.runs.prices import with_date
from trace_ves.web.search_view import Found, SearchView, span_text, view_search

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trace_ves.cli.ask import AskOptions
    from trace_ves.records import Prediction


_DENIALS: Final = frozenset({"no", "none", "nothing", "nowhere", "never", "nobody", "not", "0", "zero", "absent"})
"""An answer that begins with one of these says that a video does not show it."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One line, with its question and the view of its search."""

    line: Prediction
    view: SearchView
    question: Question | None = None
    title: str = ""  # the question, or the video

    @property
    def found(self) -> Found:
        """How sure it is."""
        return self.view.found

    @property
    def answer(self) -> str:
        """The answer, or the error."""
        return self.line.error or self.view.answer

    @property
    def where(self) -> str:
        """The spans of the clips that support it."""
        return ", ".join(span_text(clip.span) for clip in self.view.clips)

    def to_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "video": self.line.question_id,
            "found": self.found,
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
            "found": self.found,
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
            order.index(each.found),
            len(each.view.still_open),
            -len(each.view.clips),
            each.line.question_id,
        ),
    )


def read_answer(line: Prediction, question: Question | None = None, *, of_folder: bool = False) -> AnswerLine:
    """A line with the view of its search; in a folder, an answer that denies is not found."""
    view = view_search(line, question)
    words = folded(str(line.extra.get("text") or ""))
    if of_folder and view.found in {Found.SETTLED, Found.GUESS} and words[:1] and words[0] in _DENIALS:
        view = replace(view, found=Found.NO, clips=())
    title = line.question_id if of_folder or question is None else question.text
    return AnswerLine(line, view, question, title)


MOST_VIDEOS: Final = 10_000
_FORGOTTEN_AFTER_SECONDS: Final = 30 * 24 * 3600


def ask_table(video: Path, file: Path, chosen: AskOptions) -> int:
    """Answer the questions of a table about one video."""
    rows = read_questions(file, str(video))
    check_question(str(video), rows[0].question.text, rows[0].question.options, chosen.method)
    duration = check_video(video, chosen)
    asked_rows = [VideoQuestion(row.question, duration) for row in rows]
    lines, retried, status = _answer_all(asked_rows, chosen, inputs=[video, file])
    if lines is None:
        return status
    asked = {row.question.id: row for row in rows if row.question.id in lines}
    answered = [read_answer(lines[name], row.question) for name, row in asked.items()]
    labels = [{**row.cells, "id": name} for name, row in asked.items()]
    found = [each.line.to_json() | {"found": each.found} for each in answered]
    title = f"{video.name}: {file.name}"
    return _finish(answered, labels, {"answers": found}, chosen, status, retried=retried, title=title)


def ask_videos(folder: Path, words: str, options: tuple[str, ...], chosen: AskOptions) -> int:
    """Ask about every video of a folder, and rank the videos by how sure the answer is."""
    check_question(str(folder), words, options, chosen.method)
    asked = []
    for file, duration in _videos_in(folder):
        name = file.relative_to(folder).as_posix()
        question = Question(name, str(file), words.strip(), tuple(option.strip() for option in options))
        asked.append(VideoQuestion(question, duration))
    lines, retried, status = _answer_all(asked, chosen, inputs=[Path(one.question.video) for one in asked])
    if lines is None:
        return status
    questions = {one.question.id: one.question for one in asked}
    ranked = rank(read_answer(line, questions[line.question_id], of_folder=True) for line in lines.values())
    labels = [{"rank": place, "video": each.title} for place, each in enumerate(ranked, 1)]
    found = {"question": words.strip(), "ranking": [row.to_json() for row in ranked]}
    nowhere = bool(ranked) and all(each.found is Found.NO for each in ranked)
    status = status or (NOT_FOUND if nowhere else 0)
    return _finish(ranked, labels, found, chosen, status, retried=retried, title=words.strip(), ranked=True)


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
            if each.line.error is None and each.question is not None:
                folder = save_line(each.line, each.question, save, transcripts.read(name))
            pages[name] = folder
            cells.append({**label, **each.cells(folder)})
    rows = [(each.title, each.view, each.answer, pages[each.line.question_id]) for each in rank(answered)]
    write_index(save / "index.html", title, rows)
    return cells


def _videos_in(folder: Path) -> list[tuple[Path, float]]:
    """The videos below a folder, by name, with their durations; unreadable files are reported and left out."""
    from trace_ves import video as videos
    from trace_ves.video.folders import walk_videos

    files = sorted(walk_videos(folder))
    if len(files) > MOST_VIDEOS:
        raise InputError(
            f"{folder}: there are {len(files)} videos in this folder; at most {MOST_VIDEOS} are supported."
        )
    found = []
    with LateProgress() as progress:
        for done, file in enumerate(files):
            progress("opening videos", done, len(files))
            try:
                with videos.open(file) as opened:
                    found.append((file, opened.duration))
            except TraceVesError as error:
                warn(f"left out: {error}")
    if not found:
        raise InputError(f"{folder}: there is no video in this folder that can be read.")
    return found


class _Progress(LateProgress):
    """Counts the answers and their dollars; prints errors, and without a terminal a line for each answer."""

    def __init__(self, total: int, chosen: AskOptions) -> None:
        super().__init__(Console(stderr=True, quiet=chosen.as_json))
        self._total, self._chosen = total, chosen
        self._done = 0
        self._dollars: float | None = 0.0

    def begin(self, done: int) -> None:
        """Say how many were answered before."""
        self._done = done
        if done:
            self.print(f"{done} of {self._total} were answered before")

    def finish(self, line: Prediction) -> None:
        """Count one more answer."""
        self._done += 1
        cost = self._chosen.cost([line])
        self._dollars = None if cost.dollars is None or self._dollars is None else self._dollars + cost.dollars
        note = f"{self._done} of {self._total}"
        spent = "" if self._dollars is None else f", {with_date(f'${self._dollars:.4f}', [cost.price])}"
        self("asking", self._done, self._total, f"{note}{spent}")
        if line.error or not self.console.is_terminal:
            failed = "error: " if line.error else ""
            self.print(f"{note}: {line.question_id}: {failed}{read_answer(line).answer}")


def _answer_all(
    asked: Sequence[VideoQuestion], chosen: AskOptions, *, inputs: Sequence[Path]
) -> tuple[dict[str, Prediction] | None, list[Prediction], int]:
    """Every line by its question, lines that were asked again, and the exit status; no lines after an estimate."""
    from trace_ves.core.files import refuse_inputs
    from trace_ves.runs.answering import RunOptions
    from trace_ves.runs.evaluate import LEAST_CONCURRENCY
    from trace_ves.runs.methods import open_method, refuse_unread_subtitles

    if chosen.subtitles:
        refuse_unread_subtitles([open_method(chosen.method)])
    spec = chosen.spec()
    if chosen.costs.estimate_only:
        return None, [], chosen.show_estimate([one.duration for one in asked])
    job = Job(chosen.method, spec, chosen.budget)
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
    folder = save or _folder_to_continue(asked, chosen)
    names = (f"{job.name}.jsonl", "answers.csv", "ranking.csv", "index.html")
    refuse_inputs([folder, *(folder / name for name in names)], inputs=inputs)
    chosen.print_notice()
    with _Progress(len(asked), chosen) as progress:
        lines, file = ask_many(
            asked,
            job,
            folder,
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
    if chosen.save is None and not any(line.error for line in lines.values()):
        shutil.rmtree(folder, ignore_errors=True)
    return lines, retried, 0


def _folder_to_continue(asked: Sequence[VideoQuestion], chosen: AskOptions) -> Path:
    """Where answers without --save are stored until all are there, so that the same command can continue."""
    videos = {}
    for one in asked:
        with suppress(OSError):  # a simulated video is not a file
            status = Path(one.question.video).stat()
            videos[one.question.video] = (status.st_size, status.st_mtime_ns)
    words = [(one.question.id, one.question.text, one.question.options) for one in asked]
    same = (sorted(videos.items()), words, chosen.method, chosen.spec(), chosen.budget, chosen.subtitles, chosen.model)
    name = hashlib.sha256(json.dumps(same, default=str).encode()).hexdigest()[:24]
    home = cache_dir() / "asked"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in home.iterdir():
        with suppress(OSError):  # another process may delete it too
            if time.time() - old.stat().st_mtime > _FORGOTTEN_AFTER_SECONDS:
                shutil.rmtree(old)
    return home / name


def _finish(
    answered: Sequence[AnswerLine],
    labels: Sequence[Mapping[str, Any]],  # the first cells of each row
    found: dict[str, Any],
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
        names = [str(place) if ranked else each.line.question_id for place, each in enumerate(answered, 1)]
        rows = [(each.title, each.found, each.answer, each.where) for each in answered]
        header = ("", "Video" if ranked else "Question", "Found", "Answer", "Where")
        print_rows(header, [(name, *row) for name, row in zip(names, rows, strict=True)])
    else:
        paid = {"frames_supplied": frames, "dollars": cost.dollars, "price": cost.to_json()["price"]}
        click.echo(json.dumps(found | {"cost": paid}, ensure_ascii=False))
    spent = "" if cost.dollars is None else f", {cost.money}"
    saved = f"; open {chosen.save / 'index.html'}" if chosen.save else ""
    answers, failed = count_words(len(lines), "answer"), count_words(errors, "error")
    click.echo(f"{answers}, {failed}, {frames:,} frames supplied{spent}{saved}", err=True)
    return status or int(bool(errors))
