"""The tasks of a run on the threads of one machine: while one waits for its model, another decodes.

A thread stays with a question until all its methods have answered: two threads at one would look at the same frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.core.daemon_pool import run_in_daemons
from trace_ves.running.answering import Answerer

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from trace_ves.running.job import QuestionTask, RunOptions, TaskResult


def answer_locally(
    tasks: Sequence[QuestionTask], options: RunOptions, *, workers: int
) -> Generator[tuple[QuestionTask, TaskResult]]:
    """Each task with its line, as they come in. Ending the loop early abandons what is under way."""
    answerer = Answerer(options)
    answerer.prepare(dict.fromkeys(task.job for task in tasks))
    results = run_in_daemons(
        lambda task, _: answerer(task), tasks, workers=workers, group=lambda task: task.question.id
    )
    for place, result in results:
        yield tasks[place], result
