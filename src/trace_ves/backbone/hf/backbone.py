"""The backbone `hf:`: answers requests with a model on this machine and validates the replies.

Chooses between models that share prefills and the others.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pydantic import BaseModel

from trace_ves.backbone.hf.chat_format import LocalRequest
from trace_ves.backbone.hf.decoder import MODEL_TYPES
from trace_ves.backbone.hf.loading import load
from trace_ves.backbone.hf.plain import PlainModel
from trace_ves.backbone.hf.shared import SharedPrefixModel
from trace_ves.backbone.protocol import Generation
from trace_ves.backbone.provider import lay_out, sampling_seed
from trace_ves.backbone.remote import SAMPLED_TEMPERATURE
from trace_ves.backbone.replies import complete_with_repair, reply_schema
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.protocol import Request
    from trace_ves.backbone.provider import Completion, RepairTurn
    from trace_ves.core import Frame
    from trace_ves.records.transcript import ModelText

_LINGER_SHARE: Final = 0.05
"""Of what the last batch took: how long the next one waits at most for threads that have just been answered."""


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
        self._changed = threading.Condition()
        self._waiting: list[_Job] = []
        self._is_busy = False
        self._absent = 0
        """Threads that were answered in the last batch and have not asked again."""
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
                self._waiting = left + self._waiting  # this thread was interrupted; one of the others goes on
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


R = TypeVar("R", bound=BaseModel)


class TransformersBackbone:
    """A model on this machine. Safe to share among threads, whose requests are answered together."""

    def __init__(self, name: str, model: LocalModel, *, temperature: float = 0.0) -> None:
        if not 0 <= temperature <= 2:
            raise BackboneConfigError(f"A local model needs 0 <= temperature <= 2, got temperature={temperature}.")
        self._name = name
        self._queue = CombiningQueue(model)
        self._temperature = temperature

    @classmethod
    def open(cls, spec: str, model: str, *, temperature: float = 0.0) -> TransformersBackbone:
        """Load a model by its name or its folder."""
        loaded = load(spec, model)
        shares = loaded.model.config.model_type in MODEL_TYPES
        return cls(spec, SharedPrefixModel(loaded) if shares else PlainModel(spec, loaded), temperature=temperature)

    def __repr__(self) -> str:
        return f"TransformersBackbone({self.name!r})"

    @property
    def name(self) -> str:
        """The spec that names it."""
        return self._name

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """What beside the name and the request decides an answer; part of a response cache's key."""
        return {"temperature": self._temperature}

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer the batch together with what other threads ask for at the same time.

        A request is charged an equal share of the time that the model worked on its batch, and no time of waiting.
        """
        if not batch:
            return []
        local = [self._local(request) for request in batch]
        completions, seconds = self._queue.complete(local)
        return [
            self._validated(request, asked, first, seconds)
            for request, asked, first in zip(batch, local, completions, strict=True)
        ]

    def _validated(self, request: Request[R], asked: LocalRequest, first: Completion, seconds: float) -> Generation[R]:
        """The reply of a completion; a repair is one more request."""
        spent = [seconds]

        def complete(repairs: tuple[RepairTurn, ...]) -> Completion:
            if not repairs:
                return first
            (repaired,), more_seconds = self._queue.complete([replace(asked, repairs=repairs)])
            spent.append(more_seconds)
            return repaired

        said: list[ModelText] = []
        reply, usage = complete_with_repair(request.reply, complete, said=said)
        return Generation(reply, usage, sum(spent), said=tuple(said))

    def _local(self, request: Request[R]) -> LocalRequest:
        temperature = self._temperature
        if request.sample and not temperature:
            temperature = SAMPLED_TEMPERATURE
        return LocalRequest(
            content=lay_out(request, _frame),
            schema=reply_schema(request.reply),
            temperature=temperature,
            seed=sampling_seed(request) if temperature else 0,
        )


def _frame(frame: Frame, _: bool) -> Frame:
    return frame
