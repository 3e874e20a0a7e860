"""Tasks that wait, in groups: a worker stays with its group, so that what the group shares is made ready once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

Task = TypeVar("Task")


class GroupedQueue(Generic[Task]):
    """Each task once: of the worker's own group; else of a group that nobody has begun; else of the fullest one."""

    def __init__(self, tasks: Iterable[tuple[Hashable, Task]]) -> None:
        self._waiting: dict[Hashable, deque[Task]] = {}
        for group, task in tasks:
            self._waiting.setdefault(group, deque()).append(task)
        self._untouched = deque(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, own: Hashable | None) -> tuple[Hashable, Task] | None:
        """A task and its group, for a worker whose last task was of the group `own`; None where nothing waits."""
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
