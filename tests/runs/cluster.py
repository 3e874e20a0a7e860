"""A cluster in virtual time: workers of given habits, one driver, and what each of them waited."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from trace_ves.core import Answer, Question
from trace_ves.records import ObservationLog, Prediction
from trace_ves.runs.answering import Job, QuestionTask, TaskResult
from trace_ves.runs.ray_engine import Dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JOB = Job("uniform-8", "fake")


def tasks(videos: int, questions_each: int) -> list[QuestionTask]:
    return [
        QuestionTask(JOB, Question(f"v{video}q{number}", f"v{video}.mp4", "?", ("a", "b")), f"v{video}.mp4")
        for video in range(videos)
        for number in range(questions_each)
    ]


def line(task: QuestionTask, error: str | None = None) -> TaskResult:
    answer = Answer(None if error else "A")
    made = Prediction.of(task.question, answer, ObservationLog(), method="uniform-8", backbone="fake", seconds=0.0)
    return TaskResult(replace(made, error=error))


@dataclass(eq=False)
class FakeWorker:
    """Answers a question in so many seconds, one of a new video in so many more; may fail or die."""

    seconds: float = 10.0
    opening_seconds: float = 2.0
    fails: Callable[[QuestionTask], bool] = lambda _: False
    dies: Callable[[QuestionTask], bool] = lambda _: False
    busy: float = 0.0
    openings: int = 0
    video: str = ""
    name: int = field(default_factory=count().__next__)

    def work(self, task: QuestionTask) -> float:
        opening = self.opening_seconds if task.video != self.video else 0.0
        self.openings += task.video != self.video
        self.video = task.video
        return self.seconds + opening


@dataclass
class Outcome:
    lines: list[tuple[QuestionTask, TaskResult]]
    seconds: float
    asked: int
    dropped: list[FakeWorker]


def simulate(
    work: Sequence[QuestionTask],
    workers: Sequence[FakeWorker],
    *,
    driver_seconds: float = 0.0,
    keep: Callable[[QuestionTask, TaskResult], None] | None = None,
) -> Outcome:
    """Run all questions; `driver_seconds` is what the driver needs for each event, one after the other."""
    dispatch, clock, asked = Dispatch(work), 0.0, 0
    events: list[tuple[float, int, FakeWorker, QuestionTask]] = []
    found: list[tuple[QuestionTask, TaskResult]] = []
    numbers, idle = count(), set(workers)
    for worker in workers:
        dispatch.add(worker)

    def assign() -> None:
        nonlocal asked
        for worker in sorted(idle, key=lambda each: each.name):
            if dispatch.has(worker) and (task := dispatch.next_for(worker)) is not None:
                idle.discard(worker)
                asked += 1
                seconds = worker.work(task)
                worker.busy += seconds
                heapq.heappush(events, (clock + seconds, next(numbers), worker, task))

    assign()
    while not dispatch.is_finished:
        assert events, "nobody works, and questions are left"
        when, _, worker, task = heapq.heappop(events)
        clock = max(clock, when) + driver_seconds
        if worker.dies(task):
            stood = list(dispatch.lost(worker))
        else:
            idle.add(worker)
            stood = list(dispatch.answered(worker, line(task, "it failed" if worker.fails(task) else None)))
        for pair in stood:
            found.append(pair) if keep is None else keep(*pair)
        assign()
    return Outcome(found, clock, asked, [worker for worker in workers if not dispatch.has(worker)])
