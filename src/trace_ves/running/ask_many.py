"""Many questions without gold answers: a table of them about one video, or one of them about many videos.

Like a run, but each line of the run file also holds its question, so that the file needs no bench beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from trace_ves.core import InputError, Termination
from trace_ves.records.prediction import Prediction
from trace_ves.records.run_file import RunFile, read_predictions
from trace_ves.records.saved_answer import SavedAnswer
from trace_ves.running.job import QuestionTask, RunOptions
from trace_ves.running.local_engine import answer_locally
from trace_ves.running.run import configuration
from trace_ves.running.task_loop import answer_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from trace_ves.core import Question
    from trace_ves.cost.limit import CostLimit
    from trace_ves.running.job import Job, TaskResult


@dataclass(frozen=True, slots=True)
class VideoQuestion:
    """A question, and how long its video is."""

    question: Question
    duration: float


def ask_many(
    asked: Sequence[VideoQuestion],
    job: Job,
    out: Path,
    *,
    options: RunOptions,
    workers: int,
    cost_limit: CostLimit | None = None,
    begun: Callable[[int], None] = lambda _: None,
    finished: Callable[[Prediction], None] = lambda _: None,
) -> tuple[dict[str, Prediction], Path]:
    """Answer what is not answered yet in the folder `out`; gives every line there by its question, and the file.

    Lines that ended in an error are asked again. A question that stands there in other words is refused. `begun` hears
    how many were answered before, `finished` of each line as it is written.
    """
    known = {one.question.id: one for one in asked}
    with RunFile(out, job.name, configuration(job, None, None, options)) as file:
        for _, line in read_predictions(file.path):
            _refuse_other_words(line, known, file.path)
        file.forget_errors()
        tasks = [
            QuestionTask(job, one.question, one.question.video) for one in asked if one.question.id not in file.finished
        ]
        begun(len(asked) - len(tasks))
        answer_tasks(
            tasks,
            {job: file},
            partial(_engine, known=known, workers=workers),
            options,
            cost_limit=cost_limit,
            finished=lambda _, line: finished(line),
        )
    lines = read_predictions(file.path) if file.path.exists() else ()
    return {line.question_id: line for _, line in lines if line.question_id in known}, file.path


def _engine(
    tasks: Sequence[QuestionTask], options: RunOptions, *, known: dict[str, VideoQuestion], workers: int
) -> Generator[tuple[QuestionTask, TaskResult]]:
    for task, result in answer_locally(tasks, options, workers=workers):
        told = with_question(result.prediction, task.question, known[task.question.id].duration)
        yield task, replace(result, prediction=told)


def with_question(line: Prediction, question: Question, duration: float) -> Prediction:
    """A line that also says what was asked, of which video, and what was answered in words."""
    stable = line.termination == Termination.STABLE_PREFIX_FOUND
    saved = SavedAnswer.of(question, duration, line, text=answer_text(line, question), stable=stable)
    return Prediction.from_json(saved.to_json())


def answer_text(line: Prediction, question: Question) -> str | None:
    """The answer in words: the option's text, or the open answer."""
    return line.answer if line.answer is None or question.is_open else question.option(line.answer)


def _refuse_other_words(line: Prediction, known: dict[str, VideoQuestion], path: Path) -> None:
    one = known.get(line.question_id)
    was = (line.extra.get("question"), line.extra.get("options"))
    if one is not None and was != (one.question.text, list(one.question.options)):
        raise InputError(
            f"{path}: {line.question_id!r} was asked there in other words or with other options; "
            "give another folder for --save."
        )
