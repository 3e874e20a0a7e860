"""A pool of threads that nobody waits for: a person who presses Ctrl-C does not sit out what is still under way."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from trace_ves.core.grouped_queue import GroupedQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Sequence

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_in_daemons(
    work: Callable[[Task, threading.Event], Result],
    tasks: Sequence[Task],
    *,
    workers: int,
    group: Callable[[Task], Hashable] | None = None,
) -> Generator[tuple[int, Result]]:
    """Each task's place and its result, as they come in; what `work` raises is raised here.

    Work also gets an event that is set once the results are no longer wanted: where the loop ended early. Tasks of one
    group go to one thread as long as there are others for the rest; without groups they are begun in their order.
    """
    todo = GroupedQueue((group(task) if group else None, (place, task)) for place, task in enumerate(tasks))
    taking = threading.Lock()
    done: SimpleQueue[tuple[int, Result] | BaseException] = SimpleQueue()
    stop = threading.Event()

    def run() -> None:
        own: Hashable | None = None
        while not stop.is_set():
            with taking:
                taken = todo.take(own)
            if taken is None:
                return
            own, (place, task) = taken
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
