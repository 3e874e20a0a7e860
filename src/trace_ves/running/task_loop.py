"""Tasks carried out by an engine: each line is written as it comes in, until all are or the money is spent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from trace_ves.records.run_file import FinishedLine
from trace_ves.records.transcript import TranscriptFile
from trace_ves.running.job import Job, QuestionTask, RunOptions, TaskResult

if TYPE_CHECKING:
    from trace_ves.cost.limit import CostLimit
    from trace_ves.records import Prediction
    from trace_ves.records.run_file import RunFile

Engine = Callable[[Sequence[QuestionTask], RunOptions], Generator[tuple[QuestionTask, TaskResult], None, None]]
"""Carries out tasks, in any order, and gives each back with what came of it."""


def answer_tasks(
    tasks: Sequence[QuestionTask],
    files: Mapping[Job, RunFile],
    engine: Engine,
    options: RunOptions,
    *,
    cost_limit: CostLimit | None,
    finished: Callable[[QuestionTask, Prediction], None],
) -> None:
    """Have tasks answered and write each line as soon as it is there, what was said in its calls before it.

    Where the cost limit is reached, what was paid for earlier included, no further task is begun. `finished` hears of
    each line once it is written.
    """
    if cost_limit is not None:
        cost_limit.check(job.backbone for job in files)
        for job, file in files.items():
            for line in file.finished.values():
                cost_limit.add(job.backbone, line)
        cost_limit.stopped = bool(tasks) and cost_limit.reached
    if not tasks or (cost_limit is not None and cost_limit.reached):
        return
    with ExitStack() as stack:
        transcripts = {job: stack.enter_context(closing(TranscriptFile(file.path))) for job, file in files.items()}
        outcomes = stack.enter_context(closing(engine(tasks, options)))
        for number, (task, result) in enumerate(outcomes, start=1):
            if result.transcript is not None:
                transcripts[task.job].append(result.transcript)
            files[task.job].append(result.prediction)
            finished(task, result.prediction)
            if cost_limit is not None:
                cost_limit.add(task.job.backbone, FinishedLine.of(result.prediction))
                if cost_limit.reached and number < len(tasks):
                    cost_limit.stopped = True
                    break
