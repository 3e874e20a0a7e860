"""`openai:` by the openai SDK's chat completions: OpenAI itself, and any compatible server by its URL.

Whatever is not essential is optional, and dropped when a server refuses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import openai

from trace_ves.backbone.model_settings import Detail, RequestLimits, ServerKind, ServiceTier, Thinking
from trace_ves.backbone.openai import is_local_network
from trace_ves.backbone.prompt_caches import PrefixCache, SendOrder
from trace_ves.backbone.provider import (
    Completion,
    FinishReason,
    ImagePart,
    Provider,
    ServiceError,
    refusal,
    token_count,
    transport_errors,
)
from trace_ves.backbone.replies import ENFORCED_KEYWORDS, strict_schema
from trace_ves.backbone.retry import retry_after_seconds
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    from trace_ves.backbone.provider import CompletionRequest, Part
    from trace_ves.backbone.secret import Key

MODELS_PATH: Final = "/v1/models"
MOST_SLOTS: Final = 1024


@dataclass(frozen=True, slots=True)
class ServerProfile:
    """How one kind of server is asked."""

    kind: ServerKind
    prefix_cache: PrefixCache = field(default_factory=PrefixCache)
    takes_uuid: bool = False  # whether a frame is sent with a name, by which the server finds it in its cache


PROFILES: Final = {
    profile.kind: profile
    for profile in (
        ServerProfile(ServerKind.VLLM, takes_uuid=True),
        ServerProfile(ServerKind.SGLANG),
        ServerProfile(ServerKind.LLAMA_CPP, PrefixCache(SendOrder.GROWING, parallel=1)),
        ServerProfile(ServerKind.OTHER, takes_uuid=True),
    )
}

# What each server writes into `owned_by` of its models.
_OWNERS: Final = {"vllm": ServerKind.VLLM, "sglang": ServerKind.SGLANG, "llamacpp": ServerKind.LLAMA_CPP}


def recognise(ask: Callable[[str], object]) -> ServerProfile:
    """The profile of a server; `ask` gives the JSON at a path under the server's root, None where there is none."""
    models = _field(ask(MODELS_PATH), "data")
    owners = (_field(model, "owned_by") for model in (models if isinstance(models, list) else []))
    kind = next((_OWNERS[owner] for owner in owners if isinstance(owner, str) and owner in _OWNERS), None)
    if kind is None and _field(ask("/version"), "version") is not None:
        kind = ServerKind.VLLM
    if kind not in {None, ServerKind.LLAMA_CPP}:
        return PROFILES[kind]
    slots = _field(ask("/props"), "total_slots")
    if kind is None and slots is None:
        return PROFILES[ServerKind.OTHER]
    profile = PROFILES[ServerKind.LLAMA_CPP]
    if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
        return profile
    return replace(profile, prefix_cache=replace(profile.prefix_cache, parallel=slots))


def _field(body: object, name: str) -> object:
    """A field of a JSON object; None where a server sent something else."""
    return body.get(name) if isinstance(body, dict) else None


BASE_URL_VARIABLE: Final = "OPENAI_BASE_URL"
LOW_DETAIL_MAX_HEIGHT_PX: Final = 360  # frames up to this height are sent with `detail: low`, taller ones with `high`
# https://developers.openai.com/api/docs/guides/images-vision, "Image input requirements"
LIMITS: Final = RequestLimits(images=500, payload_bytes=50 * 2**20, longest_side_px=2048)
PROBE_SECONDS: Final = 5.0  # time limit for recognising a server

_UNKNOWN_SERVER: Final = PROFILES[ServerKind.OTHER]
_OFFICIAL_URL: Final = "https://api.openai.com/v1"
_REASONING_MODEL: Final = re.compile(r"(?:.*/)?(?:gpt-(?:[5-9]|\d{2})|o\d)")
_BLOCKED_CODES: Final = frozenset({"content_filter", "content_policy_violation"})
_NO_CREDIT_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_STATUSES: Final = {"rate_limit_exceeded": 429, "invalid_request_error": 400, "context_length_exceeded": 400}
_TRANSPORT_ERRORS: Final = transport_errors(openai.APIError, json.JSONDecodeError)
_PROBE_ERRORS: Final = transport_errors(openai.OpenAIError, ValueError)
_FINISHES: Final = {"length": FinishReason.LENGTH, "content_filter": FinishReason.BLOCKED}


class OpenAIProvider(Provider):
    """One model behind an OpenAI-compatible API."""

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
        super().__init__(name, model, key, key_hint=key_hint)
        self._base_url = base_url or os.environ.get(BASE_URL_VARIABLE) or _OFFICIAL_URL
        self._own_server = base_url is not None
        self.may_drop_frames = self._own_server
        self._profile = PROFILES.get(server)  # how a self-hosted server is asked; None until it was recognised
        self._official = urlsplit(self._base_url).hostname == urlsplit(_OFFICIAL_URL).hostname
        self._local = is_local_network(self._base_url)
        self._client = openai.OpenAI(api_key=key.secret, base_url=self._base_url, max_retries=0)
        weakref.finalize(self, self._client.close)

    @property
    def optional(self) -> Mapping[str, re.Pattern[str]]:
        """What a compatible server or a reasoning model may not take."""
        features = {
            "uuid": refusal(r"\buuid\b"),
            "cache_marks": refusal(r"prompt_cache_(?:options|breakpoint)"),
            "cache_key": refusal(r"prompt_cache_key"),
            "detail": re.compile(r"\bdetail\b"),
            "temperature": refusal(r"temperature"),
            "thinking_off": refusal(r"thinking|reasoning|effort|'none'"),
            "max_tokens": refusal(r"max_tokens"),
            "seed": refusal(r"\bseed\b"),
            "strict": refusal(r"\bstrict\b"),
            "schema": refusal(r"response_format|schema|structured|guided|grammar"),
            "stream": refusal(r"\bstream"),
        }
        if self._official:
            del features["max_tokens"]
        del features["strict" if self._local else "uuid"]
        if self._own_server:
            del features["cache_marks"], features["cache_key"]
        return features

    @property
    def default_temperature(self) -> float | None:
        """0, except for reasoning models, which take no temperature of ours."""
        return None if _REASONING_MODEL.match(self._model) else 0.0

    @property
    def limits(self) -> RequestLimits:
        """OpenAI's own; a compatible server has limits that only its owner knows."""
        return LIMITS if self._official else RequestLimits()

    @property
    def prefix_cache(self) -> PrefixCache:
        """OpenAI's, or that of the self-hosted server, which is asked what it is."""
        if not self._own_server:
            return super().prefix_cache
        if self._profile is None:
            self._profile = recognise(self._ask_server)
        return self._profile.prefix_cache

    def _ask_server(self, path: str) -> object:
        """The JSON at a path under the server's root; None where there is none in time."""
        base_url = self._base_url.rstrip("/")
        url = f"{base_url}/models" if path == MODELS_PATH else base_url.removesuffix("/v1") + path
        try:
            return self._client.with_options(timeout=PROBE_SECONDS).get(url, cast_to=object)
        except _PROBE_ERRORS:
            return None

    @property
    def identity(self) -> Mapping[str, object]:
        """The server that answers."""
        return {"base_url": self._base_url}

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        """Make one call."""
        body = self._body(call, features) | {"timeout": timeout_seconds}
        try:
            return self._mask(self._respond(call, body, stream="stream" in features))
        except openai.APIStatusError as error:
            return self._refused(error)
        except openai.APITimeoutError:
            raise ServiceError(None, f"no response within {timeout_seconds:g} s") from None
        except _StatedError as error:
            raise self._stated_failure(error.args[0]) from None
        except _TRANSPORT_ERRORS as error:
            stated = getattr(error, "body", None)  # of an error inside a stream
            raise (self._stated_failure(stated) if isinstance(stated, dict) else self._no_response(error)) from None

    def _body(self, call: CompletionRequest, features: frozenset[str]) -> dict[str, Any]:
        parts = call.parts if "schema" in features else call.with_schema_as_text()
        content = [self._content(part, call.detail, features) for part in parts]
        body: dict[str, Any] = {"model": self._model, "messages": call.messages(content)}
        if "schema" in features:
            schema = self._schema(call.schema, strict="strict" in features)
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if "temperature" in features and call.temperature is not None:
            body["temperature"] = call.temperature
        if call.max_output_tokens is not None:  # the second name is newer, and not every server knows it
            body["max_tokens" if "max_tokens" in features else "max_completion_tokens"] = call.max_output_tokens
        if call.thinking is not Thinking.DEFAULT:
            body["reasoning_effort"] = call.thinking.value
        if call.service_tier is not ServiceTier.STANDARD:
            body["service_tier"] = "flex"
        if "seed" in features and call.seed is not None:
            body["seed"] = call.seed
        return body | {"extra_body": self._cache_fields(call, features, content)}

    def _cache_fields(
        self, call: CompletionRequest, features: frozenset[str], content: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """The fields about caching; marks the content where shared beginnings end.

        Models from GPT-5.6 on charge for what they write into their cache, so only what is read again is marked.
        """
        fields: dict[str, Any] = {}
        if "cache_key" in features and call.cache_key is not None:
            fields["prompt_cache_key"] = call.cache_key
        if "cache_marks" in features and self.prefix_cache.marked:
            fields["prompt_cache_options"] = {"mode": "explicit"}
            for end in call.shared_ends:
                content[end - 1]["prompt_cache_breakpoint"] = {"mode": "explicit"}
        return fields

    def _respond(self, call: CompletionRequest, body: dict[str, Any], *, stream: bool) -> Completion:
        create = self._client.chat.completions.create
        if call.on_begin is None or not stream:
            return _read(create(**body))
        return _read_stream(create(**body, stream=True, stream_options={"include_usage": True}), call.on_begin)

    def _content(self, part: Part, detail: Detail, features: frozenset[str]) -> dict[str, Any]:
        if not isinstance(part, ImagePart):
            return {"type": "text", "text": part.text}
        image = {"url": f"data:image/jpeg;base64,{part.base64}"}
        if "detail" in features:
            by_height = Detail.LOW if part.height_px <= LOW_DETAIL_MAX_HEIGHT_PX else Detail.HIGH
            image["detail"] = (by_height if detail is Detail.AUTO else detail).value
        content: dict[str, Any] = {"type": "image_url", "image_url": image}
        if "uuid" in features and (self._profile or _UNKNOWN_SERVER).takes_uuid:
            content["uuid"] = hashlib.sha256(part.jpeg).hexdigest()
        return content

    def _schema(self, schema: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
        """The schema of the reply: closed, and strict where the service can be; else as it is."""
        closed = strict_schema(schema, keep=ENFORCED_KEYWORDS)
        if closed is None:
            return {"name": "reply", "schema": dict(schema)}
        return {"name": "reply", "schema": closed} | ({"strict": True} if strict else {})

    def _stated_failure(self, error: object) -> ServiceError:
        """The failure that a body states, whatever the status of the response."""
        stated = error if isinstance(error, dict) else {"message": error}
        code = stated.get("code")
        known = next((_STATUSES[str(name)] for name in (code, stated.get("type")) if str(name) in _STATUSES), 500)
        metadata = stated.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None  # what the provider behind OpenRouter said
        return ServiceError(
            code if type(code) is int and 400 <= code < 600 else known,
            self._key.redact(" ".join(str(said) for said in (stated.get("message"), raw) if said)),
            permanent=code in _NO_CREDIT_CODES,
        )

    def _refused(self, error: openai.APIStatusError) -> Completion:
        """A response with an error status: a block of the prompt is the answer, anything else a failure."""
        if error.code in _BLOCKED_CODES:
            return Completion("", finish=FinishReason.BLOCKED, note=str(error.code))
        raise ServiceError(
            error.status_code,
            self._key.redact(_message(error)),
            retry_after_seconds=retry_after_seconds(error.response.headers),
            permanent=error.code in _NO_CREDIT_CODES,
        ) from None


class _StatedError(Exception):
    """A response with status 200 that states an error, as OpenRouter sends them."""


def _message(error: openai.APIStatusError) -> object:
    """What the server said; the SDK already unwraps `error`, other servers have `message` or `detail` at the top."""
    if isinstance(error.body, dict):
        return error.body.get("message") or error.body.get("detail") or error.body
    return error.body or error.message


def _read(response: ChatCompletion) -> Completion:
    """The completion in a response. Compatible servers leave out what they like, so nothing is taken for granted."""
    choices: Sequence[Any] | None = getattr(response, "choices", None)
    stated = getattr(response, "error", None) or getattr(choices[0] if choices else None, "error", None)
    if stated:
        raise _StatedError(stated)
    if not choices or choices[0].message is None:
        raise ServiceError(None, "a response without an answer in it")
    message = choices[0].message
    text = message.content if isinstance(message.content, str) else ""
    return _completion(text, getattr(message, "refusal", None), choices[0].finish_reason, response)


def _read_stream(stream: Iterable[ChatCompletionChunk], on_begin: Callable[[], object]) -> Completion:
    """The completion in a response that comes in chunks; the last one has the counts."""
    text, refusal, finish, last = "", "", None, None
    for chunk in stream:
        on_begin()
        last = chunk
        for choice in chunk.choices[:1]:
            text += choice.delta.content or ""
            refusal += choice.delta.refusal or ""
            finish = choice.finish_reason or finish
    if last is None or finish is None:
        raise ServiceError(None, "a response without an answer in it")
    return _completion(text, refusal, finish, last)


def _completion(
    text: str, refusal: str | None, finish: str, response: ChatCompletion | ChatCompletionChunk
) -> Completion:
    usage = response.usage
    details = getattr(usage, "prompt_tokens_details", None)
    tokens = Usage(
        input_tokens=token_count(getattr(usage, "prompt_tokens", None)),
        cached_tokens=token_count(getattr(details, "cached_tokens", None)),
        output_tokens=token_count(getattr(usage, "completion_tokens", None)),
        cache_write_tokens=token_count(getattr(details, "cache_write_tokens", None)) or None,
    )
    tier = ServiceTier.FLEX if getattr(response, "service_tier", None) == "flex" else ServiceTier.STANDARD
    if refusal:
        return Completion(refusal, tokens, FinishReason.REFUSED, service_tier=tier)
    return Completion(text, tokens, _FINISHES.get(finish, FinishReason.STOP), service_tier=tier)
