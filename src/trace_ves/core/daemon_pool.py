"""A pool of threads that nobody waits for: a person who presses Ctrl-C does not sit out what is still under way."""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_in_daemons(
    work: Callable[[Task, threading.Event], Result], tasks: Sequence[Task], *, workers: int
) -> Generator[tuple[int, Result]]:
    """Each task's place and its result, as they come in; what `work` raises is raised here.

    Work also gets an event that is set once the results are no longer wanted: where the loop ended early.
    """
    todo = deque(enumerate(tasks))
    done: SimpleQueue[tuple[int, Result] | BaseException] = SimpleQueue()
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                place, task = todo.popleft()
            except IndexError:
                return
            try:
                done.put((place, work(task, stop)))
            except BaseException as error:  # noqa: BLE001  carried over to the thread that waits, and raised there
                done.put(error)

    for _ in range(min(workers, len(tasks))):
        threading.Thread(target=run, daemon=True).start()
    try:
        for _ in tasks:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        stop.set()
