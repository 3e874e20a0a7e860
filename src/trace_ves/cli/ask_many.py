"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers that can be stopped and continued."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from trace_ves.backbone.replies import folded
from trace_ves.cli.ask import COST_REACHED, NOT_FOUND, check_question, check_video
from trace_ves.cli.progress import LateProgress
from trace_ves.cli.question_table import print_rows, read_questions, write_rows
from trace_ves.core import InputError, Question, TraceVesError
from trace_ves.core.files import cache_dir
from trace_ves.records.transcript import TranscriptIndex
from trace_ves.runs.job import Job
from trace_ves.web.search_view import Found, SearchView, count_words, span_text, view_search

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.cli.ask import AskOptions
    from trace_ves.records import Prediction
    from trace_ves.runs.asking import VideoQuestion


_DENIALS: Final = frozenset({"no", "none", "nothing", "nowhere", "never", "nobody", "not", "0", "zero", "absent"})
"""An answer that begins with one of these says that a video does not show it."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One line, with its question and the view of its search."""

    line: Prediction
    view: SearchView
    question: Question | None = None
    title: str = ""  # the question, or the video
    folder: str = ""  # where its clips and page are, below the folder of --save

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

    def cells(self) -> dict[str, Any]:
        """The columns of a CSV file."""
        spans = "; ".join(f"{clip.span.start:.2f}-{clip.span.end:.2f}" for clip in self.view.clips)
        return {
            "answer": self.line.answer or "",
            "text": self.line.extra.get("text") or "",
            "found": self.found,
            "evidence": spans,
            "seen": "; ".join(clip.seen for clip in self.view.clips if clip.seen),
            "frames": self.line.frames_supplied,
            "folder": self.folder,
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
        view = replace(view, found=Found.NO)
    title = line.question_id if of_folder or question is None else question.text
    return AnswerLine(line, view, question, title)


MOST_VIDEOS: Final = 10_000
_FORGOTTEN_AFTER_SECONDS: Final = 30 * 24 * 3600


def ask_table(video: Path, file: Path, chosen: AskOptions) -> int:
    """Answer the questions of a table about one video."""
    rows = read_questions(file, str(video))
    check_question(str(video), rows[0].question.text, rows[0].question.options, chosen.method)
    check_video(video, chosen)
    duration = _duration(video, chosen)
    lines, status = _answer_all([(row.question, duration) for row in rows], chosen, inputs=[video, file])
    if lines is None:
        return status
    rows = [row for row in rows if row.question.id in lines]
    answered = [read_answer(lines[row.question.id], row.question) for row in rows]
    answered = _save(answered, chosen, f"{video.name}: {file.name}")
    if chosen.save is not None:
        cells = [{**row.cells, "id": row.question.id, **each.cells()} for row, each in zip(rows, answered, strict=True)]
        write_rows(chosen.save / "answers.csv", cells)
    if not chosen.as_json:
        header = ("", "Question", "Found", "Answer", "Where")
        print_rows(
            header, [(each.line.question_id, each.title, each.found, each.answer, each.where) for each in answered]
        )
    found = [each.line.to_json() | {"found": each.found} for each in answered]
    return _finish({"answers": found}, lines, chosen, status)


def ask_videos(folder: Path, words: str, options: tuple[str, ...], chosen: AskOptions) -> int:
    """Ask every video of a folder, and rank where it was found."""
    check_question(str(folder), words, options, chosen.method)
    asked = []
    for file, duration in _videos_in(folder):
        name = file.relative_to(folder).as_posix()
        asked.append((Question(name, str(file), words.strip(), tuple(option.strip() for option in options)), duration))
    lines, status = _answer_all(asked, chosen, inputs=[Path(question.video) for question, _ in asked])
    if lines is None:
        return status
    questions = {question.id: question for question, _ in asked}
    ranked = rank(read_answer(line, questions[line.question_id], of_folder=True) for line in lines.values())
    ranked = _save(ranked, chosen, words.strip())
    if chosen.save is not None:
        cells = [{"rank": place, "video": each.title} | each.cells() for place, each in enumerate(ranked, 1)]
        write_rows(chosen.save / "ranking.csv", cells)
    if not chosen.as_json:
        header = ("", "Video", "Found", "Answer", "Where")
        shown = [(each.title, each.found, each.answer, "" if each.found is Found.NO else each.where) for each in ranked]
        print_rows(header, [(str(number), *row) for number, row in enumerate(shown, 1)])
    found = {"question": words.strip(), "ranking": [row.to_json() for row in ranked]}
    nowhere = bool(ranked) and all(each.found is Found.NO for each in ranked)
    return _finish(found, lines, chosen, status or (NOT_FOUND if nowhere else 0))


def _save(answered: list[AnswerLine], chosen: AskOptions, title: str) -> list[AnswerLine]:
    """With --save: each answer in its own folder, where it is not there yet, and a page over all of them."""
    from trace_ves.web.saving import save_line, write_index

    if chosen.save is None:
        return answered
    saved = []
    run = chosen.save / f"{Job(chosen.method, chosen.spec(), chosen.budget).name}.jsonl"
    transcripts = TranscriptIndex(run)
    with LateProgress() as progress:
        for done, each in enumerate(answered):
            progress("saving", done, len(answered))
            folder = ""
            if each.line.error is None and each.question is not None:
                folder = save_line(each.line, each.question, chosen.save, transcripts.read(each.line.question_id))
            saved.append(replace(each, folder=folder))
    rows = [(each.title, each.view, each.answer, each.folder) for each in rank(saved)]
    write_index(chosen.save / "index.html", title, rows)
    return saved


def _videos_in(folder: Path) -> list[tuple[Path, float]]:
    """The videos in a folder and below it, by name, with their durations; what cannot be read is named and left out."""
    from trace_ves import video as videos
    from trace_ves.video.folders import walk_videos

    files = sorted(walk_videos(folder))
    if len(files) > MOST_VIDEOS:
        raise InputError(f"{folder}: there are {len(files)} videos in this folder; at most {MOST_VIDEOS} can be asked.")
    found = []
    with LateProgress() as progress:
        for done, file in enumerate(files):
            progress("opening videos", done, len(files))
            try:
                with videos.open(file) as opened:
                    found.append((file, opened.duration))
            except TraceVesError as error:
                click.echo(f"warning: left out: {error}", err=True)
    if not found:
        raise InputError(f"{folder}: there is no video in this folder that can be read.")
    return found


class _Progress(LateProgress):
    """Counts the answers and their dollars; prints a line for each where there is no terminal, and each error."""

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
        dollars = self._chosen.cost([line]).dollars
        self._dollars = None if dollars is None or self._dollars is None else self._dollars + dollars
        note = f"{self._done} of {self._total}"
        spent = "" if self._dollars is None else f", ${self._dollars:.4f}"
        self("asking", self._done, self._total, f"{note}{spent}")
        if line.error or not self.console.is_terminal:
            failed = "error: " if line.error else ""
            self.print(f"{note}: {line.question_id}: {failed}{read_answer(line).answer}")


def _answer_all(
    asked: Sequence[tuple[Question, float]], chosen: AskOptions, *, inputs: Sequence[Path]
) -> tuple[dict[str, Prediction] | None, int]:
    """Every line by its question, and the exit status so far; no lines where only an estimate was wanted."""
    from trace_ves.core.files import refuse_inputs
    from trace_ves.runs.asking import VideoQuestion, ask_many
    from trace_ves.runs.evaluate import LEAST_CONCURRENCY
    from trace_ves.runs.job import RunOptions
    from trace_ves.runs.methods import open_method, refuse_unread_subtitles

    if chosen.subtitles:
        refuse_unread_subtitles([open_method(chosen.method)])
    spec = chosen.spec()
    if chosen.estimate_only:
        return None, chosen.show_estimate([duration for _, duration in asked])
    questions = [VideoQuestion(question, duration) for question, duration in asked]
    job = Job(chosen.method, spec, chosen.budget)
    options = RunOptions(
        backbone_options={"concurrency": max(LEAST_CONCURRENCY, chosen.workers), **chosen.model},
        open_videos=chosen.workers,
        transcripts=chosen.transcripts,
        subtitles=chosen.subtitles,
    )
    cost_limit = chosen.cost_limit()
    save = chosen.save
    if save and save.is_dir() and any(save.iterdir()) and not any(save.glob("*.run.toml")):
        raise InputError(f"{save} is not empty; name another folder for --save.")
    if save and save.exists() and not save.is_dir():
        raise InputError(f"{save} is a file; name a folder for --save.")
    folder = save or _folder_to_continue(questions, chosen)
    names = (f"{job.name}.jsonl", "answers.csv", "ranking.csv", "index.html")
    refuse_inputs([folder, *(folder / name for name in names)], inputs=inputs)
    chosen.print_notice()
    with _Progress(len(asked), chosen) as progress:
        lines, _ = ask_many(
            questions,
            job,
            folder,
            options=options,
            workers=chosen.workers,
            cost_limit=cost_limit,
            begun=progress.begin,
            finished=progress.finish,
        )
    if cost_limit is not None and cost_limit.stopped:
        click.echo(
            f"stopped: {len(lines)} of {len(asked)} questions have cost ${cost_limit.spent:.4f}, and --max-cost is "
            f"${cost_limit.dollars:g}; continue with a higher --max-cost.",
            err=True,
        )
        return lines, COST_REACHED
    if chosen.save is None and not any(line.error for line in lines.values()):
        shutil.rmtree(folder, ignore_errors=True)
    return lines, 0


def _folder_to_continue(asked: Sequence[VideoQuestion], chosen: AskOptions) -> Path:
    """Where answers without --save are kept until all are there, so that the same command can continue."""
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


def _duration(video: Path, chosen: AskOptions) -> float:
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.runs.answering import opener_of
    from trace_ves.runs.video_pool import SharedVideo

    opener = None
    if (chosen.backbone or "").partition(":")[0] == "lab":  # it opens simulated videos
        opener = opener_of(open_backbone(chosen.spec()))
    with closing(SharedVideo(video, opener)) as shared:
        return shared.duration


def _finish(found: dict[str, Any], lines: dict[str, Prediction], chosen: AskOptions, status: int) -> int:
    """Print what was found as JSON where it is wanted, what it cost and where it is kept; 1 if there was an error."""
    errors = sum(line.error is not None for line in lines.values())
    frames = sum(line.frames_supplied for line in lines.values())
    dollars = chosen.cost(list(lines.values())).dollars
    if chosen.as_json:
        click.echo(json.dumps(found | {"cost": {"frames_supplied": frames, "dollars": dollars}}, ensure_ascii=False))
    spent = "" if dollars is None else f", ${dollars:.4f}"
    saved = f"; open {chosen.save / 'index.html'}" if chosen.save else ""
    answers, failed = count_words(len(lines), "answer"), count_words(errors, "error")
    click.echo(f"{answers}, {failed}, {frames:,} frames supplied{spent}{saved}", err=True)
    return status or int(bool(errors))
