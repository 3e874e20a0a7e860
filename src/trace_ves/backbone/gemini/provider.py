"""`gemini:` and `vertex:` by the google-genai SDK's generate_content."""

import json
import os
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from google import genai
from google.auth.exceptions import GoogleAuthError
from google.genai import errors, types
from pydantic import ValidationError

from trace_ves.backbone.frame_tokens import frame_detail
from trace_ves.backbone.gemini import PROJECT_VARIABLE
from trace_ves.backbone.model_settings import Detail, RequestLimits, ServiceTier, Thinking
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
    token_count,
    transport_errors,
)
from trace_ves.backbone.retry import retry_after_seconds
from trace_ves.backbone.secret import Key
from trace_ves.records import Usage

# Before Gemini 3, in tokens, as Google maps efforts to budgets: https://ai.google.dev/gemini-api/docs/openai.
THINKING_BUDGETS: Final = {Thinking.NONE: 0, Thinking.LOW: 1024, Thinking.MEDIUM: 8192, Thinking.HIGH: 24576}
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/image-understanding and
# https://ai.google.dev/gemini-api/docs/file-input-methods
LIMITS: Final = RequestLimits(images=3000, payload_bytes=100 * 2**20, longest_side_px=3072)
_GENERATION: Final = re.compile(r"gemini-(\d+(?:\.\d+)?)")
_API_VERSION: Final = "v1beta"  # the first that knows JSON schemas and a resolution for each frame
_CLIENT: Final = {"follow_redirects": False}  # a redirect would send the key to another host
_VERTEX_HINT: Final = (
    f"GOOGLE_APPLICATION_CREDENTIALS and {PROJECT_VARIABLE}, or run `gcloud auth application-default login`"
)
_LEVELS: Final = ("LOW", "MEDIUM", "HIGH")
_ERRORS: Final = transport_errors(
    errors.APIError, errors.UnknownApiResponseError, ValidationError, json.JSONDecodeError, GoogleAuthError
)
_BLOCKED: Final = frozenset({"SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"})
_DECLINED: Final = frozenset({"RECITATION", "LANGUAGE", "OTHER", "MALFORMED_RESPONSE"})
_OPTIONAL: Final = {
    "frame_detail": r"media.?resolution",
    "detail": r"media.?resolution",
    "temperature": r"temperature",
    "thinking_off": r"thinking|reasoning|effort|'none'",
    "seed": r"\bseed\b",
    "schema": r"schema|json mode",
    "stream": r"\bstream",
    "flex": r"tier|flex",
}


class GeminiProvider(Provider):
    """One model of the Gemini API or of Vertex AI."""

    errors = _ERRORS
    optional = _OPTIONAL
    limits = LIMITS

    def __init__(self, name: str, model: str, *, key: Key | None = None, project: str | None = None) -> None:
        if key is not None:  # the Gemini API
            base_url = os.environ.get("GOOGLE_GEMINI_BASE_URL") or None
            options = types.HttpOptions(api_version=_API_VERSION, client_args=_CLIENT)
            self._client = genai.Client(vertexai=False, api_key=key.secret, http_options=options)
            super().__init__(name, model, key, identity={"base_url": base_url})
        else:  # Vertex AI, by the project and the credentials of this machine
            base_url = os.environ.get("GOOGLE_VERTEX_BASE_URL") or None
            location = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
            options = types.HttpOptions(client_args=_CLIENT)
            self._client = genai.Client(vertexai=True, project=project, location=location, http_options=options)
            no_key = Key(PROJECT_VARIABLE, "")  # its tokens are short-lived, and masked by their pattern
            identity = {"base_url": base_url, "location": location}
            super().__init__(name, model, no_key, identity=identity, key_hint=_VERTEX_HINT)
        weakref.finalize(self, self._client.close)
        generation = _GENERATION.search(model)
        self._is_old = generation is not None and float(generation[1]) < 3
        self.default_temperature = 0.0 if self._is_old else None  # Google advises against it from Gemini 3 on

    def _send(self, call: CompletionRequest, features: frozenset[str], timeout_seconds: float) -> Completion:
        parts = call.parts if "schema" in features else call.with_schema_as_text()
        contents = [types.Content(role="user", parts=[_part(part, call.detail, features) for part in parts])]
        for repair in call.repairs:
            contents.append(types.Content(role="model", parts=[types.Part(text=repair.reply)]))
            contents.append(types.Content(role="user", parts=[types.Part(text=repair.instruction)]))
        config = self._config(call, parts, features, timeout_seconds)
        asked: dict[str, Any] = {"model": self._model, "contents": contents, "config": config}
        if call.on_begin is None or "stream" not in features:
            response = [self._client.models.generate_content(**asked)]
        else:
            response = self._stream(asked, call.on_begin)
        return replace(_read(response), service_tier=call.service_tier)

    def _stream(self, asked: dict[str, Any], on_begin: Callable[[], object]) -> list[types.GenerateContentResponse]:
        """The chunks of a response. Where it breaks off, the failure has what was charged."""
        chunks: list[types.GenerateContentResponse] = []
        try:
            for chunk in self._client.models.generate_content_stream(**asked):
                on_begin()
                chunks.append(chunk)
        except self.errors as error:
            raise replace(self._failure(error), usage=_usage(chunks)) from None
        candidates = _candidates(chunks)
        if candidates and not any(each.finish_reason for each in candidates):
            raise ServiceError(None, BROKEN_OFF, usage=_usage(chunks))
        return chunks

    def _failure(self, error: Exception) -> ServiceError:
        if isinstance(error, GoogleAuthError):
            return ServiceError(401, self._key.redact(error), permanent=True)
        if not isinstance(error, errors.APIError):
            return super()._failure(error)
        details = str(error.details)
        quotas = re.findall(r"'quotaId': '(\w{1,99}PerDay[\w-]{0,99})'", details)  # the message leaves it out
        message = self._key.redact(" ".join([error.message or error.status or "", *quotas[:1]]))
        bad_key = "API key" in message and error.code == 400  # this API answers a wrong key with 400
        seconds = retry_after_seconds(getattr(error.response, "headers", None) or {})
        delay = re.search(r"'retryDelay': '(\d{1,6}(?:\.\d{1,9})?)s'", details)  # of this API's `RetryInfo`
        if seconds is None and delay:
            seconds = float(delay[1])
        return ServiceError(401 if bad_key else error.code, message, retry_after_seconds=seconds)

    def _config(
        self, call: CompletionRequest, parts: Sequence[Part], features: frozenset[str], timeout_seconds: float
    ) -> types.GenerateContentConfig:
        config = types.GenerateContentConfig(
            http_options=types.HttpOptions(timeout=max(1, int(timeout_seconds * 1000))),
            max_output_tokens=call.max_output_tokens,
        )
        if "schema" in features:
            config.response_mime_type = "application/json"
            config.response_json_schema = dict(call.schema)
        if "temperature" in features and call.temperature is not None:
            config.temperature = call.temperature
        if "seed" in features:
            config.seed = call.seed
        if call.thinking is not Thinking.DEFAULT:
            config.thinking_config = self._thinking(call.thinking)
        if call.service_tier is ServiceTier.FLEX:
            config.service_tier = types.ServiceTier.FLEX
        levels = [_LEVELS.index(_media_level(part, call.detail)) for part in parts if isinstance(part, ImagePart)]
        if levels and "detail" in features and "frame_detail" not in features:
            config.media_resolution = types.MediaResolution(f"MEDIA_RESOLUTION_{_LEVELS[max(levels)]}")
        return config

    def _thinking(self, thinking: Thinking) -> types.ThinkingConfig:
        if self._is_old:
            return types.ThinkingConfig(thinking_budget=THINKING_BUDGETS[thinking])
        # MINIMAL is the least there is: https://ai.google.dev/gemini-api/docs/thinking.
        level = "MINIMAL" if thinking is Thinking.NONE else thinking.value.upper()
        return types.ThinkingConfig(thinking_level=types.ThinkingLevel(level))


def _part(part: Part, detail: Detail, features: frozenset[str]) -> types.Part:
    if not isinstance(part, ImagePart):
        return types.Part(text=part.text)
    blob = types.Blob(data=part.jpeg, mime_type="image/jpeg")
    if "frame_detail" not in features:
        return types.Part(inline_data=blob)
    level = types.PartMediaResolutionLevel(f"MEDIA_RESOLUTION_{_media_level(part, detail)}")
    return types.Part(inline_data=blob, media_resolution=types.PartMediaResolution(level=level))


def _media_level(part: ImagePart, detail: Detail) -> str:
    return frame_detail("gemini", part.height_px, detail).upper()


def _candidates(response: Sequence[types.GenerateContentResponse]) -> list[types.Candidate]:
    return [chunk.candidates[0] for chunk in response if chunk.candidates]


def _read(response: Sequence[types.GenerateContentResponse]) -> Completion:
    """The completion in a response, which may come in chunks; thoughts are left out of the text."""
    tokens = _usage(response)
    for chunk in response:
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            return Completion("", tokens, FinishReason.BLOCKED, note=chunk.prompt_feedback.block_reason.value)
    candidates = _candidates(response)
    if not candidates:
        raise ServiceError(None, NO_ANSWER)
    parts = [part for each in candidates if each.content for part in each.content.parts or []]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    reasons = [each.finish_reason.value for each in candidates if each.finish_reason]
    return Completion(text, tokens, *_finish(reasons[-1] if reasons else "STOP", text))


def _usage(response: Sequence[types.GenerateContentResponse]) -> Usage:
    """The tokens of a response, as its last chunk with counts has them; thoughts are output."""
    stated = [chunk.usage_metadata for chunk in response if chunk.usage_metadata]
    counts = stated[-1] if stated else types.GenerateContentResponseUsageMetadata()
    return Usage(
        input_tokens=token_count(counts.prompt_token_count),
        cached_tokens=token_count(counts.cached_content_token_count),
        output_tokens=token_count(counts.candidates_token_count) + token_count(counts.thoughts_token_count),
    )


def _finish(reason: str, text: str) -> tuple[FinishReason, str]:
    if reason in {"STOP", "FINISH_REASON_UNSPECIFIED"}:
        return FinishReason.STOP, ""
    if reason in {"MAX_TOKENS", "CONTINUATION"}:
        return FinishReason.LENGTH, ""
    if text and reason not in _BLOCKED | _DECLINED:  # a reason that is newer than this package
        return FinishReason.STOP, ""
    return (FinishReason.REFUSED if reason in _DECLINED else FinishReason.BLOCKED), reason
