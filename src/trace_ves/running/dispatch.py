"""Which worker gets which question, and what happens to those of a worker that is lost or fails. Knows no cluster.

Questions of one video go to one worker, so that a video is opened once. A worker whose questions end in errors one
after the other gets no more until another worker has been asked one of them: if that one answers, something is wrong
with the first worker's machine; it is set aside, and what it failed on is asked elsewhere. If not, the errors stand.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trace_ves.core import Answer
from trace_ves.core.grouped_queue import GroupedQueue
from trace_ves.records import ObservationLog, Prediction
from trace_ves.running.job import TaskResult

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from trace_ves.running.job import QuestionTask

    Line = tuple[QuestionTask, TaskResult]

MOST_LOSSES: Final = 3
"""How many workers a question may lose before it is given up."""
MOST_ERRORS_IN_A_ROW: Final = 3
"""After so many another worker is asked whether it is the questions' fault."""


@dataclass(slots=True)
class Attempt:
    """A question that is still to be asked, and what has happened to it."""

    task: QuestionTask
    losses: int = 0
    suspect: Hashable | None = None
    """The worker that answered it with an error; another one is asked next."""
    error: TaskResult | None = None
    """That worker's line."""


@dataclass(slots=True)
class WorkerState:
    """What is known of one worker."""

    video: Hashable | None = None
    """The video whose questions it is given."""
    held: list[tuple[Attempt, TaskResult]] = field(default_factory=list)
    """Errors since its last answer; they may be the worker's own fault."""
    is_accused: bool = False
    has_answered: bool = False
    """Whether any question of it ended without an error."""

    @property
    def is_trusted(self) -> bool:
        """Whether it may be asked about the errors of another."""
        return self.has_answered and not self.held and not self.is_accused


class Dispatch:
    """Hands out questions and takes lines back. One thread drives it."""

    def __init__(self, tasks: Sequence[QuestionTask]) -> None:
        self._waiting = GroupedQueue((task.video, Attempt(task)) for task in tasks)
        self._again: deque[Attempt] = deque()
        self._workers: dict[Hashable, WorkerState] = {}
        self._under_way: dict[Hashable, Attempt] = {}

    @property
    def is_finished(self) -> bool:
        """Whether every question has become a line."""
        held = any(state.held for state in self._workers.values())
        return not (self._waiting or self._again or self._under_way or held)

    def add(self, worker: Hashable) -> None:
        """A worker is ready."""
        self._workers[worker] = WorkerState()

    def has(self, worker: Hashable) -> bool:
        """Whether a worker is still given questions; if not, it was lost or set aside."""
        return worker in self._workers

    def next_for(self, worker: Hashable) -> QuestionTask | None:
        """A question for an idle worker; None where there is none for it now."""
        attempt = self._again_for(worker)
        if attempt is None and not self._workers[worker].is_accused:
            attempt = self._of_video(self._workers[worker])
        if attempt is None:
            return None
        self._under_way[worker] = attempt
        return attempt.task

    def answered(self, worker: Hashable, line: TaskResult) -> Iterator[Line]:
        """The line of a worker's question came back; gives the lines that stand now."""
        attempt, state = self._under_way.pop(worker), self._workers.get(worker, WorkerState())
        if line.error is not None and worker not in self._workers:  # set aside while it was at this question
            if attempt.suspect is None:
                attempt.suspect, attempt.error = worker, line
            self._again.append(attempt)
        elif line.error is not None and attempt.suspect is None:
            state.held.append((attempt, line))
            if len(state.held) >= MOST_ERRORS_IN_A_ROW:
                yield from self._accuse(worker)
        else:
            if line.error is None:
                state.has_answered = True
                yield from self._release(state)
            yield attempt.task, line
            yield from self._judge(attempt.suspect, guilty=line.error is None)
        yield from self._settle()

    def lost(self, worker: Hashable) -> Iterator[Line]:
        """A worker died with its question; gives the lines that stand now."""
        attempt, state = self._under_way.pop(worker, None), self._workers.pop(worker, None)
        self._again.extend(held for held, _ in (state.held if state else ()))
        if attempt is not None:
            attempt.losses += 1
            if attempt.losses < MOST_LOSSES:
                self._again.appendleft(attempt)
            else:
                yield attempt.task, lost_line(attempt.task)
                yield from self._judge(attempt.suspect, guilty=False)
        yield from self._settle()

    def _again_for(self, worker: Hashable) -> Attempt | None:
        """A question that was lost with another worker, or failed on it: the second needs one that can be trusted.

        Where nothing is under way, and so nobody may ever be trusted, any other will do.
        """
        may_judge = self._workers[worker].is_trusted or not self._under_way
        usable = (each for each in self._again if each.suspect is None or (may_judge and each.suspect != worker))
        found = next(usable, None)
        if found is not None:
            self._again.remove(found)
        return found

    def _of_video(self, state: WorkerState) -> Attempt | None:
        """The next question of the worker's video, or of another if that has none."""
        taken = self._waiting.take(state.video)
        if taken is None:
            return None
        state.video, attempt = taken
        return attempt

    def _accuse(self, worker: Hashable) -> Iterator[Line]:
        """Have one of a worker's errors asked elsewhere; where nobody else is, they stand."""
        state = self._workers[worker]
        if len(self._workers) == 1:
            yield from self._release(state)
            return
        state.is_accused = True
        probe, line = state.held.pop(0)
        probe.suspect, probe.error = worker, line
        self._again.appendleft(probe)

    def _judge(self, suspect: Hashable | None, *, guilty: bool) -> Iterator[Line]:
        """Set a worker aside whose question another one could answer; else its errors stand and it goes on."""
        state = self._workers.get(suspect)
        if state is None:
            return
        if not guilty:
            state.is_accused = False
            yield from self._release(state)
            return
        del self._workers[suspect]
        for attempt, line in state.held:
            attempt.suspect, attempt.error = suspect, line
            self._again.append(attempt)

    def _settle(self) -> Iterator[Line]:
        """What cannot be asked elsewhere stands; when nothing else is left, errors that are held are looked into."""
        if len(self._workers) == 1:
            [last] = self._workers
            for attempt in [each for each in self._again if each.suspect == last and each.error is not None]:
                self._again.remove(attempt)
                assert attempt.error is not None  # noqa: S101  selected above
                yield attempt.task, attempt.error
                yield from self._judge(last, guilty=False)
        if not (self._waiting or self._under_way or self._again):
            for worker in [worker for worker, state in self._workers.items() if state.held]:
                yield from self._accuse(worker)

    @staticmethod
    def _release(state: WorkerState) -> Iterator[Line]:
        for attempt, line in state.held:
            yield attempt.task, line
        state.held.clear()


def lost_line(task: QuestionTask) -> TaskResult:
    """The line of a question that took every worker down that was given it."""
    job = task.job
    empty = Prediction.of(
        task.question, Answer(None), ObservationLog(), method=job.method, backbone=job.backbone, seconds=0.0
    )
    error = f"{MOST_LOSSES} workers were lost while answering this question"
    return TaskResult(replace(empty, termination=None, error=error))
