"""Requests of many threads answered together: whoever holds the model answers everything that waits, in one batch.

Knows threads and time, nothing of models or torch. Time spent waiting for the model is nobody's.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.provider import Completion
    from trace_ves.backbone.transformers.chat_format import LocalRequest


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
    seconds: float = 0.0
    """The model's time for each of the requests: an equal share of what their batch took."""

    @property
    def is_done(self) -> bool:
        return self.completions is not None or self.error is not None


class CombiningQueue:
    """Puts requests of several threads together and hands each thread its own completions."""

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self._waiting: list[_Job] = []
        self._waiting_lock = threading.Lock()
        self._model_lock = threading.Lock()

    def complete(self, requests: Sequence[LocalRequest]) -> tuple[list[Completion], float]:
        """The completions, and the seconds that the model spent on each request; time of waiting is not in it."""
        job = _Job(tuple(requests))
        with self._waiting_lock:
            self._waiting.append(job)
        with self._model_lock:
            if not job.is_done:  # else it was answered by the thread that held the model before
                self._answer_waiting(job)
        if job.error is not None:
            raise job.error
        return job.completions or [], job.seconds

    def _answer_waiting(self, own: _Job) -> None:
        with self._waiting_lock:
            jobs, self._waiting = self._waiting, []
        try:
            self._answer(jobs)
        finally:
            left = [job for job in jobs if not job.is_done and job is not own]
            if left:  # this thread was interrupted; one of the others goes on
                with self._waiting_lock:
                    self._waiting = left + self._waiting

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
