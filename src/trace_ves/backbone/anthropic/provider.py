"""`anthropic:`, by the messages API of the anthropic SDK."""

from __future__ import annotations

import json
import os
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import anthropic

from trace_ves.backbone.model_settings import RequestLimits, Thinking
from trace_ves.backbone.provider import (
    BROKEN_OFF,
    NO_ANSWER,
    Completion,
    CompletionRequest,
    FinishReason,
    ImagePart,
    Part,
    Provider,
    ServiceError,
    parse_count,
    transport_errors,
)
from trace_ves.backbone.replies import make_strict_schema
from trace_ves.backbone.retry import retry_after_seconds
from trace_ves.records import Usage

if TYPE_CHECKING:
    from anthropic.types import Message
    from anthropic.types import Usage as AnthropicUsage

    from trace_ves.backbone.secret import Key

MAX_OUTPUT_TOKENS: Final = 32_000  # The API requires a limit, including thinking; every model since Opus 4 takes this
# In tokens, for models before adaptive thinking; part of the output limit.
THINKING_BUDGETS: Final = {Thinking.LOW: 1024, Thinking.MEDIUM: 4096, Thinking.HIGH: 12_288}
# https://platform.claude.com/docs/en/build-with-claude/vision, "General limits"
LIMITS: Final = RequestLimits(images=600, payload_bytes=32 * 2**20, longest_side_px=2000)  # The side: above 20 images
LIMITS_200K: Final = replace(LIMITS, images=100)

_DATED: Final = r"(?:-\d{8})?$"
_THINKS_BY_BUDGET: Final = re.compile(rf"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5])?{_DATED})")
_TAKES_TEMPERATURE: Final = re.compile(rf"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-6])?{_DATED})")
_THINKS_BETWEEN_TOOLS: Final = re.compile(r"claude-sonnet-5-5")
_FINISHES: Final = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSED,
}
_NO_CREDIT: Final = re.compile(r"credit balance|billing|spend_limit", re.IGNORECASE)
# The status of temporary errors inside a stream: https://platform.claude.com/docs/en/api/errors
_TEMPORARY: Final = {"api_error": 500, "overloaded_error": 529, "rate_limit_error": 429, "timeout_error": 504}
# The SDK asserts that a stream has a beginning.
_ERRORS: Final = transport_errors(anthropic.AnthropicError, json.JSONDecodeError, AssertionError)
_OPTIONAL: Final = {
    "temperature": r"temperature",
    "thinking_off": r"thinking|reasoning|effort|'none'",
    "schema": r"output_config|output_format|schema|structured",
    "stream": r"\bstream",
}


class AnthropicProvider(Provider):
    """One model of Anthropic's API."""

    errors = _ERRORS
    optional = _OPTIONAL

    def __init__(self, name: str, model: str, *, key: Key) -> None:
        base_url = os.environ.get("ANTHROPIC_BASE_URL") or None
        super().__init__(name, model, key, identity={"base_url": base_url})
        if not _TAKES_TEMPERATURE.match(model):  # models since Opus 4.7 and Sonnet 5 accept only their default
            self.default_temperature = None
        self.limits = LIMITS_200K if _THINKS_BY_BUDGET.match(model) else LIMITS
        http = anthropic.DefaultHttpxClient(follow_redirects=False)  # a redirect would send the key to another host
        self._client = anthropic.Anthropic(api_key=key.secret, base_url=base_url, max_retries=0, http_client=http)
        weakref.finalize(self, self._client.close)

    def _send(self, call: CompletionRequest, features: frozenset[str], timeout_seconds: float) -> Completion:
        body = self._body(call, features) | {"timeout": timeout_seconds}
        if call.on_begin is not None and "stream" in features:
            return _read(self._stream(body, call.on_begin))
        response: Message | str = self._client.messages.create(**body)
        if isinstance(response, str):  # the SDK returns the text of a response that is not JSON
            raise self._not_json(response)
        return _read(response)

    def _body(self, call: CompletionRequest, features: frozenset[str]) -> dict[str, Any]:
        schema = make_strict_schema(call.schema) if "schema" in features else None
        blocks = [_block(part) for part in (call.with_schema_as_text() if schema is None else call.parts)]
        for end in call.shared_ends:  # only shared prefixes are marked, because a marked one costs a quarter more
            blocks[end - 1]["cache_control"] = {"type": "ephemeral"}
        extra: dict[str, Any] = {}  # fields that not every version of the SDK has
        most_output = call.max_output_tokens or MAX_OUTPUT_TOKENS
        thinks = call.thinking not in {Thinking.DEFAULT, Thinking.NONE}  # the API then accepts no temperature
        if "temperature" in features and call.temperature is not None and not thinks:
            extra["temperature"] = call.temperature
        output: dict[str, Any] = {}
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": schema}
        if call.thinking is not Thinking.DEFAULT:
            extra["thinking"] = self._thinking(call.thinking, most_output)
            if extra["thinking"]["type"] == "adaptive":
                output["effort"] = call.thinking.value
        if output:
            extra["output_config"] = output
        messages = call.messages(blocks)
        return {"model": self._model, "max_tokens": most_output, "messages": messages, "extra_body": extra}

    def _stream(self, body: dict[str, Any], on_begin: Callable[[], object]) -> Message:
        """The response to a streamed request. If the stream breaks off, the error has the charged tokens."""
        usage = Usage()
        try:
            with self._client.messages.stream(**body) as events:
                for event in events:
                    if event.type == "message_start":
                        on_begin()
                        usage = _usage(event.message.usage)
                message = events.get_final_message()
        except self.errors as error:
            raise replace(self._failure(error), usage=usage) from None
        if message.stop_reason is None:
            raise ServiceError(None, BROKEN_OFF, usage=usage)
        return message

    def _thinking(self, thinking: Thinking, most_output: int) -> dict[str, Any]:
        """The field `thinking`: off, adaptive, or for older models a budget in tokens."""
        if thinking is Thinking.NONE:
            return {"type": "between_tools" if _THINKS_BETWEEN_TOOLS.match(self._model) else "disabled"}
        if _THINKS_BY_BUDGET.match(self._model):
            return {"type": "enabled", "budget_tokens": max(1024, min(THINKING_BUDGETS[thinking], most_output // 2))}
        return {"type": "adaptive"}

    def _failure(self, error: Exception) -> ServiceError:
        if not isinstance(error, anthropic.APIStatusError):
            return super()._failure(error)
        body = error.body if isinstance(error.body, dict) else {}
        inner = body.get("error")
        stated = (inner.get("message") if isinstance(inner, dict) else None) or error.message
        message = error.response.headers.get("location") or stated
        status = error.status_code
        if status < 300:
            status = _TEMPORARY.get(str(inner.get("type")), 400) if isinstance(inner, dict) else 500
        return ServiceError(
            status,
            self._key.redact(message),
            retry_after_seconds=retry_after_seconds(error.response.headers),
            permanent=bool(_NO_CREDIT.search(f"{message} {error.body}")),
        )


def _block(part: Part) -> dict[str, Any]:
    if not isinstance(part, ImagePart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": part.base64}}


def _read(response: Message) -> Completion:
    """The completion in a response."""
    content: Sequence[Any] | None = getattr(response, "content", None)
    if content is None:
        raise ServiceError(None, NO_ANSWER)
    text = "".join(block.text for block in content if block.type == "text")
    return Completion(text, _usage(response.usage), _FINISHES.get(response.stop_reason or "", FinishReason.STOP))


def _usage(usage: AnthropicUsage) -> Usage:
    """The tokens of a response. The API counts cached input separately; a `Usage` includes it in the input."""
    read = parse_count(usage.cache_read_input_tokens)
    written = parse_count(usage.cache_creation_input_tokens)
    return Usage(
        input_tokens=parse_count(usage.input_tokens) + read + written,
        cached_tokens=read,
        output_tokens=parse_count(usage.output_tokens),
        cache_write_tokens=written or None,
    )
