"""`openai:`, by chat completions of the openai SDK: OpenAI itself, and compatible servers by URL."""

from __future__ import annotations

import hashlib
import json
import os
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import openai

from trace_ves.backbone.frame_tokens import frame_detail
from trace_ves.backbone.model_settings import Detail, RequestLimits, ServerKind, ServiceTier, Thinking
from trace_ves.backbone.openai import is_local_network
from trace_ves.backbone.prompt_caches import PrefixCache, SendOrder
from trace_ves.backbone.provider import (
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
from trace_ves.backbone.replies import ENFORCED_KEYWORDS, make_strict_schema
from trace_ves.backbone.retry import retry_after_seconds
from trace_ves.records import Usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    from trace_ves.backbone.secret import Key

MODELS_PATH: Final = "/v1/models"
# The value of `owned_by` in the models of each server.
_OWNERS: Final = {"vllm": ServerKind.VLLM, "sglang": ServerKind.SGLANG, "llamacpp": ServerKind.LLAMA_CPP}


def detect_server(fetch: Callable[[str], object]) -> tuple[ServerKind, int]:
    """The kind of a server, and the slots of llama.cpp. `fetch` returns the JSON at a path under the server's root."""
    models = _get_field(fetch(MODELS_PATH), "data")
    owners = (_get_field(model, "owned_by") for model in (models if isinstance(models, list) else []))
    kind = next((_OWNERS[owner] for owner in owners if isinstance(owner, str) and owner in _OWNERS), None)
    if kind is None and _get_field(fetch("/version"), "version") is not None:
        kind = ServerKind.VLLM
    slots = _get_field(fetch("/props"), "total_slots") if kind in {None, ServerKind.LLAMA_CPP} else None
    if kind is None:
        kind = ServerKind.OTHER if slots is None else ServerKind.LLAMA_CPP
    return kind, slots if type(slots) is int and 1 <= slots <= 1024 else 1


def _get_field(body: object, name: str) -> object:
    """A field of a JSON object; None if a server sent something else."""
    return body.get(name) if isinstance(body, dict) else None


# https://developers.openai.com/api/docs/guides/images-vision, "Image input requirements"
LIMITS: Final = RequestLimits(images=500, payload_bytes=50 * 2**20, longest_side_px=2048)
PROBE_SECONDS: Final = 5.0  # Timeout of each request that detects a server

_WITHOUT_UUID: Final = frozenset({ServerKind.SGLANG, ServerKind.LLAMA_CPP})  # Others cache frames by their uuid
_OFFICIAL_URL: Final = "https://api.openai.com/v1"
_REASONING_MODEL: Final = re.compile(r"(?:.*/)?(?:gpt-(?:[5-9]|\d{2})|o\d)")
_BLOCKED_CODES: Final = frozenset({"content_filter", "content_policy_violation"})
_NO_CREDIT_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_STATUSES: Final = {"rate_limit_exceeded": 429, "invalid_request_error": 400, "context_length_exceeded": 400}
_ERRORS: Final = transport_errors(openai.APIError, json.JSONDecodeError)
_PROBE_ERRORS: Final = transport_errors(openai.OpenAIError, ValueError)
_OPTIONAL: Final = {  # Features that a compatible server or a reasoning model may refuse
    "uuid": r"\buuid\b",
    "cache_marks": r"prompt_cache_(?:options|breakpoint)",
    "cache_key": r"prompt_cache_key",
    "detail": r"(?-i:\bdetail\b)",
    "temperature": r"temperature",
    "thinking_off": r"thinking|reasoning|effort|'none'",
    "max_tokens": r"max_tokens",
    "seed": r"\bseed\b",
    "strict": r"\bstrict\b",
    "schema": r"response_format|schema|structured|guided|grammar",
    "stream": r"\bstream",
    "flex": r"tier|flex",
}
_FINISHES: Final = {"length": FinishReason.LENGTH, "content_filter": FinishReason.BLOCKED}


class OpenAIProvider(Provider):
    """One model behind an OpenAI-compatible API."""

    errors = _ERRORS

    def __init__(
        self,
        name: str,
        model: str,
        *,
        key: Key,
        base_url: str | None = None,
        server: ServerKind = ServerKind.AUTO,
        key_hint: str | None = None,
    ) -> None:
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or _OFFICIAL_URL
        super().__init__(name, model, key, identity={"base_url": self._base_url}, key_hint=key_hint)
        self.may_drop_frames = self._own_server = base_url is not None
        self._server, self._slots = server, 1  # Of a self-hosted server; AUTO until it is detected
        is_official = urlsplit(self._base_url).hostname == urlsplit(_OFFICIAL_URL).hostname
        unused = {"max_tokens"} if is_official else set()
        unused |= {"strict" if is_local_network(self._base_url) else "uuid"}
        unused |= {"cache_marks", "cache_key"} if self._own_server else set()
        self.optional = {name: refusal for name, refusal in _OPTIONAL.items() if name not in unused}
        if _REASONING_MODEL.match(model):
            self.default_temperature = None
        if is_official:  # the limits of a compatible server are unknown
            self.limits = LIMITS
        http = openai.DefaultHttpxClient(follow_redirects=False)  # a redirect would send the key to another host
        self._client = openai.OpenAI(api_key=key.secret, base_url=self._base_url, max_retries=0, http_client=http)
        weakref.finalize(self, self._client.close)

    @property
    def prefix_cache(self) -> PrefixCache:
        """The cache of OpenAI, or of the self-hosted server, which is detected first."""
        if not self._own_server:
            return super().prefix_cache
        if self._server is ServerKind.AUTO:
            self._server, self._slots = detect_server(self._fetch)
        if self._server is ServerKind.LLAMA_CPP:
            return PrefixCache(SendOrder.GROWING, parallel=self._slots)
        return PrefixCache()

    def _fetch(self, path: str) -> object:
        """The JSON at a path under the server's root; None after an error or a timeout."""
        base_url = self._base_url.rstrip("/")
        url = f"{base_url}/models" if path == MODELS_PATH else base_url.removesuffix("/v1") + path
        try:
            return self._client.with_options(timeout=PROBE_SECONDS).get(url, cast_to=object)
        except _PROBE_ERRORS:
            return None

    def _send(self, call: CompletionRequest, features: frozenset[str], timeout_seconds: float) -> Completion:
        body = self._body(call, features) | {"timeout": timeout_seconds}
        create = self._client.chat.completions.create
        try:
            if call.on_begin is not None and "stream" in features:
                return _read_stream(create(**body, stream=True, stream_options={"include_usage": True}), call.on_begin)
            response = create(**body)
        except openai.APIStatusError as error:
            if error.code not in _BLOCKED_CODES:
                raise
            return Completion("", finish=FinishReason.BLOCKED, note=str(error.code))
        if isinstance(response, str):  # the SDK returns the text of a response that is not JSON
            raise self._not_json(response)
        # Compatible servers may omit fields, and OpenRouter sends errors with the status 200.
        choices: Sequence[Any] = getattr(response, "choices", None) or [None]
        if error_body := getattr(response, "error", None) or getattr(choices[0], "error", None):
            raise self._parse_failure(error_body)
        message = getattr(choices[0], "message", None)
        if message is None:
            raise ServiceError(None, NO_ANSWER)
        text = message.content if isinstance(message.content, str) else ""
        return _completion(text, getattr(message, "refusal", None), choices[0].finish_reason, response)

    def _body(self, call: CompletionRequest, features: frozenset[str]) -> dict[str, Any]:
        parts = call.parts if "schema" in features else call.with_schema_as_text()
        content = [self._content(part, call.detail, features) for part in parts]
        body: dict[str, Any] = {"model": self._model, "messages": call.messages(content)}
        if "schema" in features:
            strict = make_strict_schema(call.schema, keep=ENFORCED_KEYWORDS)
            schema: dict[str, Any] = {"name": "reply", "schema": strict or dict(call.schema)}
            schema |= {"strict": True} if strict and "strict" in features else {}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        settings = {
            "temperature": call.temperature if "temperature" in features else None,
            # the second name is newer, and not every server accepts it
            "max_tokens" if "max_tokens" in features else "max_completion_tokens": call.max_output_tokens,
            "reasoning_effort": None if call.thinking is Thinking.DEFAULT else call.thinking.value,
            "service_tier": "flex" if call.service_tier is ServiceTier.FLEX else None,
            "seed": call.seed if "seed" in features else None,
        }
        body |= {name: value for name, value in settings.items() if value is not None}
        extra: dict[str, Any] = {}
        if "cache_key" in features and call.cache_key is not None:
            extra["prompt_cache_key"] = call.cache_key
        # Models since GPT-5.6 charge for writing into the cache, so only shared prefixes are marked.
        if "cache_marks" in features and self.prefix_cache.marked:
            extra["prompt_cache_options"] = {"mode": "explicit"}
            for end in call.shared_ends:
                content[end - 1]["prompt_cache_breakpoint"] = {"mode": "explicit"}
        return body | {"extra_body": extra}

    def _content(self, part: Part, detail: Detail, features: frozenset[str]) -> dict[str, Any]:
        if not isinstance(part, ImagePart):
            return {"type": "text", "text": part.text}
        image = {"url": f"data:image/jpeg;base64,{part.base64}"}
        if "detail" in features:
            image["detail"] = frame_detail("openai", part.height_px, detail)
        content: dict[str, Any] = {"type": "image_url", "image_url": image}
        if "uuid" in features and self._server not in _WITHOUT_UUID:
            content["uuid"] = hashlib.sha256(part.jpeg).hexdigest()
        return content

    def _parse_failure(self, error: object) -> ServiceError:
        """The failure in an error body, whatever the status of the response."""
        fields = error if isinstance(error, dict) else {"message": error}
        code = fields.get("code")
        status = next((_STATUSES[str(name)] for name in (code, fields.get("type")) if str(name) in _STATUSES), 500)
        metadata = fields.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None  # from the provider behind OpenRouter
        return ServiceError(
            code if type(code) is int and 400 <= code < 600 else status,
            self._key.redact(" ".join(str(part) for part in (fields.get("message"), raw) if part)),
            permanent=code in _NO_CREDIT_CODES,
        )

    def _failure(self, error: Exception) -> ServiceError:
        if not isinstance(error, openai.APIStatusError):
            body = getattr(error, "body", None)  # of an error inside a stream
            return self._parse_failure(body) if isinstance(body, dict) else super()._failure(error)
        message: object = error.body or error.message  # the SDK unwraps `error`; other servers have these at the top
        if isinstance(error.body, dict):
            message = error.body.get("message") or error.body.get("detail") or error.body
        return ServiceError(
            error.status_code,
            self._key.redact(error.response.headers.get("location") or message),
            retry_after_seconds=retry_after_seconds(error.response.headers),
            permanent=error.code in _NO_CREDIT_CODES,
        )


def _read_stream(stream: Iterable[ChatCompletionChunk], on_begin: Callable[[], object]) -> Completion:
    """The completion in a streamed response; the last chunk has the token counts."""
    text, refusal, finish, last = "", "", None, None
    for chunk in stream:
        on_begin()
        last = chunk
        for choice in chunk.choices[:1]:
            text += choice.delta.content or ""
            refusal += choice.delta.refusal or ""
            finish = choice.finish_reason or finish
    if last is None or finish is None:
        raise ServiceError(None, NO_ANSWER)
    return _completion(text, refusal, finish, last)


def _completion(
    text: str, refusal: str | None, finish: str, response: ChatCompletion | ChatCompletionChunk
) -> Completion:
    usage = response.usage
    details = getattr(usage, "prompt_tokens_details", None)
    tokens = Usage(
        input_tokens=parse_count(getattr(usage, "prompt_tokens", None)),
        cached_tokens=parse_count(getattr(details, "cached_tokens", None)),
        output_tokens=parse_count(getattr(usage, "completion_tokens", None)),
        cache_write_tokens=parse_count(getattr(details, "cache_write_tokens", None)) or None,
    )
    tier = ServiceTier.FLEX if getattr(response, "service_tier", None) == "flex" else ServiceTier.STANDARD
    if refusal:
        return Completion(refusal, tokens, FinishReason.REFUSED, service_tier=tier)
    return Completion(text, tokens, _FINISHES.get(finish, FinishReason.STOP), service_tier=tier)
