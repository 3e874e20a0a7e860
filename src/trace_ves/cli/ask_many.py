"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers that can be stopped and continued."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from trace_ves.backbone.replies import folded
from trace_ves.cli.ask import COST_REACHED, check_question, check_video
from trace_ves.cli.progress import LateProgress
from trace_ves.cli.question_table import print_rows, read_questions, write_rows
from trace_ves.core import InputError, Interval, Question, Termination, TraceVesError
from trace_ves.core.files import cache_dir
from trace_ves.records import ClipRecord
from trace_ves.records.search import TraceRecord, read_search
from trace_ves.web.search_view import span_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.cli.ask import AskOptions
    from trace_ves.records import Prediction
    from trace_ves.runs.asking import VideoQuestion


class Found(StrEnum):
    """How sure it is that what was asked for is in a video, the surest first."""

    SETTLED = "found"
    GUESS = "a guess"
    NO = "not there"
    NOTHING = "nothing found"
    ERROR = "error"


_DENIALS: Final = frozenset({"no", "none", "nothing", "nowhere", "never", "nobody", "not", "0", "zero", "absent"})
"""An answer that begins with one of these says that it is not there."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One video and what was found in it."""

    found: Found
    open_claims: int
    line: Prediction

    @property
    def video(self) -> str:
        """Its name, which is the id of its question."""
        return self.line.question_id

    def to_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "video": self.video,
            "found": self.found,
            "answer": self.line.answer,
            "text": self.line.extra.get("text"),
            "evidence": [[span.start, span.end] for span in _evidence(self.line)],
            "open_claims": self.open_claims,
            "frames_supplied": self.line.frames_supplied,
            "error": self.line.error,
        }


def rank(lines: Iterable[Prediction]) -> list[Ranked]:
    """The videos of these lines, the one where it was found most surely first."""
    order = list(Found)
    rows = []
    for line in lines:
        search = read_search(line.trajectory)
        flags = search.rounds[-1].flags if isinstance(search, TraceRecord) and search.rounds else None
        rows.append(Ranked(_found(line), len(flags.unmet_needs) if flags else 0, line))
    return sorted(rows, key=lambda row: (order.index(row.found), row.open_claims, -len(_evidence(row.line)), row.video))


def _found(line: Prediction) -> Found:
    text = line.extra.get("text")
    if line.error is not None:
        return Found.ERROR
    if not isinstance(text, str):
        return Found.NOTHING
    if folded(text)[:1] and folded(text)[0] in _DENIALS:
        return Found.NO
    return Found.SETTLED if line.termination == Termination.STABLE_PREFIX_FOUND else Found.GUESS


def _evidence(line: Prediction) -> list[Interval]:
    """The spans of the clips that support an answer, in order of time."""
    return sorted(clip.span for clip in line.bundle if isinstance(clip, ClipRecord))


def _answer(line: Prediction) -> str:
    if line.error is not None:
        return f"error: {line.error}"
    text = line.extra.get("text")
    letter = f"{line.answer}. " if line.extra.get("options") and line.answer else ""
    return f"{letter}{text}" if isinstance(text, str) else "no answer"


def _settled(line: Prediction) -> str:
    return "yes" if line.termination == Termination.STABLE_PREFIX_FOUND else "no"


def _where(line: Prediction) -> str:
    return ", ".join(map(span_text, _evidence(line)))


def _cells(line: Prediction) -> dict[str, Any]:
    """The columns of an answer in a CSV file."""
    return {
        "answer": line.answer or "",
        "text": line.extra.get("text") or "",
        "settled": _settled(line),
        "evidence": "; ".join(f"{span.start:.2f}-{span.end:.2f}" for span in _evidence(line)),
        "frames": line.frames_supplied,
        "error": line.error or "",
    }


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
    answered = [(row, lines[row.question.id]) for row in rows if row.question.id in lines]
    if chosen.save is not None:
        cells = [{**row.cells, "id": row.question.id, **_cells(line)} for row, line in answered]
        write_rows(chosen.save / "answers.csv", cells)
    if not chosen.as_json:
        header = ("", "Question", "Answer", "Settled", "Where")
        asked = [(row.question.id, row.question.text, line) for row, line in answered]
        print_rows(header, [(name, text, _answer(line), _settled(line), _where(line)) for name, text, line in asked])
    return _finish({"answers": [line.to_json() for _, line in answered]}, lines, chosen, status)


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
    ranked = rank(lines.values())
    if chosen.save is not None:
        cells = [{"video": row.video, "found": row.found} | _cells(row.line) for row in ranked]
        write_rows(chosen.save / "ranking.csv", [{"rank": place} | each for place, each in enumerate(cells, 1)])
    if not chosen.as_json:
        places = [_where(row.line) if row.found in {Found.SETTLED, Found.GUESS} else "" for row in ranked]
        shown = [(row.video, row.found, _answer(row.line), place) for row, place in zip(ranked, places, strict=True)]
        header = ("", "Video", "Found", "Answer", "Where")
        print_rows(header, [(str(number), *row) for number, row in enumerate(shown, 1)])
    found = {"question": words.strip(), "ranking": [row.to_json() for row in ranked]}
    return _finish(found, lines, chosen, status)


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
            self.print(f"{note}: {line.question_id}: {_answer(line)}")


def _answer_all(
    asked: Sequence[tuple[Question, float]], chosen: AskOptions, *, inputs: Sequence[Path]
) -> tuple[dict[str, Prediction] | None, int]:
    """Every line by its question, and the exit status so far; no lines where only an estimate was wanted."""
    from trace_ves.core.files import refuse_inputs
    from trace_ves.runs.asking import VideoQuestion, ask_many
    from trace_ves.runs.evaluate import LEAST_CONCURRENCY
    from trace_ves.runs.job import Job, RunOptions
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
    files = [folder / name for name in (f"{job.name}.jsonl", "answers.csv", "ranking.csv")]
    refuse_inputs([folder, *files], inputs=inputs)
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
            f"${cost_limit.dollars:g}; a higher --max-cost goes on.",
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
    if (chosen.backbone or "").partition(":")[0] == "lab":  # it opens videos that were never drawn
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
    kept = f"; kept in {chosen.save}" if chosen.save else ""
    click.echo(f"{len(lines)} answered, {errors} errors, {frames} frames supplied{spent}{kept}", err=True)
    return status or int(bool(errors))
