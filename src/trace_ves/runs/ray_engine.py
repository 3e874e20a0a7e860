"""The same tasks on a Ray cluster. Workers only answer; the driver writes every line, so a lost worker loses nothing.

What `running.dispatch` decides is carried out here. A cluster of this machine alone listens on loopback alone, and lets
nobody in without its token.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core import Answer, InputError, MissingExtraError
from trace_ves.core.threads import GroupedQueue
from trace_ves.records import ObservationLog, Prediction
from trace_ves.runs.answering import Answerer
from trace_ves.runs.job import TaskResult

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Iterator, Sequence

    from trace_ves.runs.job import Job, QuestionTask, RunOptions

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
        import ray  # an optional part, loaded when it is used
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
            # Named explicitly, so that a stale cluster file in the temporary folder is ignored.
            ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        problem = f"--address {address or 'auto'}: no Ray cluster answers there" if elsewhere else "Ray does not start"
        raise InputError(f"{problem}: {error}.") from None
