"""Open a library from a folder of runs or a saved answer; finds the bench and the videos."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from trace_ves.benches import load_bench
from trace_ves.benches.bench import QUESTIONS_FILE, questions_file
from trace_ves.core import InputError, Question
from trace_ves.core.jsonl import BYTE_ORDER_MARK, dump_line, parse_object
from trace_ves.records import Item, Prediction
from trace_ves.records.base import FieldError
from trace_ves.records.prediction import SavedAnswer
from trace_ves.records.run_file import read_configuration, read_predictions
from trace_ves.records.transcript import Transcript, transcripts_path
from trace_ves.web.library import Library, PageCache
from trace_ves.web.listing import QuestionInfo

RECORD: Final = "record.json"  # what `trace-ves ask --save` writes
TITLE_LENGTH: Final = 120  # characters of a question used as its id
SAVED_RUN: Final = "answer.jsonl"


def open_library(
    folder: Path,
    *,
    bench: Path | None = None,
    videos: Path | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Library:
    """Open the runs of a folder. The default bench is the one in the folder, else the one the runs were made with."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of the run files.")
    bench = bench or _find_bench(folder)
    file = questions_file(bench) if bench else None
    home = file.parent if file else None
    cache = PageCache(file)  # identifies the bench before it is read, in case it changes meanwhile
    infos = _questions(file, cache, on_progress) if file else asked_questions(folder)
    roots = [root for root in (folder, home, videos) if root is not None]
    library = Library(folder, infos, roots, videos or home, cache=cache)
    library.refresh(on_progress=on_progress)
    if not library.runs:
        raise InputError(f"{folder}: no run in this folder; a run is a file that ends with .jsonl.")
    return library


def _questions(
    file: Path, cache: PageCache, on_progress: Callable[[str, int, int], None] | None
) -> Mapping[str, QuestionInfo]:
    left_out = cache.load_left_out()
    if left_out is not None:
        return CheckedQuestions(file, left_out)
    loaded = load_bench(file, on_progress=partial(on_progress, "reading bench") if on_progress else None)
    cache.save_left_out([problem.id for problem in loaded.problems])
    return {item.question.id: QuestionInfo.of_item(item) for item in loaded.items}


class CheckedQuestions(Mapping[str, QuestionInfo]):
    """The questions of a large bench whose check is cached; each is parsed when it is first needed."""

    def __init__(self, file: Path, left_out: Collection[str]) -> None:
        lines = file.read_bytes().removeprefix(BYTE_ORDER_MARK).splitlines()
        rows = {str(row["id"]): row for row in map(parse_object, filter(bytes.strip, lines))}
        self._rows = {name: row for name, row in rows.items() if name not in left_out}
        self._parsed: dict[str, QuestionInfo] = {}

    def __getitem__(self, question_id: str) -> QuestionInfo:
        if question_id not in self._parsed:
            self._parsed[question_id] = QuestionInfo.of_item(Item.from_json(self._rows[question_id]))
        return self._parsed[question_id]

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _find_bench(folder: Path) -> Path | None:
    """The bench in the folder, or the bench named in a run's configuration, if it has not changed."""
    if (folder / QUESTIONS_FILE).is_file():
        return folder
    for sidecar in sorted(folder.glob("*.run.toml")):
        try:
            run = read_configuration(sidecar.with_name(sidecar.name.removesuffix(".run.toml") + ".jsonl"))
            if run and run.bench and hashlib.sha256((folder / run.bench).read_bytes()).hexdigest() == run.bench_sha256:
                return folder / run.bench
        except (OSError, ValueError, InputError):
            continue  # the configuration of a run is optional
    return None


def asked_questions(folder: Path) -> dict[str, QuestionInfo]:
    """The questions stored in the run lines of a folder; `ask --save` writes them for a table or a folder of videos."""
    questions: dict[str, QuestionInfo] = {}
    for path in sorted(folder.glob("*.jsonl")):
        with suppress(FieldError, InputError):  # a bench run holds no questions, and a last line may be torn
            for _, line in read_predictions(path):
                saved = SavedAnswer.from_json({**line.extra, "question_id": line.question_id})
                name = line.question_id if saved.video.endswith(f"/{line.question_id}") else Path(saved.video).name
                questions[line.question_id] = QuestionInfo(replace(saved.asked, video=name), saved.duration)
    return questions


def library_of_answer(
    question: Question,
    duration: float,
    prediction: Prediction,
    folder: Path,
    *,
    videos: Path,
    transcript: Transcript | None = None,
) -> Library:
    """Write one answer to `folder` as a run, and open it; the start of its question becomes its id."""
    title = " ".join(question.text.split())[:TITLE_LENGTH]
    (folder / SAVED_RUN).write_bytes(dump_line(replace(prediction, question_id=title).to_json()))
    if transcript is not None:
        transcripts_path(folder / SAVED_RUN).write_bytes(dump_line(replace(transcript, question_id=title).to_json()))
    renamed = replace(question, id=title, video=Path(question.video).name)
    library = Library(folder, {renamed.id: QuestionInfo(renamed, duration)}, [folder, videos], videos)
    library.refresh()
    return library


def is_saved_answer(folder: Path) -> bool:
    """Whether a folder was written by `ask --save`."""
    return (folder / RECORD).is_file() and not any(folder.glob("*.jsonl"))


def read_saved_answer(folder: Path) -> tuple[Question, float, Prediction]:
    """Read the question, duration and run line that `ask --save` wrote."""
    path = folder / RECORD
    try:
        saved = SavedAnswer.from_json(parse_object(path.read_bytes()))
        return saved.asked, saved.duration, saved.prediction
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}; this is not a file of `ask --save`.") from None
