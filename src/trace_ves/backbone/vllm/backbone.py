"""The backbone `vllm:`: the `openai` provider, asking a server that is started for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel

from trace_ves.backbone.model_settings import ServerKind
from trace_ves.backbone.openai.provider import OpenAIProvider
from trace_ves.backbone.openai.servers import PROFILES
from trace_ves.backbone.remote import RemoteBackbone, RemoteSettings
from trace_ves.backbone.vllm.server import VllmServer, find_command

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence

    from trace_ves.backbone.model_settings import RequestLimits
    from trace_ves.backbone.prefix_plan import PrefixCache
    from trace_ves.backbone.protocol import Generation, Request
    from trace_ves.backbone.provider import Completion, CompletionRequest
    from trace_ves.backbone.registry import BackboneOptions
    from trace_ves.core import BackboneError

R = TypeVar("R", bound=BaseModel)
CONCURRENCY: Final = 32
"""Requests at once: the server batches what it is given."""


class VllmBackbone:
    """Answers with a vLLM server, which is started when the first answer is asked for and ended with this process."""

    def __init__(self, name: str, model: str, server: VllmServer, options: BackboneOptions) -> None:
        settings = RemoteSettings(options.model, concurrency=options.concurrency or CONCURRENCY)
        self._server = server
        self._remote = RemoteBackbone(VllmProvider(name, model, server), settings)

    @classmethod
    def open(cls, spec: str, model: str, options: BackboneOptions) -> VllmBackbone:
        """A backbone whose server is not started yet. Raises where there is no vLLM."""
        return cls(spec, model, VllmServer(spec, model, find_command(spec)), options)

    def __repr__(self) -> str:
        return f"VllmBackbone({self.name!r})"

    @property
    def name(self) -> str:
        """The spec that names it."""
        return self._remote.name

    @property
    def answer_settings(self) -> Mapping[str, object]:
        """What beside the name and the request decides an answer; part of a response cache's key."""
        return self._remote.answer_settings

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer the batch; the first one waits until the server is up."""
        self._server.ensure()
        return self._remote.generate(batch)

    def generate_as_completed(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        """Each request's position in the batch with its answer or what went wrong."""
        self._server.ensure()
        return self._remote.generate_as_completed(batch)


class VllmProvider:
    """The `openai` provider, pointed at the server as it runs now: one that died is started again."""

    def __init__(self, name: str, model: str, server: VllmServer) -> None:
        self._name, self._model, self._server = name, model, server
        self._lock = threading.Lock()
        self._at = ""
        self._provider = self._pointed_at("http://127.0.0.1/v1")

    @property
    def name(self) -> str:
        """The spec."""
        return self._name

    @property
    def prefix_cache(self) -> PrefixCache:
        """VLLM's."""
        return PROFILES[ServerKind.VLLM].prefix_cache

    @property
    def key_hint(self) -> str:
        """Nothing to set: the key is made for each server."""
        return self._provider.key_hint

    @property
    def optional(self) -> Mapping[str, re.Pattern[str]]:
        """Features that may be dropped."""
        return self._provider.optional

    @property
    def default_temperature(self) -> float | None:
        """As for any server of one's own."""
        return self._provider.default_temperature

    @property
    def limits(self) -> RequestLimits:
        """As the server is started."""
        return replace(self._provider.limits, images=self._server.images)

    @property
    def identity(self) -> Mapping[str, object]:
        """What beside the name decides an answer: not the port."""
        return {"arguments": list(self._server.arguments)}

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        """One completion of the server."""
        url = self._server.ensure()
        with self._lock:
            if url != self._at:
                self._at, self._provider = url, self._pointed_at(url)
            provider = self._provider
        return provider.complete(call, features=features, timeout_seconds=timeout_seconds)

    def _pointed_at(self, url: str) -> OpenAIProvider:
        return OpenAIProvider(self._name, self._model, key=self._server.key, base_url=url, server=ServerKind.VLLM)
