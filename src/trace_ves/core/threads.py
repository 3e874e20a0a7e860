"""Thread pool whose threads do not block exit, so that Ctrl-C does not wait for work in progress."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class GroupedQueue(Generic[Task]):
    """Hands out each task once: from the worker's group, else from an untouched group, else from the fullest."""

    def __init__(self, tasks: Iterable[tuple[Hashable, Task]]) -> None:
        self._waiting: dict[Hashable, deque[Task]] = {}
        for group, task in tasks:
            self._waiting.setdefault(group, deque()).append(task)
        self._untouched = deque(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, own: Hashable | None) -> tuple[Hashable, Task] | None:
        """A task and its group, for a worker whose last task was of the group `own`; None if no task is left."""
        if not self._waiting:
            return None
        group = own
        if group not in self._waiting:
            waiting = self._waiting
            group = self._untouched.popleft() if self._untouched else max(waiting, key=lambda each: len(waiting[each]))
        tasks = self._waiting[group]
        task = tasks.popleft()
        if not tasks:
            del self._waiting[group]
        return group, task


def run_in_daemons(
    work: Callable[[Task, threading.Event], Result],
    tasks: Sequence[Task],
    *,
    workers: int,
    group: Callable[[Task], Hashable] | None = None,
) -> Generator[tuple[int, Result]]:
    """The index and result of each task, in order of completion; exceptions of `work` are raised here.

    `work` also gets an event that is set if the caller stops early. Tasks of one group go to one thread while other
    threads have work; without groups, tasks start in order.
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
            except BaseException as error:  # noqa: BLE001  raised again in the waiting thread
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
