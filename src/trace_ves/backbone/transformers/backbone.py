"""The backbone `hf:`: answers a batch of requests with a model on this machine and validates the replies.

Chooses between models that share prefills and the others. One batch at a time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from pydantic import BaseModel

from trace_ves.backbone.content import lay_out, sampling_seed
from trace_ves.backbone.protocol import Generation
from trace_ves.backbone.remote import SAMPLED_TEMPERATURE
from trace_ves.backbone.structured import complete_with_repair, reply_schema
from trace_ves.backbone.transformers.chat_format import LocalRequest
from trace_ves.backbone.transformers.decoder import MODEL_TYPES
from trace_ves.backbone.transformers.loading import load
from trace_ves.backbone.transformers.plain import PlainModel
from trace_ves.backbone.transformers.shared import SharedPrefixModel
from trace_ves.core import BackboneConfigError, BackboneError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.protocol import Request
    from trace_ves.backbone.provider import Completion, RepairTurn
    from trace_ves.core import Frame

R = TypeVar("R", bound=BaseModel)


class LocalModel(Protocol):
    """A model that answers batches of requests."""

    def complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
        """One completion for each request, in order."""


class TransformersBackbone:
    """A model on this machine. Safe to share among threads, which take turns."""

    def __init__(self, name: str, model: LocalModel, *, temperature: float = 0.0) -> None:
        if not 0 <= temperature <= 2:
            raise BackboneConfigError(f"A local model needs 0 <= temperature <= 2, got temperature={temperature}.")
        self._name = name
        self._model = model
        self._temperature = temperature
        self._lock = threading.Lock()

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
        """Answer the batch at once. Each request is charged an equal share of the time that the batch took."""
        if not batch:
            return []
        started = time.monotonic()
        local = [self._local(request) for request in batch]
        with self._lock:
            firsts = self._complete(local)
            answers = [
                complete_with_repair(request.reply, partial(self._completion, asked, first))
                for request, asked, first in zip(batch, local, firsts, strict=True)
            ]
        seconds = (time.monotonic() - started) / len(batch)
        return [Generation(reply, usage, seconds) for reply, usage in answers]

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

    def _completion(self, asked: LocalRequest, first: Completion, repairs: tuple[RepairTurn, ...]) -> Completion:
        """The completion from the batch; a repair is requested by itself."""
        return self._complete([replace(asked, repairs=repairs)])[0] if repairs else first

    def _complete(self, requests: Sequence[LocalRequest]) -> list[Completion]:
        try:
            return self._model.complete(requests)
        except torch.OutOfMemoryError:
            frames = max(len(request.frames) for request in requests)
            raise BackboneError(
                f"{self.name}: the memory of the GPU is too small for a batch of {len(requests)} requests with up to "
                f"{frames} frames; use fewer or smaller frames, or a smaller model."
            ) from None


def _frame(frame: Frame, _: bool) -> Frame:
    return frame
