"""A model of inspect_ai as a backbone. It is called from a worker thread of inspect_ai's event loop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic

import anyio
from anyio import from_thread
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    ContentImage,
    ContentText,
    GenerateConfig,
    Model,
    ModelUsage,
    ResponseSchema,
)
from inspect_ai.util import JSONSchema

from trace_ves.backbone.protocol import Generation, R, Request
from trace_ves.backbone.provider import (
    Completion,
    CompletionRequest,
    FinishReason,
    ImagePart,
    RepairTurn,
    parse_count,
    request_parts,
    sampling_seed,
)
from trace_ves.backbone.remote import SAMPLED_TEMPERATURE
from trace_ves.backbone.replies import make_strict_schema, validate_completion
from trace_ves.records import Usage

_DEEPEST: Final = 32  # A schema that refers to itself would never end
_REPLACED: Final = frozenset({"$defs", "const", "oneOf", "prefixItems", "title"})


def inline_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool] | None:
    """A reply's schema with every reference replaced by its definition, and whether it may be enforced strictly.

    A tuple becomes a list of its parts. None if the schema refers to itself: the model then gets it only as text.
    """
    strict = make_strict_schema(schema)
    base = schema if strict is None else strict
    try:
        return _inline(base, base.get("$defs", {}), _DEEPEST), strict is not None
    except RecursionError:
        return None


def _inline(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if depth == 0:
        raise RecursionError

    def inner(part: Mapping[str, Any]) -> dict[str, Any]:
        return _inline(part, definitions, depth - 1)

    if "$ref" in schema:
        return inner(definitions[schema["$ref"].removeprefix("#/$defs/")])
    inlined = {keyword: value for keyword, value in schema.items() if keyword not in _REPLACED}
    if "const" in schema:
        inlined["enum"] = [schema["const"]]
    if choices := schema.get("anyOf", schema.get("oneOf")):
        inlined["anyOf"] = [inner(part) for part in choices]
    if "prefixItems" in schema:
        parts = [inner(part) for part in schema["prefixItems"]]
        distinct = [part for place, part in enumerate(parts) if part not in parts[:place]]
        inlined["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    elif "items" in schema:
        inlined["items"] = inner(schema["items"])
    if "properties" in schema:
        inlined["properties"] = {name: inner(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        inlined["additionalProperties"] = inner(schema["additionalProperties"])
    return inlined


LOW_DETAIL_PX: Final = 360  # frames up to this height are sent with `detail: low`, which only OpenAI's models read
_FINISH: Final = {
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.BLOCKED,
}


@dataclass(frozen=True, slots=True)
class _InspectCall(Generic[R]):
    """One request in the form of inspect_ai."""

    request: Request[R]
    content: list[ContentText | ContentImage]
    config: GenerateConfig

    @classmethod
    def of(cls, request: Request[R], temperature: float | None) -> _InspectCall[R]:
        """The frames, the text, and the schema: also as text, because not every provider enforces it."""
        schema = request.reply.model_json_schema()
        call = CompletionRequest(request_parts(request), schema)
        config = GenerateConfig()
        if (inlined := inline_schema(schema)) is not None:
            json_schema = JSONSchema.model_validate(inlined[0])
            config.response_schema = ResponseSchema(
                name=request.reply.__name__, json_schema=json_schema, strict=inlined[1]
            )
        if request.sample:
            config.temperature = temperature or SAMPLED_TEMPERATURE
            config.seed = sampling_seed(request)
        content: list[ContentText | ContentImage] = []
        for part in call.with_schema_as_text():
            if isinstance(part, ImagePart):
                detail = "low" if part.height_px <= LOW_DETAIL_PX else "high"
                content.append(ContentImage(image=f"data:image/jpeg;base64,{part.base64}", detail=detail))
            else:
                content.append(ContentText(text=part.text))
        return cls(request, content, config)

    def messages(self, repairs: tuple[RepairTurn, ...]) -> list[ChatMessage]:
        """The request and its repairs; a repair does not repeat the frames."""
        content = [part for part in self.content if not repairs or isinstance(part, ContentText)]
        messages: list[ChatMessage] = [ChatMessageUser(content=content)]
        for turn in repairs:
            messages += [ChatMessageAssistant(content=turn.reply), ChatMessageUser(content=turn.instruction)]
        return messages


class InspectBackbone:
    """Answers every request with one model of inspect_ai."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name: Final = f"inspect:{model}"

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer the requests of a batch concurrently, and repair invalid replies afterwards."""
        calls = [_InspectCall.of(request, self._model.config.temperature) for request in batch]
        firsts = from_thread.run(self._complete_all, calls)
        return [
            validate_completion(call.request.reply, first, partial(self._repair, call))
            for call, first in zip(calls, firsts, strict=True)
        ]

    def _repair(self, call: _InspectCall[R], repairs: tuple[RepairTurn, ...]) -> tuple[Completion, float]:
        return from_thread.run(self._complete, call, repairs)

    async def _complete_all(self, calls: Sequence[_InspectCall[R]]) -> list[tuple[Completion, float]]:
        completions: dict[int, tuple[Completion, float]] = {}

        async def complete(place: int, call: _InspectCall[R]) -> None:
            completions[place] = await self._complete(call, ())

        try:
            async with anyio.create_task_group() as group:
                for place, call in enumerate(calls):
                    group.start_soon(complete, place, call)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None  # inspect_ai recognises its limits and errors by their type
        return [completions[place] for place in range(len(calls))]

    async def _complete(self, call: _InspectCall[R], repairs: tuple[RepairTurn, ...]) -> tuple[Completion, float]:
        started = time.monotonic()
        output = await self._model.generate(call.messages(repairs), config=call.config)
        finish = _FINISH.get(output.stop_reason, FinishReason.STOP)
        completion = Completion(output.completion, _usage(output.usage), finish, output.error or "")
        return completion, time.monotonic() - started


def _usage(stated: ModelUsage | None) -> Usage:
    """The tokens of a response. inspect_ai counts cached input separately; a `Usage` includes it in the input."""
    if stated is None:
        return Usage()
    read, written = (parse_count(stated.input_tokens_cache_read), parse_count(stated.input_tokens_cache_write))
    fresh, output = parse_count(stated.input_tokens), parse_count(stated.output_tokens)
    return Usage(fresh + read + written, read, output, written or None)
