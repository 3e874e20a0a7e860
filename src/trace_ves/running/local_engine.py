"""The tasks of a run on the threads of one machine: while one waits for its model, another decodes."""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

from trace_ves.running.answering import Answerer

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from trace_ves.records import Prediction
    from trace_ves.running.job import QuestionTask, RunOptions

    Outcome = tuple[QuestionTask, Prediction] | BaseException


def answer_locally(
    tasks: Sequence[QuestionTask], options: RunOptions, *, workers: int
) -> Generator[tuple[QuestionTask, Prediction]]:
    """Each task with its line, as they come in. Ending the loop early abandons what is under way."""
    answerer = Answerer(options)
    answerer.prepare(dict.fromkeys(task.job for task in tasks))
    todo, stop = deque(tasks), threading.Event()
    done: SimpleQueue[Outcome] = SimpleQueue()
    for _ in range(min(workers, len(tasks))):
        # Daemons: a person who presses Ctrl-C does not wait for the answers that are still under way.
        threading.Thread(target=_work, args=(answerer, todo, done, stop), daemon=True).start()
    try:
        for _ in tasks:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        stop.set()


def _work(answerer: Answerer, todo: deque[QuestionTask], done: SimpleQueue[Outcome], stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            task = todo.popleft()
        except IndexError:
            return
        try:
            done.put((task, answerer(task)))
        except BaseException as error:  # noqa: BLE001  carried over to the thread that waits, and raised there
            done.put(error)
