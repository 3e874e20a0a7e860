"""The interface to one provider's API: a `CompletionRequest` in, a `Completion` out."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from trace_ves.backbone.model_settings import Detail, RequestLimits, ServiceTier, Thinking
from trace_ves.backbone.prompt_caches import PrefixCache, prompt_cache
from trace_ves.backbone.secret import LONGEST_MASKED, Key
from trace_ves.records import Usage

if TYPE_CHECKING:
    from concurrent.futures import Future

    from trace_ves.backbone.protocol import Request
    from trace_ves.core import Frame

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One frame as a JPEG file."""

    jpeg: bytes = field(repr=False)
    height_px: int  # The default level of detail depends on it
    width_px: int
    ends_clip: bool = False  # Whether it is the last frame of its clip, where a shared prefix may end

    @property
    def base64(self) -> str:
        """The file in base64."""
        return base64.b64encode(self.jpeg).decode()


Part: TypeAlias = TextPart | ImagePart


def request_parts(request: Request[Any]) -> tuple[Part, ...]:
    """The parts of a request, in the order in which the model reads them."""
    return lay_out(
        request,
        lambda frame, ends: ImagePart(frame.jpeg(), frame.picture.height, frame.picture.width, ends_clip=ends),
    )


def lay_out(request: Request[Any], show: Callable[[Frame, bool], T]) -> tuple[TextPart | T, ...]:
    """The parts of a request; `show(frame, ends_clip)` makes the part of a frame."""
    parts: list[TextPart | T] = []
    for number, clip in enumerate(request.clips, start=1):
        parts.append(TextPart(f"{clip.title or f'Clip {number}'}, {clip.span}"))
        for position, frame in enumerate(clip.frames, start=1):
            parts += [TextPart(f"t={frame.seconds:.2f} s"), show(frame, position == len(clip.frames))]
    return (*parts, TextPart(request.text))


def sampling_seed(request: Request[Any]) -> int:
    """A seed of 31 bits for one draw, derived from the request's stage, text, frames and sample number."""
    digest = hashlib.sha256(f"{request.stage}\0{request.sample}\0{request.text}".encode())
    for clip in request.clips:
        for frame in clip.frames:
            digest.update(f"\0{frame.seconds!r}\0".encode() + frame.jpeg())
    return int.from_bytes(digest.digest()[:4]) >> 1


_MOST_TOKENS: Final = 10**12
_LONGEST_SUMMARY: Final = 200
BROKEN_OFF: Final = "the response broke off before its end"
NO_ANSWER: Final = "the response has no answer in it"


class FinishReason(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    LENGTH = "length"  # it reached the limit of its output
    REFUSED = "refused"  # the model declined
    BLOCKED = "blocked"  # a filter of the provider blocked the prompt or the answer


@dataclass(frozen=True, slots=True)
class Completion:
    """The response to one call."""

    text: str
    usage: Usage = Usage()
    finish: FinishReason = FinishReason.STOP
    note: str = ""  # The provider's reason for a refusal or a block
    service_tier: ServiceTier = ServiceTier.STANDARD  # The tier that answered


def parse_count(value: object) -> int:
    """The token count in a response; 0 if the server sent anything else than a plausible number."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0


@dataclass(frozen=True, slots=True)
class RepairTurn:
    """An invalid reply and the validation error; the model gets both when it is asked again."""

    reply: str
    complaint: str

    @property
    def instruction(self) -> str:
        """The message after the reply in the conversation."""
        return (
            f"That reply cannot be used: {self.complaint}. Say again in full what you saw, in the form that was asked "
            "for; the frames are not repeated."
        )


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One request to a provider."""

    parts: tuple[Part, ...]
    schema: Mapping[str, Any]  # JSON schema of the reply
    repairs: tuple[RepairTurn, ...] = ()
    temperature: float | None = None  # None for the provider's default: the field is not sent
    thinking: Thinking = Thinking.DEFAULT
    max_output_tokens: int | None = None
    detail: Detail = Detail.AUTO
    service_tier: ServiceTier = ServiceTier.STANDARD
    seed: int | None = None  # Distinguishes sampled draws, if the provider supports it
    shared_ends: tuple[int, ...] = ()  # The lengths, in parts, of the prefixes worth caching; the shortest first
    stage: str = ""
    cache_key: str | None = None  # The same for requests that share a prefix, for providers that route by it
    on_begin: Callable[[], object] | None = field(default=None, compare=False)  # Called when a streamed response begins

    def with_repairs(self, repairs: tuple[RepairTurn, ...]) -> CompletionRequest:
        """The request to repair a reply: the text without the frames."""
        texts = tuple(part for part in self.parts if isinstance(part, TextPart))
        return replace(self, parts=texts, repairs=repairs, shared_ends=())

    def with_schema_as_text(self) -> tuple[Part, ...]:
        """The parts with the schema as text at their end, for a provider that does not enforce schemas."""
        instruction = (
            "Answer with one JSON object that matches this JSON schema, and with nothing else:\n"
            f"{json.dumps(self.schema, ensure_ascii=False)}"
        )
        return (*self.parts, TextPart(instruction))

    def messages(self, content: object) -> list[dict[str, Any]]:
        """The conversation for OpenAI and Anthropic: the content, then the repairs."""
        turns: list[dict[str, Any]] = [{"role": "user", "content": content}]
        for repair in self.repairs:
            turns.append({"role": "assistant", "content": repair.reply})
            turns.append({"role": "user", "content": repair.instruction})
        return turns


@dataclass(eq=False)
class ServiceError(Exception):
    """A call failed. The message contains no key."""

    status: int | None  # None without a usable response: no connection, a timeout, an incomplete body
    message: str  # The service's message on one line, shortened, without keys
    _: KW_ONLY
    retry_after_seconds: float | None = None  # How long the service asks to wait
    permanent: bool = False  # Whether a retry would fail too, whatever the status
    unreachable: bool = False  # Whether there was no connection at all
    usage: Usage = Usage()  # Tokens that were charged nevertheless
    attempt: Future[Completion] | None = None  # Abandoned and still running: it may be charged later

    @property
    def summary(self) -> str:
        """The failure in a few words, including the service's message."""
        status = "no usable response" if self.status is None else f"HTTP {self.status}"
        limited = ", rate limit" if self.status == HTTPStatus.TOO_MANY_REQUESTS else ""
        return f"{status}{limited}{f': {truncate(self.message, _LONGEST_SUMMARY)}' if self.message else ''}"


def transport_errors(*of_sdk: type[Exception]) -> tuple[type[Exception], ...]:
    """The errors of an SDK, and those of HTTP clients that an SDK may not wrap."""
    errors = [*of_sdk, RecursionError]  # the latter for a body with thousands of levels
    # Imported with the adapter: an import while an error is handled may see half-loaded modules.
    for module, name in (("httpx", "HTTPError"), ("httpx2", "HTTPError"), ("requests", "RequestException")):
        with suppress(ImportError):
            errors.append(getattr(importlib.import_module(module), name))
    return tuple(errors)


class Provider(ABC):
    """One model behind one provider's API."""

    errors: tuple[type[Exception], ...] = ()  # The errors of failed calls: see `transport_errors`
    # Features that a service may refuse with a 400, each with a pattern of the error; dropped in this order.
    optional: Mapping[str, str] = {}
    default_temperature: float | None = 0.0  # None if the provider advises against setting it
    limits = RequestLimits()
    may_drop_frames = False  # Whether the server may silently cut what does not fit its context

    def __init__(
        self, name: str, model: str, key: Key, *, identity: Mapping[str, object], key_hint: str | None = None
    ) -> None:
        self.name = name  # The spec of the backbone
        self.key_hint = key_hint or key.variable  # What to check if the service refuses the key
        self.identity = identity  # What besides the name identifies the model, for example the base URL
        self._model = model
        self._key = key

    @property
    def prefix_cache(self) -> PrefixCache:
        """How the service caches prompts. Read once before the first request; may ask the service."""
        return prompt_cache(self.name)

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        """Make one call with these optional features. Raises `ServiceError`."""
        try:
            completion = self._send(call, features, timeout_seconds)
        except self.errors as error:
            raise self._failure(error) from None
        text = self._key.mask(completion.text[:LONGEST_MASKED])  # a proxy may repeat the request in its reply
        return replace(completion, text=text, note=self._key.mask(completion.note))

    @abstractmethod
    def _send(self, call: CompletionRequest, features: frozenset[str], timeout_seconds: float) -> Completion:
        """Make one call. Raises one of `errors`, or a `ServiceError`."""

    def _failure(self, error: Exception) -> ServiceError:
        """Convert one of `errors`; here, for a call without a usable response."""
        if isinstance(error, json.JSONDecodeError):
            return self._not_json(error.doc)
        message = self._key.redact(error.__cause__ or error) or type(error).__name__
        cause: BaseException | None = error
        while cause is not None and type(cause).__name__ != "ConnectError":  # of httpx, which all SDKs here use
            cause = cause.__cause__ or cause.__context__
        return ServiceError(None, message, unreachable=cause is not None)

    def _not_json(self, body: str) -> ServiceError:
        """The failure for a response that is not JSON; a web page does not come from the service."""
        beginning = self._key.redact(truncate(body, _LONGEST_SUMMARY))
        message = f"the response is not JSON but {beginning!r}" if beginning else "the response is empty"
        return ServiceError(None, message, unreachable=body.lstrip().startswith("<"))


def truncate(text: str, longest: int) -> str:
    """The text, shortened to this many characters."""
    return text if len(text) <= longest else text[:longest] + "…"
