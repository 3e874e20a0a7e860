"""Thread pool whose threads do not block exit, so that Ctrl-C does not wait for work in progress."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class GroupedQueue(Generic[Task]):
    """A queue of tasks in groups. A worker stays in its group, then gets an untouched group, then the largest one."""

    def __init__(self, tasks: Iterable[tuple[Hashable, Task]]) -> None:
        self._waiting: dict[Hashable, deque[Task]] = {}
        for group, task in tasks:
            self._waiting.setdefault(group, deque()).append(task)
        self._untouched = deque(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, last_group: Hashable | None) -> tuple[Hashable, Task] | None:
        """Remove a task for a worker whose last task was of this group; returns it with its group, or None."""
        if not self._waiting:
            return None
        group = last_group
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
    queue = GroupedQueue((group(task) if group else None, (place, task)) for place, task in enumerate(tasks))
    lock = threading.Lock()
    outcomes: SimpleQueue[tuple[int, Result] | BaseException] = SimpleQueue()
    stop = threading.Event()

    def run() -> None:
        last_group: Hashable | None = None
        while not stop.is_set():
            with lock:
                next_task = queue.take(last_group)
            if next_task is None:
                return
            last_group, (place, task) = next_task
            try:
                outcomes.put((place, work(task, stop)))
            except BaseException as error:  # noqa: BLE001  raised again in the waiting thread
                outcomes.put(error)

    for _ in range(min(workers, len(tasks))):
        threading.Thread(target=run, daemon=True).start()
    try:
        for _ in tasks:
            outcome = outcomes.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        stop.set()
