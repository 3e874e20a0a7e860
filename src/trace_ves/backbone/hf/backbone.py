"""The backbone `hf:`: answers requests with a model on this machine and validates the replies."""

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
from trace_ves.backbone.replies import validate_first

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Generation, R, Request


class TransformersBackbone:
    """A model on this machine. Safe to share among threads, whose requests are answered together."""

    def __init__(self, name: str, model: LocalModel[Any], *, temperature: float = 0.0) -> None:
        self.name: Final = name
        self._queue = CombiningQueue(model)
        self._temperature = temperature

    @classmethod
    def open(cls, spec: str, model: str, *, temperature: float = 0.0) -> TransformersBackbone:
        """Load a model by its name or its folder."""
        loaded = load(spec, model)
        shares = loaded.model.config.model_type in MODEL_TYPES
        return cls(spec, SharedPrefixModel(loaded) if shares else PlainModel(spec, loaded), temperature=temperature)

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """What beside the name and the request decides an answer; part of a response cache's key."""
        return {"temperature": self._temperature}

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer the batch together with other threads' requests, each charged an equal share of the model's time."""
        if not batch:
            return []
        local = [self._to_local(request) for request in batch]
        completions, seconds = self._queue.complete(local)
        return [
            validate_first(request.reply, (first, seconds), partial(self._repair, asked))
            for request, asked, first in zip(batch, local, completions, strict=True)
        ]

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R]]]:
        """Each request's position in the batch with its answer."""
        return enumerate(self.generate(batch))

    def _repair(self, asked: LocalRequest, repairs: tuple[RepairTurn, ...]) -> tuple[Completion, float]:
        """The completion of one more request, and its seconds."""
        (repaired,), seconds = self._queue.complete([replace(asked, repairs=repairs)])
        return repaired, seconds

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
