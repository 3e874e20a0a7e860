"""Runs tasks on a Ray cluster. Workers only answer; the driver writes every line, so a lost worker loses no line.

A cluster of only this machine listens on loopback and requires a token.
"""

import os
import secrets
import sys
from collections import Counter, deque
from collections.abc import Generator, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trace_ves.core import InputError, MissingExtraError
from trace_ves.core.threads import GroupedQueue
from trace_ves.records import Prediction
from trace_ves.runs.answering import Answerer, Job, QuestionTask, RunOptions, TaskResult

MOST_LOSSES: Final = 3  # After this many lost workers, a question is recorded as an error


class Worker:
    """One process of the cluster."""

    def __init__(self, options: RunOptions, folder: str) -> None:
        if Path(folder).is_dir() and folder not in sys.path:
            sys.path.append(folder)  # the driver's working folder, which may have the user's method
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
    ray = _import_ray(elsewhere=elsewhere)
    started_here = not ray.is_initialized()
    try:
        if started_here:
            _connect(ray, address, workers, elsewhere=elsewhere)
        yield from _Cluster(ray, tasks, _without_shared_cache(options) if elsewhere else options, workers).run()
    finally:
        if started_here:
            ray.shutdown()


class _Cluster:
    """Starts workers and assigns each of them one task at a time; the questions of a video go to one worker.

    A worker that the cluster has no room for never reports, and never gets a task.
    """

    def __init__(self, ray: Any, tasks: Sequence[QuestionTask], options: RunOptions, workers: int) -> None:
        self._ray = ray
        self._waiting = GroupedQueue((task.video, task) for task in tasks)
        self._lost_tasks: deque[QuestionTask] = deque()
        self._losses = Counter[QuestionTask]()
        self._jobs = list(dict.fromkeys(task.job for task in tasks))
        self._options = options
        self._workers = min(workers, len(tasks))
        self._starting: dict[Any, Any] = {}
        self._running: dict[Any, tuple[Any, QuestionTask]] = {}
        self._idle: dict[Any, Hashable | None] = {}  # Each worker with the video of its last task

    def run(self) -> Iterator[tuple[QuestionTask, TaskResult]]:
        for _ in range(self._workers):
            self._start_worker()
        while self._waiting or self._lost_tasks or self._running:
            [ready], _ = self._ray.wait([*self._starting, *self._running], num_returns=1)
            if ready in self._starting:
                self._add_worker(self._starting.pop(ready), ready)
            elif (line := self._collect(*self._running.pop(ready), ready)) is not None:
                yield line
            self._assign_tasks()

    def _start_worker(self) -> None:
        worker = self._ray.remote(Worker).options(max_restarts=0, **self._plan_resources())
        actor = worker.remote(self._options, str(Path.cwd()))
        self._starting[actor.check_jobs.remote(self._jobs)] = actor

    def _plan_resources(self) -> dict[str, float]:
        """The resources of a worker: an equal share of the cores, and a GPU for a model that runs in it."""
        resources = self._ray.cluster_resources()
        cores = min(1.0, float(resources.get("CPU", 1)) / self._workers)
        local_model = any(job.backbone.startswith("hf:") for job in self._jobs)
        return {"num_cpus": cores, "num_gpus": 1 if local_model and resources.get("GPU") else 0}

    def _add_worker(self, worker: Any, report: Any) -> None:
        """Add a worker that has started. If it died, raise an `InputError` only if no other worker is left."""
        try:
            problem = self._ray.get(report)
        except self._ray.exceptions.RayError as error:
            if not (self._starting or self._running or self._idle):
                raise InputError(f"the workers of the Ray cluster die before they start: {error}.") from None
            return
        if problem:
            raise InputError(problem)
        self._idle[worker] = None

    def _assign_tasks(self) -> None:
        """Assign a task to every idle worker while there are any, first those of lost workers."""
        for worker, video in list(self._idle.items()):
            if self._lost_tasks:
                task = self._lost_tasks.popleft()
            elif (next_task := self._waiting.take(video)) is not None:
                _, task = next_task
            else:
                return
            del self._idle[worker]
            self._running[worker.answer.remote(task)] = worker, task

    def _collect(self, worker: Any, task: QuestionTask, ready: Any) -> tuple[QuestionTask, TaskResult] | None:
        """The task with its line; None if its worker died and the task is assigned again."""
        try:
            line = self._ray.get(ready)
        except self._ray.exceptions.RayTaskError:
            raise  # an error that stops the whole program
        except self._ray.exceptions.RayError:  # the worker or its machine died
            self._start_worker()
            self._losses[task] += 1
            if self._losses[task] == MOST_LOSSES:
                return task, make_lost_line(task)
            self._lost_tasks.append(task)
            return None
        self._idle[worker] = task.video
        return task, line


def make_lost_line(task: QuestionTask) -> TaskResult:
    """The line of a question whose workers were all lost."""
    error = f"{MOST_LOSSES} workers were lost while answering this question"
    return TaskResult(
        Prediction(task.question.id, None, method=task.job.method, backbone=task.job.backbone, error=error)
    )


STARTS: Final = 3
"""How often a local cluster is started: Ray gives its node 30 s, which a busy machine can exceed."""

LOOPBACK_VARIABLE: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""0 keeps Ray's servers on loopback on every system, despite its name."""


def _import_ray(*, elsewhere: bool) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics
    if not elsewhere and "ray" not in sys.modules:
        os.environ.setdefault(LOOPBACK_VARIABLE, "0")
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray  # optional
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    return ray


def _without_shared_cache(options: RunOptions) -> RunOptions:
    """Options that cache answers only on request: other machines may share their home on a network file system."""
    requested = {name: value for name, value in options.backbone_options.items() if value is not None}
    return replace(options, backbone_options={"cache": False} | requested)


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
