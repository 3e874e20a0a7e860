"""A model of inspect_ai as a backbone; it is called from a worker thread of inspect_ai's event loop."""

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

_DEEPEST: Final = 32  # a reply that refers to itself has no end once it is spelled out
_REPLACED: Final = frozenset({"$defs", "const", "oneOf", "prefixItems", "title"})


def inline_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool] | None:
    """A reply's schema with every reference spelled out, and whether a model may be held to it strictly.

    A tuple becomes a list of its parts. None where the schema refers to itself: the model then gets it only as text.
    """
    strict = make_strict_schema(schema)
    sent = schema if strict is None else strict
    try:
        return _inline(sent, sent.get("$defs", {}), _DEEPEST), strict is not None
    except RecursionError:
        return None


def _inline(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if depth == 0:
        raise RecursionError

    def inner(part: Mapping[str, Any]) -> dict[str, Any]:
        return _inline(part, definitions, depth - 1)

    if "$ref" in schema:
        return inner(definitions[schema["$ref"].removeprefix("#/$defs/")])
    found = {keyword: value for keyword, value in schema.items() if keyword not in _REPLACED}
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if choices := schema.get("anyOf", schema.get("oneOf")):
        found["anyOf"] = [inner(part) for part in choices]
    if "prefixItems" in schema:
        parts = [inner(part) for part in schema["prefixItems"]]
        distinct = [part for place, part in enumerate(parts) if part not in parts[:place]]
        found["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    elif "items" in schema:
        found["items"] = inner(schema["items"])
    if "properties" in schema:
        found["properties"] = {name: inner(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = inner(schema["additionalProperties"])
    return found


LOW_DETAIL_PX: Final = 360  # frames up to this height are sent with `detail: low`, which only OpenAI's models read
_FINISH: Final = {
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.BLOCKED,
}


@dataclass(frozen=True, slots=True)
class _InspectCall(Generic[R]):
    """One request as inspect_ai takes it."""

    request: Request[R]
    content: list[ContentText | ContentImage]
    config: GenerateConfig

    @classmethod
    def of(cls, request: Request[R], temperature: float | None) -> _InspectCall[R]:
        """The frames, the words, and the schema: spelled out always, since not every provider is held to one."""
        schema = request.reply.model_json_schema()
        call = CompletionRequest(request_parts(request), schema)
        config = GenerateConfig()
        if (inlined := inline_schema(schema)) is not None:
            spelled_out = JSONSchema.model_validate(inlined[0])
            config.response_schema = ResponseSchema(
                name=request.reply.__name__, json_schema=spelled_out, strict=inlined[1]
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
        """The request, without its frames if a reply is repaired, and each reply with what was wrong with it."""
        content = [part for part in self.content if not repairs or isinstance(part, ContentText)]
        found: list[ChatMessage] = [ChatMessageUser(content=content)]
        for turn in repairs:
            found += [ChatMessageAssistant(content=turn.reply), ChatMessageUser(content=turn.instruction)]
        return found


class InspectBackbone:
    """Answers every request with one model of inspect_ai."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name: Final = f"inspect:{model}"

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer the requests of a batch at once; a reply that does not validate is repaired after them."""
        asked = [_InspectCall.of(request, self._model.config.temperature) for request in batch]
        firsts = from_thread.run(self._complete_all, asked)
        return [
            validate_completion(one.request.reply, first, partial(self._repair, one))
            for one, first in zip(asked, firsts, strict=True)
        ]

    def _repair(self, asked: _InspectCall[R], repairs: tuple[RepairTurn, ...]) -> tuple[Completion, float]:
        return from_thread.run(self._complete, asked, repairs)

    async def _complete_all(self, batch: Sequence[_InspectCall[R]]) -> list[tuple[Completion, float]]:
        found: dict[int, tuple[Completion, float]] = {}

        async def one(place: int, asked: _InspectCall[R]) -> None:
            found[place] = await self._complete(asked, ())

        try:
            async with anyio.create_task_group() as group:
                for place, asked in enumerate(batch):
                    group.start_soon(one, place, asked)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None  # inspect_ai knows its own limits and errors by their type
        return [found[place] for place in range(len(batch))]

    async def _complete(self, asked: _InspectCall[R], repairs: tuple[RepairTurn, ...]) -> tuple[Completion, float]:
        started = time.monotonic()
        output = await self._model.generate(asked.messages(repairs), config=asked.config)
        finish = _FINISH.get(output.stop_reason, FinishReason.STOP)
        completion = Completion(output.completion, _usage(output.usage), finish, output.error or "")
        return completion, time.monotonic() - started


def _usage(stated: ModelUsage | None) -> Usage:
    """inspect_ai counts what a provider's cache read or wrote beside the input; here it is a part of the input."""
    if stated is None:
        return Usage()
    read, written = (
        parse_count(stated.input_tokens_cache_read),
        parse_count(stated.input_tokens_cache_write),
    )
    fresh, output = parse_count(stated.input_tokens), parse_count(stated.output_tokens)
    return Usage(fresh + read + written, read, output, written or None)
