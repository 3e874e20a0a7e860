"""A queue that combines the requests of many threads: one thread answers all waiting requests in one batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from trace_ves.core import Frame

if TYPE_CHECKING:
    from trace_ves.backbone.provider import Completion, RepairTurn, TextPart

T = TypeVar("T")
_LINGER_SHARE: Final = 0.05  # How long a batch waits for threads that were just answered, as a share of the last batch


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """One request to a local model."""

    content: tuple[TextPart | Frame, ...]  # Text and frames, in the order in which the model reads them
    schema: Mapping[str, Any]  # JSON schema of the reply
    repairs: tuple[RepairTurn, ...] = ()
    temperature: float = 0.0
    seed: int = 0

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames, in order."""
        return tuple(item for item in self.content if isinstance(item, Frame))


class LocalModel(Protocol[T]):
    """A model that answers batches of requests."""

    def prepare(self, requests: Sequence[LocalRequest]) -> Sequence[T]:
        """Prepare requests before their turn. Several threads may call this at once."""

    def complete(self, requests: Sequence[T], answer: Callable[[int, Completion], None]) -> None:
        """Call `answer` with the index and completion of each request, maybe twice. Called by one thread at a time."""


@dataclass(slots=True)
class _Job(Generic[T]):
    """The requests of one thread."""

    requests: Sequence[T]
    completions: dict[int, Completion] = field(default_factory=dict)
    error: Exception | None = None
    seconds: float = 0.0  # The model's time for each request: an equal share of the batch

    @property
    def is_done(self) -> bool:
        return len(self.completions) == len(self.requests) or self.error is not None


class CombiningQueue(Generic[T]):
    """Combines the requests of several threads into batches, and returns each thread its completions."""

    def __init__(self, model: LocalModel[T]) -> None:
        self._model = model
        self._changed = threading.Condition()
        self._waiting: list[_Job[T]] = []
        self._is_busy = False
        self._absent = 0  # Threads that were answered since the last batch began and have no new request
        self._linger_seconds = 0.0

    def complete(self, requests: Sequence[LocalRequest]) -> tuple[list[Completion], float]:
        """The completions, and the seconds of the model for each request, without waiting time."""
        job = _Job(self._model.prepare(requests))
        with self._changed:
            self._waiting.append(job)
            self._absent = max(0, self._absent - 1)
            self._changed.notify_all()
            self._changed.wait_for(lambda: job.is_done or not self._is_busy)
            takes_over = not job.is_done
            self._is_busy |= takes_over
        if takes_over:
            self._answer_waiting(job)
        if job.error is not None:
            raise job.error
        return [job.completions[number] for number in range(len(requests))], job.seconds

    def _answer_waiting(self, own: _Job[T]) -> None:
        """Answer all waiting jobs. Wait briefly for threads that were just answered: a larger batch is cheaper."""
        jobs: list[_Job[T]] = []
        started = time.monotonic()
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._absent, self._linger_seconds)
                jobs, self._waiting, self._absent = self._waiting, [], 0
            started = time.monotonic()
            self._answer(jobs)
        finally:
            with self._changed:
                unfinished = [job for job in jobs if not job.is_done and job is not own]
                self._waiting = unfinished + self._waiting  # this thread was interrupted; another one continues
                self._linger_seconds = _LINGER_SHARE * (time.monotonic() - started)
                self._is_busy = False
                self._changed.notify_all()

    def _answer(self, jobs: Sequence[_Job[T]]) -> None:
        """Answer all jobs at once. If that fails, answer them one by one, so that each gets only its own error."""
        owners = [(job, number) for job in jobs for number in range(len(job.requests))]
        started = time.monotonic()

        def answer(place: int, completion: Completion) -> None:
            job, number = owners[place]
            if job.is_done:
                return
            with self._changed:
                job.seconds = (time.monotonic() - started) / len(owners)
                job.completions[number] = completion
                if len(job.completions) == len(job.requests):  # its thread can prepare its next requests
                    self._absent += 1
                    self._changed.notify_all()

        try:
            self._model.complete([job.requests[number] for job, number in owners], answer)
        except Exception as error:  # noqa: BLE001  raised again in the thread of the request
            for job in jobs:
                if job.is_done:
                    continue
                if len(jobs) == 1:
                    job.error = error
                else:
                    self._answer([job])
