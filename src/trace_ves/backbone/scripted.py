"""A backbone for tests: a function answers every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from trace_ves.backbone.protocol import Generation, ModelFault, R, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class ScriptedBackbone:
    """Answers with what `script(request)` returns: a reply, a mapping that becomes one, or a `ModelFault`."""

    def __init__(
        self, script: Callable[[Request[Any]], BaseModel | Mapping[str, Any] | ModelFault], *, name: str = "scripted"
    ) -> None:
        self.name = name
        self._script = script

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch, in the order given."""
        return [Generation(self._reply(request)) for request in batch]

    def _reply(self, request: Request[R]) -> R | ModelFault:
        said = self._script(request)
        if isinstance(said, ModelFault):
            return said
        return request.reply.model_validate(said.model_dump() if isinstance(said, BaseModel) else said)
