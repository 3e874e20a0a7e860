"""`anthropic:` by the anthropic SDK's messages.

Translates a `CompletionRequest` for that API, and its responses back. Fields that came to the SDK late, or left it
again, go through `extra_body`, so that every version of the SDK sends the same.
"""

from __future__ import annotations

import base64
import json
import os
import re
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import anthropic

from trace_ves.backbone.model_settings import RequestLimits, Thinking
from trace_ves.backbone.prompt_caches import prompt_cache
from trace_ves.backbone.provider import (
    STREAM_REFUSED,
    Completion,
    FinishReason,
    ImagePart,
    ServiceError,
    is_unreachable,
    token_count,
    transport_errors,
)
from trace_ves.backbone.replies import strict_schema
from trace_ves.backbone.retry import retry_after_seconds
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anthropic.types import Message

    from trace_ves.backbone.prompt_caches import PrefixCache
    from trace_ves.backbone.provider import CompletionRequest, Part
    from trace_ves.backbone.secret import Key

BASE_URL_VARIABLE: Final = "ANTHROPIC_BASE_URL"
MAX_OUTPUT_TOKENS: Final = 16_384
"""The API wants a limit; this leaves room for a model that thinks before it answers."""

THINKING_BUDGETS: Final = {Thinking.LOW: 1024, Thinking.MEDIUM: 4096, Thinking.HIGH: 12_288}
"""In tokens, for models before adaptive thinking; below `MAX_OUTPUT_TOKENS`, which counts them too."""
LIMITS: Final = RequestLimits(images=600, payload_bytes=32 * 2**20)
"""https://platform.claude.com/docs/en/build-with-claude/vision, "General limits"."""
LIMITS_200K: Final = replace(LIMITS, images=100)

_DATED: Final = r"(?:-\d{8})?$"
_THINKS_BY_BUDGET: Final = re.compile(rf"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5])?{_DATED})")
_TAKES_TEMPERATURE: Final = re.compile(rf"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-6])?{_DATED})")
_THINKS_BETWEEN_TOOLS: Final = re.compile(r"claude-sonnet-5-5")
_SMALL_CONTEXT: Final = _THINKS_BY_BUDGET
_FINISHES: Final = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSED,
}
_NO_CREDIT: Final = re.compile(r"credit balance|billing", re.IGNORECASE)


class AnthropicProvider:
    """One model of Anthropic's API."""

    def __init__(self, name: str, model: str, *, key: Key) -> None:
        self.name = name
        self.key_hint = key.variable
        self._model = model
        self._key = key
        self._base_url = os.environ.get(BASE_URL_VARIABLE) or None
        self._client = anthropic.Anthropic(api_key=key.secret, base_url=self._base_url, max_retries=0)
        weakref.finalize(self, self._client.close)

    @property
    def optional(self) -> Mapping[str, re.Pattern[str]]:
        """What older and newer models do not take."""
        return {
            "temperature": re.compile(r"temperature", re.IGNORECASE),
            "schema": re.compile(r"output_config|output_format|schema|structured", re.IGNORECASE),
            "stream": STREAM_REFUSED,
        }

    @property
    def default_temperature(self) -> float | None:
        """0 for models that take one; those since Opus 4.7 and Sonnet 5 refuse whatever is not the default."""
        return 0.0 if _TAKES_TEMPERATURE.match(self._model) else None

    @property
    def limits(self) -> RequestLimits:
        """Fewer images where the context window has 200,000 tokens."""
        return LIMITS_200K if _SMALL_CONTEXT.match(self._model) else LIMITS

    @property
    def prefix_cache(self) -> PrefixCache:
        """Kept where a request asks for it, and found once the first response has begun."""
        return prompt_cache(self.name)

    @property
    def identity(self) -> Mapping[str, object]:
        """The server that answers, and how much it may say."""
        return {"base_url": self._base_url, "max_output_tokens": MAX_OUTPUT_TOKENS}

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        """Make one call."""
        schema = strict_schema(call.schema) if "schema" in features else None
        messages: list[Any] = [
            {
                "role": "user",
                "content": _blocks(call.with_schema_as_text() if schema is None else call.parts, call.shared_ends),
            }
        ]
        for repair in call.repairs:
            messages.append({"role": "assistant", "content": repair.reply})
            messages.append({"role": "user", "content": repair.instruction})
        extra: dict[str, Any] = {}
        if "temperature" in features and call.temperature is not None and not _thinks(call):
            extra["temperature"] = call.temperature
        output: dict[str, Any] = {}
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": schema}
        if call.thinking is not Thinking.DEFAULT:
            extra["thinking"] = self._thinking(call.thinking)
            if extra["thinking"]["type"] == "adaptive":
                output["effort"] = call.thinking.value
        if output:
            extra["output_config"] = output
        try:
            return self._key.mask_completion(_read(self._respond(call, messages, extra, features, timeout_seconds)))
        except anthropic.APIStatusError as error:
            raise self._failure(error) from None
        except anthropic.APITimeoutError:
            raise ServiceError(None, f"no response within {timeout_seconds:g} s") from None
        except transport_errors(anthropic.AnthropicError, json.JSONDecodeError) as error:
            raise ServiceError(None, self._key.redact(error), unreachable=is_unreachable(error)) from None

    def _respond(
        self,
        call: CompletionRequest,
        messages: list[Any],
        extra: dict[str, Any],
        features: frozenset[str],
        timeout_seconds: float,
    ) -> Message:
        messages_api = self._client.messages
        if call.on_begin is None or "stream" not in features:
            return messages_api.create(
                model=self._model,
                max_tokens=MAX_OUTPUT_TOKENS,
                messages=messages,
                extra_body=extra,
                timeout=timeout_seconds,
            )
        with messages_api.stream(
            model=self._model,
            max_tokens=MAX_OUTPUT_TOKENS,
            messages=messages,
            extra_body=extra,
            timeout=timeout_seconds,
        ) as stream:
            for event in stream:
                if event.type == "message_start":
                    call.on_begin()
            return stream.get_final_message()

    def _thinking(self, thinking: Thinking) -> dict[str, Any]:
        """The thinking field: off, adaptive, or for older models a budget in tokens."""
        if thinking is Thinking.NONE:
            return {"type": "between_tools" if _THINKS_BETWEEN_TOOLS.match(self._model) else "disabled"}
        if _THINKS_BY_BUDGET.match(self._model):
            return {"type": "enabled", "budget_tokens": THINKING_BUDGETS[thinking]}
        return {"type": "adaptive"}

    def _failure(self, error: anthropic.APIStatusError) -> ServiceError:
        body = error.body if isinstance(error.body, dict) else {}
        inner = body.get("error")
        message = (inner.get("message") if isinstance(inner, dict) else None) or error.message
        return ServiceError(
            error.status_code,
            self._key.redact(message),
            retry_after_seconds=retry_after_seconds(error.response.headers),
            permanent=bool(_NO_CREDIT.search(str(message))),
        )


def _thinks(call: CompletionRequest) -> bool:
    """Whether a person chose that the model thinks; this API takes no temperature then."""
    return call.thinking not in {Thinking.DEFAULT, Thinking.NONE}


def _blocks(parts: Sequence[Part], shared_ends: Sequence[int]) -> list[dict[str, Any]]:
    """Content blocks, marked where a beginning ends that another request shares.

    This API keeps nothing unasked, and charges a quarter more for what it is asked to keep: what nobody reads again is
    not marked.
    """
    blocks = [_block(part) for part in parts]
    for end in shared_ends:
        blocks[end - 1]["cache_control"] = {"type": "ephemeral"}
    return blocks


def _block(part: Part) -> dict[str, Any]:
    if not isinstance(part, ImagePart):
        return {"type": "text", "text": part.text}
    data = base64.b64encode(part.jpeg).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": data}}


def _read(response: Message) -> Completion:
    """The completion in a response. The API counts cached input apart from the rest; a `Usage` has it inside."""
    content: Sequence[Any] | None = getattr(response, "content", None)
    if content is None:
        raise ServiceError(None, "a response without an answer in it")
    text = "".join(block.text for block in content if block.type == "text")
    usage = response.usage
    read = token_count(usage.cache_read_input_tokens)
    written = token_count(usage.cache_creation_input_tokens)
    tokens = Usage(
        input_tokens=token_count(usage.input_tokens) + read + written,
        cached_tokens=read,
        output_tokens=token_count(usage.output_tokens),
        cache_write_tokens=written or None,
    )
    return Completion(text, tokens, _FINISHES.get(response.stop_reason or "", FinishReason.STOP))
