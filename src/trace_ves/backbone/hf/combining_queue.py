"""Requests of many threads answered together: the thread that holds the model answers all that wait, in one batch."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.hf.chat_format import LocalRequest
    from trace_ves.backbone.provider import Completion


_LINGER_SHARE: Final = 0.05  # of the last batch: how long the next waits for threads that were just answered


class LocalModel(Protocol):
    """A model that answers batches of requests. Called by one thread at a time."""

    def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
        """One completion for each request, in order."""


@dataclass(slots=True)
class _Job:
    """What one thread asks for."""

    requests: tuple[LocalRequest, ...]
    completions: list[Completion] | None = None
    error: Exception | None = None
    seconds: float = 0.0  # the model's time for each of the requests: an equal share of what their batch took

    @property
    def is_done(self) -> bool:
        return self.completions is not None or self.error is not None


class CombiningQueue:
    """Puts requests of several threads together and hands each thread its own completions."""

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self._changed = threading.Condition()
        self._waiting: list[_Job] = []
        self._is_busy = False
        self._absent = 0  # threads that were answered in the last batch and have not asked again
        self._linger_seconds = 0.0

    def complete(self, requests: Sequence[LocalRequest]) -> tuple[list[Completion], float]:
        """The completions, and the seconds that the model spent on each request; time of waiting is not in it."""
        job = _Job(tuple(requests))
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
        return job.completions or [], job.seconds

    def _answer_waiting(self, own: _Job) -> None:
        """Answer what waits. Threads that were just answered get a moment to ask again: a larger batch is cheaper."""
        jobs: list[_Job] = []
        started = time.monotonic()
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._absent, self._linger_seconds)
                jobs, self._waiting = self._waiting, []
            started = time.monotonic()
            self._answer(jobs)
        finally:
            with self._changed:
                left = [job for job in jobs if not job.is_done and job is not own]
                self._waiting = left + self._waiting  # this thread was interrupted; one of the others continues
                self._absent = len(jobs) - len(left)
                self._linger_seconds = _LINGER_SHARE * (time.monotonic() - started)
                self._is_busy = False
                self._changed.notify_all()

    def _answer(self, jobs: Sequence[_Job]) -> None:
        """Answer all jobs at once; where that fails, one by one, so that each has its own error alone."""
        requests = [request for job in jobs for request in job.requests]
        started = time.monotonic()
        try:
            completions = iter(self._model.complete(requests))
        except Exception as error:  # noqa: BLE001  it is raised again in the thread whose requests it concerns
            if len(jobs) == 1:
                jobs[0].error = error
                return
        else:
            share = (time.monotonic() - started) / len(requests)
            for job in jobs:
                job.seconds = share
                job.completions = [next(completions) for _ in job.requests]
            return
        for job in jobs:
            self._answer([job])
