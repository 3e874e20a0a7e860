"""From named folders to a library: which runs, which bench, where the videos are."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.benches import load_bench
from trace_ves.benches.bench import QUESTIONS_FILE, questions_file
from trace_ves.core import InputError, Question
from trace_ves.core.jsonl import dump_line, parse_object
from trace_ves.records.base import FieldError
from trace_ves.records.disk_cache import identify, load_facts, save_facts
from trace_ves.records.prediction import SavedAnswer
from trace_ves.records.run_file import read_configuration, read_predictions
from trace_ves.records.transcript import transcripts_path
from trace_ves.web.library import CACHE_FOLDER, WORTH_CACHING, Library
from trace_ves.web.questions import BenchQuestions, QuestionInfo, locate_questions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trace_ves.records import Prediction
    from trace_ves.records.transcript import Transcript

SAVED_ANSWER: Final = "record.json"  # what `trace-ves ask --save` writes
TITLE_LENGTH: Final = 120  # characters of a question that name its page
SAVED_RUN: Final = "answer.jsonl"


def open_library(
    folder: Path,
    *,
    bench: Path | None = None,
    videos: Path | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Library:
    """The runs of a folder. Without `bench`, the one in the folder or the one that the runs were made with."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of the run files.")
    named = bench or _bench_of(folder)
    file = questions_file(named) if named else None
    home = file.parent if file else None
    infos = (_questions(file, on_progress) if file else None) or asked_questions(folder)
    roots = [root for root in (folder, home, videos) if root is not None]
    library = Library(folder, infos, roots, videos or home, bench=file)
    library.refresh(on_progress=on_progress)
    if not library.runs:
        raise InputError(f"{folder}: no run in this folder; a run is a file that ends with .jsonl.")
    return library


def _questions(file: Path, on_progress: Callable[[str, int, int], None] | None) -> Mapping[str, QuestionInfo]:
    """The questions of a bench; those of a large one that was read before stay in their file until they are shown."""
    key = ["bench", identify(file)]
    if facts := load_facts(CACHE_FOLDER, key):
        return BenchQuestions(file, facts)
    loaded = load_bench(file, on_progress=partial(on_progress, "reading bench") if on_progress else None)
    infos = {item.question.id: QuestionInfo.of_item(item) for item in loaded.items}
    if file.stat().st_size >= WORTH_CACHING and ["bench", identify(file)] == key:
        save_facts(CACHE_FOLDER, key, locate_questions(file, infos))
    return infos


def _bench_of(folder: Path) -> Path | None:
    """The bench in the folder itself, or the one that a run's configuration names and that has not changed since."""
    if (folder / QUESTIONS_FILE).is_file():
        return folder
    for sidecar in sorted(folder.glob("*.run.toml")):
        try:
            made = read_configuration(sidecar.with_name(sidecar.name.removesuffix(".run.toml") + ".jsonl"))
            if (
                made
                and made.bench
                and hashlib.sha256((folder / made.bench).read_bytes()).hexdigest() == made.bench_sha256
            ):
                return folder / made.bench
        except (OSError, ValueError, InputError):
            continue  # a run without a usable configuration is still a run
    return None


def asked_questions(folder: Path) -> dict[str, QuestionInfo]:
    """The questions stored in the lines of a folder, as `ask` keeps a table or a folder of videos."""
    found: dict[str, QuestionInfo] = {}
    for path in sorted(folder.glob("*.jsonl")):
        with suppress(FieldError, InputError):  # a run of a bench: its first line already holds no question
            for _, line in read_predictions(path, on_torn_tail=lambda _: None):
                saved = SavedAnswer.from_json({**line.extra, "question_id": line.question_id})
                name = line.question_id if saved.video.endswith(f"/{line.question_id}") else Path(saved.video).name
                found[line.question_id] = QuestionInfo(replace(saved.asked, video=name), saved.duration)
    return found


def library_of_answer(
    question: Question,
    duration: float,
    prediction: Prediction,
    folder: Path,
    *,
    videos: Path,
    transcript: Transcript | None = None,
) -> Library:
    """One answer as a library in `folder`, under the words of its question; its video is looked for in `videos`."""
    title = " ".join(question.text.split())[:TITLE_LENGTH]
    (folder / SAVED_RUN).write_bytes(dump_line(replace(prediction, question_id=title).to_json()))
    if transcript is not None:
        transcripts_path(folder / SAVED_RUN).write_bytes(dump_line(replace(transcript, question_id=title).to_json()))
    asked = replace(question, id=title, video=Path(question.video).name)
    library = Library(folder, {asked.id: QuestionInfo(asked, duration)}, [folder, videos], videos)
    library.refresh()
    return library


def is_saved_answer(folder: Path) -> bool:
    """Whether a folder was written by `ask --save`."""
    return (folder / SAVED_ANSWER).is_file() and not any(folder.glob("*.jsonl"))


def read_saved_answer(folder: Path) -> tuple[Question, float, Prediction]:
    """The question, the duration and the line that `ask --save` wrote."""
    path = folder / SAVED_ANSWER
    try:
        saved = SavedAnswer.from_json(parse_object(path.read_bytes()))
        return saved.asked, saved.duration, saved.prediction
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}; it is not what ask --save wrote.") from None
