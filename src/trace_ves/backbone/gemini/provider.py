"""`gemini:` and `vertex:` by the google-genai SDK's generate_content."""

from __future__ import annotations

import json
import os
import re
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from google import genai
from google.auth.exceptions import GoogleAuthError
from google.genai import errors, types
from pydantic import ValidationError

from trace_ves.backbone.gemini import PROJECT_VARIABLE
from trace_ves.backbone.model_settings import Detail, RequestLimits, ServiceTier, Thinking
from trace_ves.backbone.provider import (
    BROKEN_OFF,
    Completion,
    FinishReason,
    ImagePart,
    Provider,
    ServiceError,
    refusal,
    token_count,
    transport_errors,
)
from trace_ves.backbone.retry import retry_after_seconds
from trace_ves.backbone.secret import Key
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.backbone.provider import CompletionRequest, Part

GEMINI_BASE_URL_VARIABLE: Final = "GOOGLE_GEMINI_BASE_URL"
VERTEX_BASE_URL_VARIABLE: Final = "GOOGLE_VERTEX_BASE_URL"
MEDIA_LEVELS: Final = ((360, "LOW"), (720, "MEDIUM"))  # up to this height; taller frames get HIGH
# From Gemini 3 on. MINIMAL is the least there is: https://ai.google.dev/gemini-api/docs/thinking.
THINKING_LEVELS: Final = {
    Thinking.NONE: types.ThinkingLevel.MINIMAL,
    Thinking.LOW: types.ThinkingLevel.LOW,
    Thinking.MEDIUM: types.ThinkingLevel.MEDIUM,
    Thinking.HIGH: types.ThinkingLevel.HIGH,
}
# Before Gemini 3, in tokens, as Google maps efforts to budgets: https://ai.google.dev/gemini-api/docs/openai.
THINKING_BUDGETS: Final = {Thinking.NONE: 0, Thinking.LOW: 1024, Thinking.MEDIUM: 8192, Thinking.HIGH: 24576}
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/image-understanding and
# https://ai.google.dev/gemini-api/docs/file-input-methods
LIMITS: Final = RequestLimits(images=3000, payload_bytes=100 * 2**20, longest_side_px=3072)
_GENERATION: Final = re.compile(r"gemini-(\d+(?:\.\d+)?)")
_API_VERSION: Final = "v1beta"  # the first that knows JSON schemas and a resolution for each frame
_LEVELS: Final = ("LOW", "MEDIUM", "HIGH")
_TRANSPORT_ERRORS: Final = transport_errors(
    errors.APIError, errors.UnknownApiResponseError, ValidationError, json.JSONDecodeError
)
_BLOCKED: Final = frozenset({"SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"})
_DECLINED: Final = frozenset({"RECITATION", "LANGUAGE", "OTHER", "MALFORMED_RESPONSE"})


class GeminiProvider(Provider):
    """One model of the Gemini API or of Vertex AI."""

    def __init__(
        self,
        name: str,
        model: str,
        client: genai.Client,
        *,
        key: Key,
        identity: Mapping[str, object],
        key_hint: str | None = None,
    ) -> None:
        super().__init__(name, model, key, key_hint=key_hint)
        self._identity = identity
        self._client = client
        weakref.finalize(self, client.close)

    @classmethod
    def with_key(cls, name: str, model: str, *, key: Key) -> GeminiProvider:
        """The Gemini API, by key."""
        base_url = os.environ.get(GEMINI_BASE_URL_VARIABLE) or None
        options = types.HttpOptions(base_url=base_url, api_version=_API_VERSION)
        client = genai.Client(vertexai=False, api_key=key.secret, http_options=options)
        return cls(name, model, client, key=key, identity={"base_url": base_url})

    @classmethod
    def with_project(cls, name: str, model: str, *, project: str, location: str) -> GeminiProvider:
        """Vertex AI, by the project and the credentials of this machine."""
        base_url = os.environ.get(VERTEX_BASE_URL_VARIABLE) or None
        options = types.HttpOptions(base_url=base_url)
        client = genai.Client(vertexai=True, project=project, location=location, http_options=options)
        hint = f"GOOGLE_APPLICATION_CREDENTIALS and {PROJECT_VARIABLE}, or run `gcloud auth application-default login`"
        no_key = Key(PROJECT_VARIABLE, "")  # its tokens are short-lived, and masked by their pattern
        identity = {"base_url": base_url, "location": location}
        return cls(name, model, client, key=no_key, key_hint=hint, identity=identity)

    @property
    def optional(self) -> Mapping[str, re.Pattern[str]]:
        """What older models do not take."""
        return {
            "frame_detail": refusal(r"media.?resolution"),
            "detail": refusal(r"media.?resolution"),
            "temperature": refusal(r"temperature"),
            "thinking_off": refusal(r"thinking|reasoning|effort|'none'"),
            "seed": refusal(r"\bseed\b"),
            "schema": refusal(r"schema|json mode"),
            "stream": refusal(r"\bstream"),
        }

    @property
    def identity(self) -> Mapping[str, object]:
        """The server and, for Vertex AI, the location."""
        return self._identity

    @property
    def default_temperature(self) -> float | None:
        """0 for models before Gemini 3; from 3 on Google advises against anything but the model's own."""
        return 0.0 if self._generation < 3 else None

    @property
    def limits(self) -> RequestLimits:
        """The limits of the Gemini API, which are not above those of Vertex AI."""
        return LIMITS

    @property
    def _generation(self) -> float:
        """The number in `gemini-2.5-flash`; a name without one counts as the newest."""
        match = _GENERATION.search(self._model)
        return float(match.group(1)) if match else 99.0

    def _thinking(self, call: CompletionRequest) -> types.ThinkingConfig | None:
        if call.thinking is Thinking.DEFAULT:
            return None
        if self._generation < 3:
            return types.ThinkingConfig(thinking_budget=THINKING_BUDGETS[call.thinking])
        return types.ThinkingConfig(thinking_level=THINKING_LEVELS[call.thinking])

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        """Make one call."""
        parts = call.parts if "schema" in features else call.with_schema_as_text()
        contents = [types.Content(role="user", parts=[_part(part, call.detail, features) for part in parts])]
        for repair in call.repairs:
            contents.append(types.Content(role="model", parts=[types.Part(text=repair.reply)]))
            contents.append(types.Content(role="user", parts=[types.Part(text=repair.instruction)]))
        try:
            config = self._config(call, parts, features, timeout_seconds)
            response = self._respond(call, list(contents), config, features)
            tier = ServiceTier.STANDARD if call.service_tier is ServiceTier.STANDARD else ServiceTier.FLEX
            return self._mask(replace(_read(response), service_tier=tier))
        except errors.APIError as error:
            raise self._failure(error) from None
        except GoogleAuthError as error:
            raise ServiceError(401, self._key.redact(error), permanent=True) from None
        except _TRANSPORT_ERRORS as error:
            raise self._no_response(error) from None

    def _respond(
        self,
        call: CompletionRequest,
        contents: list[Any],
        config: types.GenerateContentConfig,
        features: frozenset[str],
    ) -> types.GenerateContentResponse:
        if call.on_begin is None or "stream" not in features:
            return self._client.models.generate_content(model=self._model, contents=contents, config=config)
        stream = self._client.models.generate_content_stream(model=self._model, contents=contents, config=config)
        chunks = []
        try:
            for chunk in stream:
                call.on_begin()
                chunks.append(chunk)
        except _TRANSPORT_ERRORS as error:
            failure = self._failure(error) if isinstance(error, errors.APIError) else self._no_response(error)
            if any(chunk.candidates for chunk in chunks):
                failure.usage = _read(_join_chunks(chunks)).usage
            raise failure from None
        whole = _join_chunks(chunks)
        if whole.candidates and not whole.candidates[0].finish_reason:
            raise ServiceError(None, BROKEN_OFF, usage=_read(whole).usage)
        return whole

    def _failure(self, error: errors.APIError) -> ServiceError:
        quotas = re.findall(
            r"'quotaId': '(\w{1,99}PerDay[\w-]{0,99})'", str(error.details)
        )  # the message leaves it out
        message = self._key.redact(" ".join([error.message or error.status or "", *quotas[:1]]))
        bad_key = "API key" in message and error.code == 400  # this API answers a wrong key with 400
        return ServiceError(401 if bad_key else error.code, message, retry_after_seconds=_retry_after_seconds(error))

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
        config.thinking_config = self._thinking(call)
        if call.service_tier is not ServiceTier.STANDARD:
            config.service_tier = types.ServiceTier.FLEX
        levels = [
            _LEVELS.index(media_level(part.height_px, call.detail)) for part in parts if isinstance(part, ImagePart)
        ]
        if levels and "detail" in features and "frame_detail" not in features:
            config.media_resolution = types.MediaResolution(f"MEDIA_RESOLUTION_{_LEVELS[max(levels)]}")
        return config


def _part(part: Part, detail: Detail, features: frozenset[str]) -> types.Part:
    if not isinstance(part, ImagePart):
        return types.Part(text=part.text)
    blob = types.Blob(data=part.jpeg, mime_type="image/jpeg")
    if "frame_detail" not in features:
        return types.Part(inline_data=blob)
    level = types.PartMediaResolutionLevel(f"MEDIA_RESOLUTION_{media_level(part.height_px, detail)}")
    return types.Part(inline_data=blob, media_resolution=types.PartMediaResolution(level=level))


def media_level(height_px: int, detail: Detail = Detail.AUTO) -> str:
    """The media resolution of a frame: the chosen one, else LOW, MEDIUM or HIGH by its height."""
    if detail is not Detail.AUTO:
        return detail.value.upper()
    return next((level for height, level in MEDIA_LEVELS if height_px <= height), "HIGH")


def _join_chunks(chunks: Sequence[types.GenerateContentResponse]) -> types.GenerateContentResponse:
    """The response that came in chunks: their parts one after the other, and the counts of the last that has them."""
    candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
    parts = [part for candidate in candidates if candidate.content for part in candidate.content.parts or []]
    reason = next((each.finish_reason for each in reversed(candidates) if each.finish_reason), None)
    whole = types.Candidate(content=types.Content(role="model", parts=parts), finish_reason=reason)
    return types.GenerateContentResponse(
        candidates=[whole] if candidates else None,
        usage_metadata=next((chunk.usage_metadata for chunk in reversed(chunks) if chunk.usage_metadata), None),
        prompt_feedback=next((chunk.prompt_feedback for chunk in chunks if chunk.prompt_feedback), None),
    )


def _read(response: types.GenerateContentResponse) -> Completion:
    """The completion in a response: thoughts are counted as output and left out of the text."""
    counts = response.usage_metadata or types.GenerateContentResponseUsageMetadata()
    tokens = Usage(
        input_tokens=token_count(counts.prompt_token_count),
        cached_tokens=token_count(counts.cached_content_token_count),
        output_tokens=token_count(counts.candidates_token_count) + token_count(counts.thoughts_token_count),
    )
    if response.prompt_feedback and response.prompt_feedback.block_reason:
        return Completion("", tokens, FinishReason.BLOCKED, note=response.prompt_feedback.block_reason.value)
    if not response.candidates:
        raise ServiceError(None, "a response without an answer in it")
    candidate = response.candidates[0]
    parts = (candidate.content.parts if candidate.content else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    reason = candidate.finish_reason.value if candidate.finish_reason else "STOP"
    return Completion(text, tokens, *_finish(reason, text))


def _finish(reason: str, text: str) -> tuple[FinishReason, str]:
    if reason in {"STOP", "FINISH_REASON_UNSPECIFIED"}:
        return FinishReason.STOP, ""
    if reason in {"MAX_TOKENS", "CONTINUATION"}:
        return FinishReason.LENGTH, ""
    if text and reason not in _BLOCKED | _DECLINED:  # a reason that is newer than this package
        return FinishReason.STOP, ""
    return (FinishReason.REFUSED if reason in _DECLINED else FinishReason.BLOCKED), reason


def _retry_after_seconds(error: errors.APIError) -> float | None:
    """How long the service asks to wait: a header, or this API's own `RetryInfo` such as `"retryDelay": "34s"`."""
    headers: Any = getattr(error.response, "headers", None) or {}
    asked = retry_after_seconds(headers)
    delay = re.search(r"'retryDelay': '(\d{1,6}(?:\.\d{1,9})?)s'", str(error.details))
    return float(delay.group(1)) if asked is None and delay else asked
