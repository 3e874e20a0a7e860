"""The same tasks on a Ray cluster. Workers only answer; the driver writes every line, so a lost worker loses nothing.

A task whose worker died is given to another worker; only one that keeps killing its workers becomes an error.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core import Answer, InputError, MissingExtraError
from trace_ves.records import ObservationLog, Prediction
from trace_ves.running.answering import Answerer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from trace_ves.running.job import Job, QuestionTask, RunOptions

ATTEMPTS: Final = 3
"""How many workers a task may lose before it is given up."""


class Worker:
    """One process of the cluster."""

    def __init__(self, options: RunOptions, folder: str) -> None:
        if Path(folder).is_dir() and folder not in sys.path:
            sys.path.append(folder)  # where the driver was started: a person's own method may lie there
        self._answerer = Answerer(options)

    def complaint(self, jobs: Sequence[Job]) -> str | None:
        """What a person got wrong about these jobs, as far as opening their methods and backbones shows it."""
        try:
            self._answerer.prepare(jobs)
        except InputError as error:
            return str(error)
        return None

    def answer(self, task: QuestionTask) -> Prediction:
        """Answer one task."""
        return self._answerer(task)


def answer_on_ray(
    tasks: Sequence[QuestionTask], options: RunOptions, *, workers: int, address: str | None = None
) -> Generator[tuple[QuestionTask, Prediction]]:
    """Each task with its line, as they come in. Without an address the cluster is this machine."""
    ray = _ray()
    started_here = not ray.is_initialized()
    try:
        if started_here:
            _connect(ray, address, workers)
        yield from _Dispatch(ray, tasks, options, workers).run()
    finally:
        if started_here:
            ray.shutdown()


class _Dispatch:
    """Hands one task at a time to each worker that has reported for duty.

    A worker that the cluster has no room for never reports, and so never holds a task.
    """

    def __init__(self, ray: Any, tasks: Sequence[QuestionTask], options: RunOptions, workers: int) -> None:
        self._ray = ray
        self._todo = deque((task, 1) for task in tasks)
        self._jobs = list(dict.fromkeys(task.job for task in tasks))
        self._options = options
        self._workers = min(workers, len(tasks))
        self._lives = self._workers * ATTEMPTS
        self._reporting: dict[Any, Any] = {}
        self._under_way: dict[Any, tuple[Any, QuestionTask, int]] = {}

    def run(self) -> Iterator[tuple[QuestionTask, Prediction]]:
        for _ in range(self._workers):
            self._hire()
        while self._todo or self._under_way:
            [ready], _ = self._ray.wait([*self._reporting, *self._under_way], num_returns=1)
            if ready in self._reporting:
                self._welcome(self._reporting.pop(ready), ready)
            else:
                yield from self._take_back(ready)

    def _hire(self) -> None:
        """Ask for one more worker."""
        worker = self._ray.remote(Worker).options(max_restarts=0, **self._share())
        actor = worker.remote(self._options, str(Path.cwd()))
        self._reporting[actor.complaint.remote(self._jobs)] = actor

    def _share(self) -> dict[str, float]:
        """What a worker takes of the cluster: an equal part of the cores, and a GPU for a model that runs in it."""
        resources = self._ray.cluster_resources()
        cores = min(1.0, float(resources.get("CPU", 1)) / self._workers)
        local_model = any(job.backbone.startswith("hf:") for job in self._jobs)
        return {"num_cpus": cores, "num_gpus": 1 if local_model and resources.get("GPU") else 0}

    def _welcome(self, worker: Any, report: Any) -> None:
        try:
            complaint = self._ray.get(report)
        except self._ray.exceptions.RayActorError as error:
            self._lives -= 1
            if not self._lives:
                raise InputError(f"the workers of the Ray cluster die before they begin: {error}.") from None
            self._hire()
            return
        if complaint:
            raise InputError(complaint)
        self._give(worker)

    def _give(self, worker: Any) -> None:
        if self._todo:
            task, attempt = self._todo.popleft()
            self._under_way[worker.answer.remote(task)] = (worker, task, attempt)

    def _take_back(self, ready: Any) -> Iterator[tuple[QuestionTask, Prediction]]:
        worker, task, attempt = self._under_way.pop(ready)
        try:
            yield task, self._ray.get(ready)
        except self._ray.exceptions.RayActorError:
            self._hire()
            if attempt < ATTEMPTS:
                self._todo.appendleft((task, attempt + 1))
            else:
                yield task, _lost(task)
        else:
            self._give(worker)


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415  an optional part, loaded when it is used
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    return ray


def _connect(ray: Any, address: str | None, workers: int) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless a person asked for it
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address is None and "RAY_ADDRESS" not in os.environ:
            ray.init(num_cpus=max(workers, os.cpu_count() or 1), include_dashboard=False, **quiet)
        else:
            ray.init(address=address or "auto", **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"--address {address}: no Ray cluster answers there: {error}.") from None


def _lost(task: QuestionTask) -> Prediction:
    job = task.job
    empty = Prediction.of(
        task.question, Answer(None), ObservationLog(), method=job.method, backbone=job.backbone, seconds=0.0
    )
    return replace(empty, termination=None, error=f"{ATTEMPTS} workers were lost while answering this question")
