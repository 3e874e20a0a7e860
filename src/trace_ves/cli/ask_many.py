"""`ask VIDEO --questions FILE` and `ask FOLDER QUESTION`: many answers, with progress, costs, and a way to go on."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trace_ves.backbone.replies import folded
from trace_ves.cli.ask import COST_REACHED, check_question, check_video
from trace_ves.cli.video_argument import videos_in
from trace_ves.core import FormatError, InputError, Interval, Question, Termination
from trace_ves.core.files import cache_dir
from trace_ves.core.jsonl import read_jsonl
from trace_ves.core.question import LETTERS
from trace_ves.records import ClipRecord
from trace_ves.records.search import TraceRecord, read_search
from trace_ves.runs.asking import make_question
from trace_ves.web.search_view import clock_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trace_ves.cli.ask import AskOptions
    from trace_ves.records import Prediction
    from trace_ves.runs.asking import VideoQuestion


class Found(IntEnum):
    """How sure it is that what was asked for is in a video, the surest first."""

    SETTLED = 1
    GUESS = 2
    NO = 3
    NOTHING = 4
    ERROR = 5


WORDS: Final = {
    Found.SETTLED: "found",
    Found.GUESS: "a guess",
    Found.NO: "not there",
    Found.NOTHING: "nothing found",
    Found.ERROR: "error",
}
_DENIALS: Final = frozenset({"no", "none", "nothing", "nowhere", "never", "nobody", "not", "0", "zero", "absent"})
"""An answer that begins with one of these says that it is not there."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One video and what was found in it."""

    video: str
    found: Found
    text: str | None
    """The answer in words."""
    evidence: tuple[Interval, ...]
    """Where, in order of time."""
    open_claims: int
    line: Prediction

    @property
    def is_found(self) -> bool:
        """Whether there is something to show in it."""
        return self.found <= Found.GUESS

    def to_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "video": self.video,
            "found": WORDS[self.found],
            "answer": self.line.answer,
            "text": self.text,
            "evidence": [[span.start, span.end] for span in self.evidence],
            "open_claims": self.open_claims,
            "frames_supplied": self.line.frames_supplied,
            "error": self.line.error,
        }


def ranking(lines: Iterable[Prediction]) -> list[Ranked]:
    """The videos of these lines, the one where it was found most surely first."""
    rows = [_ranked(line) for line in lines]
    return sorted(rows, key=lambda row: (row.found, row.open_claims, -len(row.evidence), row.video))


def evidence_of(line: Prediction) -> tuple[Interval, ...]:
    """The spans of the clips that an answer rests on, in order of time."""
    return tuple(sorted(clip.span for clip in line.bundle if isinstance(clip, ClipRecord)))


def _ranked(line: Prediction) -> Ranked:
    text = line.extra.get("text")
    words = text if isinstance(text, str) else None
    search = read_search(line.trajectory)
    needs = 0
    if isinstance(search, TraceRecord) and search.rounds and search.rounds[-1].flags is not None:
        needs = len(search.rounds[-1].flags.unmet_needs)
    return Ranked(line.question_id, _found(line, words), words, evidence_of(line), needs, line)


def _found(line: Prediction, words: str | None) -> Found:
    if line.error is not None:
        return Found.ERROR
    if words is None:
        return Found.NOTHING
    if folded(words)[:1] and folded(words)[0] in _DENIALS:
        return Found.NO
    return Found.SETTLED if line.termination == Termination.STABLE_PREFIX_FOUND else Found.GUESS


MOST_QUESTIONS: Final = 10_000
MOST_BYTES: Final = 64 * 1024**2
MOST_CELL_CHARACTERS: Final = 100_000
SEPARATOR: Final = "|"
"""Between the options of one cell."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One question, and what else stands in its row."""

    question: Question
    cells: Mapping[str, str] = field(default_factory=dict)
    """The row as it was, to stand beside its answer."""


def read_questions(file: Path, video: str) -> list[TableRow]:
    """The questions of a table about one video; what is wrong with a row is a `FormatError`.

    `id` may name a row, else it is its number. Options stand in a column `options` with a bar between them, or in
    columns A, B, C, …; a question without any is open.
    """
    if file.suffix.lower() in {".jsonl", ".ndjson"}:
        rows: Iterator[tuple[int, Mapping[str, object]]] = ((line.number, line.record) for line in read_jsonl(file))
    else:
        rows = _csv_rows(file)
    found: dict[str, TableRow] = {}
    for number, (line, cells) in enumerate(rows, 1):
        try:
            name = str(cells.get("id") or number).strip() or str(number)
            if name in found:
                raise InputError(f"the id {name!r} is there twice.")
            if number > MOST_QUESTIONS:
                raise InputError(f"a table has at most {MOST_QUESTIONS} questions; split it.")
            asked = make_question(video, _text(cells, "question"), _options(cells))
        except InputError as error:
            raise FormatError(str(error), path=file, line=line) from None
        plain = {key: str(value) for key, value in cells.items() if isinstance(value, str | int | float)}
        found[name] = TableRow(Question(name, video, asked.text, asked.options), plain)
    if not found:
        raise InputError(f"{file}: there is no question in this table.")
    return list(found.values())


def _csv_rows(file: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Each row as a mapping of the header's names; the separator is what stands most often in the header."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file}: larger than {MOST_BYTES // 1024**2} MB; a table of questions is small.")
        with file.open(encoding="utf-8-sig", newline="") as opened:
            header = opened.readline()
            opened.seek(0)
            reader = csv.DictReader(opened, delimiter=max(",;\t", key=header.count), strict=True)
            if "question" not in (reader.fieldnames or ()):
                raise FormatError(
                    "the first row must name the columns, and one of them `question`; others are `id`, `options` "
                    f"(separated by {SEPARATOR}), or A, B, C, ….",
                    path=file,
                    line=1,
                )
            for row in reader:
                if row.get(None) is not None:
                    raise FormatError(
                        "the row has more cells than the first row names; put quotes around a cell with a separator.",
                        path=file,
                        line=reader.line_num,
                    )
                if any(len(value or "") > MOST_CELL_CHARACTERS for value in row.values()):
                    raise FormatError(
                        f"a cell has more than {MOST_CELL_CHARACTERS:,} characters.", path=file, line=reader.line_num
                    )
                yield reader.line_num, {key: value or "" for key, value in row.items()}
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: this is not UTF-8 text; save the table as CSV UTF-8.") from None
    except csv.Error as error:
        raise FormatError(f"not a row of CSV ({error}).", path=file) from None


def _text(cells: Mapping[str, object], key: str) -> str:
    value = cells.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"the key {key!r} must be a text.")
    return value


def _options(cells: Mapping[str, object]) -> tuple[str, ...]:
    given = cells.get("options")
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return tuple(given)
    if isinstance(given, str) and given.strip():
        return tuple(given.split(SEPARATOR))
    if given not in (None, ""):
        raise InputError("the key 'options' must be a list of texts.")
    lettered = [_text(cells, letter) for letter in LETTERS if letter in cells]
    while lettered and not lettered[-1].strip():
        lettered.pop()  # rows may have fewer options than the table has columns
    return tuple(lettered)


_FORMULA: Final = ("=", "+", "@", "\t", "\r")
"""What a spreadsheet would take for a formula, at the beginning of a cell."""


def print_answers(rows: Sequence[TableRow], lines: Mapping[str, Prediction]) -> None:
    """The rows of a table that are answered, each with its answer."""
    answered = [(row.question, lines[row.question.id]) for row in rows if row.question.id in lines]
    _print_rows(
        ("", "Question", "Answer", "Settled", "Where"),
        [(asked.id, asked.text, _answer(line), _settled(line), _where(line)) for asked, line in answered],
    )


def print_ranking(ranked: Sequence[Ranked]) -> None:
    """The videos in their order, with the places where it was found."""
    _print_rows(
        ("", "Video", "Found", "Answer", "Where"),
        [
            (str(place), row.video, WORDS[row.found], _answer(row.line), _where(row.line) if row.is_found else "")
            for place, row in enumerate(ranked, 1)
        ],
    )


def write_answers(path: Path, rows: Sequence[TableRow], lines: Mapping[str, Prediction]) -> None:
    """The columns that the table had, and the answers beside them."""
    answered = [(row, lines[row.question.id]) for row in rows if row.question.id in lines]
    _write_table(path, [{**row.cells, "id": row.question.id, **_cells(line)} for row, line in answered])


def write_ranking(path: Path, ranked: Sequence[Ranked]) -> None:
    """The ranking, a row for each video."""
    rows = [{"video": row.video, "found": WORDS[row.found]} | _cells(row.line) for row in ranked]
    _write_table(path, [{"rank": place} | cells for place, cells in enumerate(rows, 1)])


def _answer(line: Prediction) -> str:
    if line.error is not None:
        return f"error: {line.error}"
    text = line.extra.get("text")
    letter = f"{line.answer}. " if line.extra.get("options") and line.answer else ""
    return f"{letter}{text}" if isinstance(text, str) else "no answer"


def _settled(line: Prediction) -> str:
    return "yes" if line.termination == Termination.STABLE_PREFIX_FOUND else "no"


def _where(line: Prediction) -> str:
    return ", ".join(f"{clock_words(span.start)}-{clock_words(span.end)}" for span in evidence_of(line))


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
    from trace_ves.core.files import write_output

    out = StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    write_output(path, out.getvalue())


def _cell(value: object) -> object:
    """A model's words that a spreadsheet would run as a formula are marked as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


_FORGOTTEN_AFTER_SECONDS: Final = 30 * 24 * 3600


def ask_table(video: Path, file: Path, chosen: AskOptions) -> int:
    """Answer the questions of a table about one video."""
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
    from trace_ves.cli.answer_panel import show_estimate
    from trace_ves.cli.ask_progress import AskProgress
    from trace_ves.core.files import refuse_inputs
    from trace_ves.runs.asking import VideoQuestion, ask_many
    from trace_ves.runs.evaluate import LEAST_CONCURRENCY
    from trace_ves.runs.job import Job, RunOptions
    from trace_ves.runs.methods import open_method, refuse_unread_subtitles

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
    from trace_ves.runs.answering import opener_of
    from trace_ves.runs.video_pool import SharedVideo

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
