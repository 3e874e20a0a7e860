"""The backbone `hf:`, a model on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.hf.combining_queue import CombiningQueue, LocalModel, LocalRequest
from trace_ves.backbone.hf.decoder import MODEL_TYPES
from trace_ves.backbone.hf.loading import load
from trace_ves.backbone.hf.models import PlainModel, SharedPrefixModel
from trace_ves.backbone.provider import Completion, RepairTurn, lay_out, sampling_seed
from trace_ves.backbone.remote import SAMPLED_TEMPERATURE
from trace_ves.backbone.replies import validate_completion

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Generation, R, Request


class TransformersBackbone:
    """A model on this machine. Thread-safe: the requests of several threads form one batch."""

    def __init__(self, name: str, model: LocalModel[Any], *, temperature: float = 0.0) -> None:
        self.name: Final = name
        self._queue = CombiningQueue(model)
        self._temperature = temperature

    @classmethod
    def open(cls, spec: str, model: str, *, temperature: float = 0.0) -> TransformersBackbone:
        """Load a model by name or folder."""
        loaded = load(spec, model)
        shares = loaded.model.config.model_type in MODEL_TYPES
        return cls(spec, SharedPrefixModel(loaded) if shares else PlainModel(spec, loaded), temperature=temperature)

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """The settings that affect an answer; part of the response cache's key."""
        return {"temperature": self._temperature}

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer the batch together with requests of other threads. Each request gets an equal share of the time."""
        if not batch:
            return []
        local = [self._to_local(request) for request in batch]
        completions, seconds = self._queue.complete(local)
        return [
            validate_completion(request.reply, (first, seconds), partial(self._repair, local_request))
            for request, local_request, first in zip(batch, local, completions, strict=True)
        ]

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R]]]:
        """The index of each request with its answer."""
        return enumerate(self.generate(batch))

    def _repair(self, request: LocalRequest, repairs: tuple[RepairTurn, ...]) -> tuple[Completion, float]:
        """Send a request again with its invalid replies; returns the completion and its seconds."""
        (completion,), seconds = self._queue.complete([replace(request, repairs=repairs)])
        return completion, seconds

    def _to_local(self, request: Request[R]) -> LocalRequest:
        temperature = self._temperature
        if request.sample and not temperature:
            temperature = SAMPLED_TEMPERATURE
        return LocalRequest(
            content=lay_out(request, lambda frame, _: frame),
            schema=request.reply.model_json_schema(),
            temperature=temperature,
            seed=sampling_seed(request) if temperature else 0,
        )
