"""The same tasks on a Ray cluster. Workers only answer; the driver writes every line, so a lost worker loses nothing.

`Dispatch` decides which worker gets which question, without Ray; `_Cluster` does it. A cluster of only this machine
listens on loopback and requires a token.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core import InputError, MissingExtraError
from trace_ves.core.threads import GroupedQueue
from trace_ves.records import Prediction
from trace_ves.runs.answering import Answerer, Job, QuestionTask, RunOptions, TaskResult

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Iterator, Sequence

    Line = tuple[QuestionTask, TaskResult]

MOST_LOSSES: Final = 3  # Workers that a question may kill before it is given up
MOST_ERRORS_IN_A_ROW: Final = 3
"""After this many, another worker gets one of the questions, to tell a bad worker from bad questions."""
STARTS_PER_WORKER: Final = 3  # Maximum starts per worker


@dataclass(slots=True)
class Attempt:
    """A question to ask, and what happened to it so far."""

    task: QuestionTask
    losses: int = 0
    failed_on: Hashable | None = None
    """The worker that answered it with an error; another one is asked next."""
    error: TaskResult | None = None
    """That worker's line."""


@dataclass(slots=True)
class WorkerState:
    """What the driver knows about one worker."""

    video: Hashable | None = None
    """The video whose questions it gets."""
    pending: list[tuple[Attempt, TaskResult]] = field(default_factory=list)
    """Errors since its last answer, which the worker itself may have caused."""
    is_paused: bool = False
    """Whether it waits until another worker has been asked one of its failed questions."""
    has_answered: bool = False
    """Whether it answered any question without an error."""

    @property
    def is_reliable(self) -> bool:
        """Whether its result tells if another worker's error is the question's fault."""
        return self.has_answered and not self.pending and not self.is_paused


class Dispatch:
    """Hands out questions and takes lines back. One thread drives it."""

    def __init__(self, tasks: Sequence[QuestionTask]) -> None:
        self._waiting = GroupedQueue((task.video, Attempt(task)) for task in tasks)
        self._retries: deque[Attempt] = deque()
        self._workers: dict[Hashable, WorkerState] = {}
        self._under_way: dict[Hashable, Attempt] = {}

    @property
    def is_finished(self) -> bool:
        """Whether every question has become a line."""
        pending = any(state.pending for state in self._workers.values())
        return not (self._waiting or self._retries or self._under_way or pending)

    def add(self, worker: Hashable) -> None:
        """A worker is ready."""
        self._workers[worker] = WorkerState()

    def has(self, worker: Hashable) -> bool:
        """Whether a worker still gets questions; if not, it was lost or dropped."""
        return worker in self._workers

    def next_for(self, worker: Hashable) -> QuestionTask | None:
        """A question for an idle worker; None if there is none now."""
        attempt, state = self._retry_for(worker), self._workers[worker]
        if attempt is None and not state.is_paused and (taken := self._waiting.take(state.video)) is not None:
            state.video, attempt = taken
        if attempt is None:
            return None
        self._under_way[worker] = attempt
        return attempt.task

    def answered(self, worker: Hashable, line: TaskResult) -> Iterator[Line]:
        """Take the line of a worker's question; returns the lines that are now final."""
        attempt, state = self._under_way.pop(worker), self._workers.get(worker, WorkerState())
        if line.error is not None and worker not in self._workers:  # dropped during this question
            if attempt.failed_on is None:
                attempt.failed_on, attempt.error = worker, line
            self._retries.append(attempt)
        elif line.error is not None and attempt.failed_on is None:
            state.pending.append((attempt, line))
            if len(state.pending) >= MOST_ERRORS_IN_A_ROW:
                yield from self._check_worker(worker)
        else:
            if line.error is None:
                state.has_answered = True
                yield from self._release_errors(state)
            yield attempt.task, line
            yield from self._resolve_check(attempt.failed_on, faulty=line.error is None)
        yield from self._settle_errors()

    def lost(self, worker: Hashable) -> Iterator[Line]:
        """Note that a worker died with its question; returns the lines that are now final."""
        attempt, state = self._under_way.pop(worker, None), self._workers.pop(worker, None)
        self._retries.extend(pending for pending, _ in (state.pending if state else ()))
        if attempt is not None:
            attempt.losses += 1
            if attempt.losses < MOST_LOSSES:
                self._retries.appendleft(attempt)
            else:
                yield attempt.task, lost_line(attempt.task)
                yield from self._resolve_check(attempt.failed_on, faulty=False)
        yield from self._settle_errors()

    def _retry_for(self, worker: Hashable) -> Attempt | None:
        """A question that was lost with another worker, or failed on it; the second kind needs a reliable worker.

        If nothing is running, no worker can become reliable, so any other one will do.
        """
        may_check = self._workers[worker].is_reliable or not self._under_way
        usable = (each for each in self._retries if each.failed_on is None or (may_check and each.failed_on != worker))
        found = next(usable, None)
        if found is not None:
            self._retries.remove(found)
        return found

    def _check_worker(self, worker: Hashable) -> Iterator[Line]:
        """Pause a worker and ask one of its failed questions elsewhere; if it is the only one, its errors are final."""
        state = self._workers[worker]
        if len(self._workers) == 1:
            yield from self._release_errors(state)
            return
        state.is_paused = True
        probe, line = state.pending.pop(0)
        probe.failed_on, probe.error = worker, line
        self._retries.appendleft(probe)

    def _resolve_check(self, failed_on: Hashable | None, *, faulty: bool) -> Iterator[Line]:
        """Drop a worker whose question another one answered; otherwise its errors are final and it continues."""
        state = self._workers.get(failed_on)
        if state is None:
            return
        if not faulty:
            state.is_paused = False
            yield from self._release_errors(state)
            return
        del self._workers[failed_on]
        for attempt, line in state.pending:
            attempt.failed_on, attempt.error = failed_on, line
            self._retries.append(attempt)

    def _settle_errors(self) -> Iterator[Line]:
        """Make errors final that cannot be asked elsewhere; check the rest once no other question is left."""
        if len(self._workers) == 1:
            [last] = self._workers
            for attempt in [each for each in self._retries if each.failed_on == last]:
                if attempt.error is not None:
                    self._retries.remove(attempt)
                    yield attempt.task, attempt.error
                    yield from self._resolve_check(last, faulty=False)
        if not (self._waiting or self._under_way or self._retries):
            for worker in [worker for worker, state in self._workers.items() if state.pending]:
                yield from self._check_worker(worker)

    @staticmethod
    def _release_errors(state: WorkerState) -> Iterator[Line]:
        for attempt, line in state.pending:
            yield attempt.task, line
        state.pending.clear()


def lost_line(task: QuestionTask) -> TaskResult:
    """The line of a question that killed every worker that got it."""
    error = f"{MOST_LOSSES} workers were lost while answering this question"
    return TaskResult(
        Prediction(task.question.id, None, method=task.job.method, backbone=task.job.backbone, error=error)
    )


class Worker:
    """One process of the cluster."""

    def __init__(self, options: RunOptions, folder: str) -> None:
        if Path(folder).is_dir() and folder not in sys.path:
            sys.path.append(folder)  # where the driver was started; your own method may be there
        self._answerer = Answerer(options)

    def check_jobs(self, jobs: Sequence[Job]) -> str | None:
        """The first problem with the methods and backbones of these jobs, if any."""
        try:
            self._answerer.prepare(jobs)
        except InputError as error:
            return str(error)
        return None

    def answer(self, task: QuestionTask) -> TaskResult:
        """Answer one task."""
        return self._answerer(task)


def answer_on_ray(
    tasks: Sequence[QuestionTask], options: RunOptions, *, workers: int, address: str | None = None
) -> Generator[tuple[QuestionTask, TaskResult]]:
    """Each task with its line, as they finish. Without an address, the cluster is this machine."""
    elsewhere = address is not None or "RAY_ADDRESS" in os.environ
    ray = _ray(elsewhere=elsewhere)
    started_here = not ray.is_initialized()
    try:
        if started_here:
            _connect(ray, address, workers, elsewhere=elsewhere)
        yield from _Cluster(ray, tasks, _without_shared_cache(options) if elsewhere else options, workers).run()
    finally:
        if started_here:
            ray.shutdown()


class _Cluster:
    """Starts workers and gives each of them one task at a time.

    A worker that the cluster has no room for never reports, and so never holds a task.
    """

    def __init__(self, ray: Any, tasks: Sequence[QuestionTask], options: RunOptions, workers: int) -> None:
        self._ray = ray
        self._dispatch = Dispatch(tasks)
        self._jobs = list(dict.fromkeys(task.job for task in tasks))
        self._options = options
        self._workers = min(workers, len(tasks))
        self._starts_left = self._workers * STARTS_PER_WORKER
        self._reporting: dict[Any, Any] = {}
        self._under_way: dict[Any, Any] = {}
        self._idle: set[Any] = set()

    def run(self) -> Iterator[tuple[QuestionTask, TaskResult]]:
        for _ in range(self._workers):
            self._start_worker()
        while not self._dispatch.is_finished:
            if not self._reporting and not self._under_way:
                raise InputError("every worker of the Ray cluster was lost; what was finished is kept.")
            [ready], _ = self._ray.wait([*self._reporting, *self._under_way], num_returns=1)
            if ready in self._reporting:
                self._add_worker(self._reporting.pop(ready), ready)
            else:
                yield from self._collect(ready)
            self._assign_tasks()

    def _start_worker(self) -> None:
        """Start one more worker, if there are starts left."""
        if self._starts_left <= 0:
            return
        self._starts_left -= 1
        worker = self._ray.remote(Worker).options(max_restarts=0, **self._share())
        actor = worker.remote(self._options, str(Path.cwd()))
        self._reporting[actor.check_jobs.remote(self._jobs)] = actor

    def _share(self) -> dict[str, float]:
        """The resources of a worker: an equal share of the cores, and a GPU for a model that runs in it."""
        resources = self._ray.cluster_resources()
        cores = min(1.0, float(resources.get("CPU", 1)) / self._workers)
        local_model = any(job.backbone.startswith("hf:") for job in self._jobs)
        return {"num_cpus": cores, "num_gpus": 1 if local_model and resources.get("GPU") else 0}

    def _add_worker(self, worker: Any, report: Any) -> None:
        try:
            problem = self._ray.get(report)
        except self._ray.exceptions.RayError as error:
            if self._starts_left <= 0 and not self._reporting and not self._under_way:
                raise InputError(f"the workers of the Ray cluster die before they start: {error}.") from None
            self._start_worker()
            return
        if problem:
            raise InputError(problem)
        self._dispatch.add(worker)
        self._idle.add(worker)

    def _assign_tasks(self) -> None:
        """Give every idle worker a task, if there is one for it; replace workers that `Dispatch` dropped."""
        for worker in list(self._idle):
            if not self._dispatch.has(worker):
                self._idle.discard(worker)
                self._ray.kill(worker)
                self._start_worker()
            elif (task := self._dispatch.next_for(worker)) is not None:
                self._idle.discard(worker)
                self._under_way[worker.answer.remote(task)] = worker

    def _collect(self, ready: Any) -> Iterator[tuple[QuestionTask, TaskResult]]:
        worker = self._under_way.pop(ready)
        try:
            line = self._ray.get(ready)
        except self._ray.exceptions.RayTaskError:
            raise  # an error that stops the whole program
        except self._ray.exceptions.RayError:  # the worker or its machine died
            self._start_worker()
            yield from self._dispatch.lost(worker)
        else:
            self._idle.add(worker)
            yield from self._dispatch.answered(worker, line)


STARTS: Final = 3
"""How often a local cluster is started: Ray gives its node 30 s, which a busy machine can exceed."""

LOOPBACK_VARIABLE: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""0 keeps Ray's servers on loopback on every system, despite its name."""


def _ray(*, elsewhere: bool) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics
    if not elsewhere and "ray" not in sys.modules:
        os.environ.setdefault(LOOPBACK_VARIABLE, "0")
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray  # an optional part, loaded when it is used
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    return ray


def _without_shared_cache(options: RunOptions) -> RunOptions:
    """On other machines answers are cached only on request: their home may be one network file system."""
    given = {name: value for name, value in options.backbone_options.items() if value is not None}
    return replace(options, backbone_options={"cache": False} | given)


def _connect(ray: Any, address: str | None, workers: int, *, elsewhere: bool) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not elsewhere:
        # Named explicitly, so that a stale cluster file in the temporary folder is ignored.
        quiet |= {"num_cpus": max(workers, os.cpu_count() or 1), "include_dashboard": False}
    for attempt in range(1, STARTS + 1):
        try:
            ray.init(address=(address or "auto") if elsewhere else "local", **quiet)
            return
        except Exception as error:  # noqa: BLE001  Ray raises a plain Exception where it is slow to start
            ray.shutdown()
            if elsewhere:
                raise InputError(f"--address {address or 'auto'}: no Ray cluster answers there: {error}.") from None
            if attempt == STARTS:
                raise InputError(f"Ray does not start: {error}.") from None
