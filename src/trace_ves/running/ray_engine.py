"""The same tasks on a Ray cluster. Workers only answer; the driver writes every line, so a lost worker loses nothing.

What `running.dispatch` decides is carried out here. A cluster of this machine alone listens on loopback alone, and lets
nobody in without its token.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trace_ves.running.answering import Answerer
from trace_ves.running.dispatch import Dispatch

from trace_ves.core import InputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from trace_ves.running.job import Job, QuestionTask, RunOptions, TaskResult

LIVES_PER_WORKER: Final = 3
"""How many workers may be hired for each that is wanted."""


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

    def answer(self, task: QuestionTask) -> TaskResult:
        """Answer one task."""
        return self._answerer(task)


def answer_on_ray(
    tasks: Sequence[QuestionTask], options: RunOptions, *, workers: int, address: str | None = None
) -> Generator[tuple[QuestionTask, TaskResult]]:
    """Each task with its line, as they come in. Without an address the cluster is this machine."""
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
    """Hires workers and keeps each of them busy with one task at a time.

    A worker that the cluster has no room for never reports, and so never holds a task.
    """

    def __init__(self, ray: Any, tasks: Sequence[QuestionTask], options: RunOptions, workers: int) -> None:
        self._ray = ray
        self._dispatch = Dispatch(tasks)
        self._jobs = list(dict.fromkeys(task.job for task in tasks))
        self._options = options
        self._workers = min(workers, len(tasks))
        self._lives = self._workers * LIVES_PER_WORKER
        self._reporting: dict[Any, Any] = {}
        self._under_way: dict[Any, Any] = {}
        self._idle: set[Any] = set()

    def run(self) -> Iterator[tuple[QuestionTask, TaskResult]]:
        for _ in range(self._workers):
            self._hire()
        while not self._dispatch.is_finished:
            if not self._reporting and not self._under_way:
                raise InputError("every worker of the Ray cluster was lost; what was finished is kept.")
            [ready], _ = self._ray.wait([*self._reporting, *self._under_way], num_returns=1)
            if ready in self._reporting:
                self._welcome(self._reporting.pop(ready), ready)
            else:
                yield from self._take_back(ready)
            self._employ()

    def _hire(self) -> None:
        """Ask for one more worker, while there are lives left."""
        if self._lives <= 0:
            return
        self._lives -= 1
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
        except self._ray.exceptions.RayError as error:
            if self._lives <= 0 and not self._reporting and not self._under_way:
                raise InputError(f"the workers of the Ray cluster die before they begin: {error}.") from None
            self._hire()
            return
        if complaint:
            raise InputError(complaint)
        self._dispatch.add(worker)
        self._idle.add(worker)

    def _employ(self) -> None:
        """Give every idle worker a task, if there is one for it; one that was set aside is let go and replaced."""
        for worker in list(self._idle):
            if not self._dispatch.has(worker):
                self._idle.discard(worker)
                self._ray.kill(worker)
                self._hire()
            elif (task := self._dispatch.next_for(worker)) is not None:
                self._idle.discard(worker)
                self._under_way[worker.answer.remote(task)] = worker

    def _take_back(self, ready: Any) -> Iterator[tuple[QuestionTask, TaskResult]]:
        worker = self._under_way.pop(ready)
        try:
            line = self._ray.get(ready)
        except self._ray.exceptions.RayTaskError:
            raise  # what stops the whole program was raised inside the worker
        except self._ray.exceptions.RayError:  # the worker died, its machine did, or it was killed for its memory
            self._hire()
            yield from self._dispatch.lost(worker)
        else:
            self._idle.add(worker)
            yield from self._dispatch.answered(worker, line)


def _ray(*, elsewhere: bool) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless a person asked for it
    if not elsewhere and "ray" not in sys.modules:
        os.environ.setdefault(LOOPBACK_ALONE, "0")
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    return ray


LOOPBACK_ALONE: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, it keeps Ray's servers on loopback on every system, whatever its name says."""


def _without_shared_cache(options: RunOptions) -> RunOptions:
    """On other machines answers are cached only if a person says so: their home may be one network file system."""
    return replace(options, backbone_options={"cache": False} | _given(options))


def _given(options: RunOptions) -> dict[str, Any]:
    return {name: value for name, value in options.backbone_options.items() if value is not None}


def _connect(ray: Any, address: str | None, workers: int, *, elsewhere: bool) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if elsewhere:
            ray.init(address=address or "auto", **quiet)
        else:
            cores = max(workers, os.cpu_count() or 1)
            ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)  # whatever an old one left here
    except (ConnectionError, ValueError, RuntimeError) as error:
        wanted = f"--address {address or 'auto'}: no Ray cluster answers there" if elsewhere else "Ray does not start"
        raise InputError(f"{wanted}: {error}.") from None
