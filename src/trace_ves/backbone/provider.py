"""The seam between the batch machinery and one provider's API: a `CompletionRequest` goes in, a `Completion` comes out.

Knows nothing of batches, retries or validation. An adapter turns every error of its SDK into a `ServiceError`, whose
message is fit for a person and holds no key.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from trace_ves.backbone.model_settings import Detail, ServiceTier, Thinking
from trace_ves.records import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trace_ves.backbone.model_settings import RequestLimits
    from trace_ves.backbone.prompt_caches import PrefixCache
    from trace_ves.backbone.protocol import Request
    from trace_ves.core import Clip, Frame

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextPart:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One frame, as the JPEG file that is sent."""

    jpeg: bytes = field(repr=False)
    height_px: int
    """Rows of pixels; providers that can look closely or coarsely are told which from this."""
    ends_clip: bool = False
    """Whether it is the last frame of its clip: a place where the next bundle may go on."""
    width_px: int = 0


Part: TypeAlias = TextPart | ImagePart


def request_parts(request: Request[Any]) -> tuple[Part, ...]:
    """The parts of a request, in the order in which the model reads them."""
    return lay_out(request, _jpeg)


def lay_out(request: Request[Any], show: Callable[[Frame, bool], T]) -> tuple[TextPart | T, ...]:
    """The parts of a request, each frame as `show` gives it, which is told whether the frame is its clip's last."""
    frames = (part for number, clip in enumerate(request.clips, start=1) for part in _clip_parts(number, clip, show))
    return (*frames, TextPart(request.text))


def _clip_parts(number: int, clip: Clip, show: Callable[[Frame, bool], T]) -> Iterator[TextPart | T]:
    yield TextPart(f"Clip {number}, {clip.span}")
    for position, frame in enumerate(clip.frames, start=1):
        yield TextPart(f"t={frame.seconds:.2f} s")
        yield show(frame, position == len(clip.frames))


def sampling_seed(request: Request[Any]) -> int:
    """A seed for drawing one answer, from all that makes the request: stage, words, frames, and number of the draw.

    Different questions get unrelated seeds, so that their draws are independent; the same request draws the same again.
    It fits into 31 bits, which every provider takes.
    """
    digest = hashlib.sha256(f"{request.stage}\0{request.sample}\0{request.text}".encode())
    for clip in request.clips:
        for frame in clip.frames:
            digest.update(f"\0{frame.seconds!r}\0".encode() + frame.jpeg())
    return int.from_bytes(digest.digest()[:4]) >> 1


def payload_bytes(parts: tuple[Part, ...]) -> int:
    """About how many bytes the parts take in the body of a request: frames in base64, words in UTF-8."""
    return sum(
        -(-len(part.jpeg) // 3) * 4 if isinstance(part, ImagePart) else len(part.text.encode()) for part in parts
    )


def _jpeg(frame: Frame, ends_clip: bool) -> ImagePart:
    return ImagePart(frame.jpeg(), frame.picture.height, ends_clip=ends_clip, width_px=frame.picture.width)


STREAM_REFUSED: Final = re.compile(r"\bstream", re.IGNORECASE)
"""What a service says that streams to nobody, or not to this account; others then wait for the whole response."""
_MOST_TOKENS: Final = 10**12


class FinishReason(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    LENGTH = "length"
    """It ran into the limit on its output."""
    REFUSED = "refused"
    """The model declined."""
    BLOCKED = "blocked"
    """A filter of the provider took the prompt or the answer away."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What a provider gave back for one call."""

    text: str
    usage: Usage = Usage()
    finish: FinishReason = FinishReason.STOP
    note: str = ""
    """The provider's own word for a refusal or a block."""
    service_tier: ServiceTier = ServiceTier.STANDARD
    """The tier that answered, which is charged for."""


def token_count(stated: object) -> int:
    """A count of tokens as a service states it; 0 for what is no count, since a server may send anything."""
    return stated if type(stated) is int and 0 <= stated <= _MOST_TOKENS else 0


@dataclass(frozen=True, slots=True)
class RepairTurn:
    """A reply that did not validate, and what was wrong with it: shown to the model when it is asked again."""

    reply: str
    complaint: str

    @property
    def instruction(self) -> str:
        """What the model is told after its reply."""
        return f"That reply cannot be used: {self.complaint}. Answer again, in full."


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One call of a model."""

    parts: tuple[Part, ...]
    schema: Mapping[str, Any]
    """JSON schema of the reply."""
    repairs: tuple[RepairTurn, ...] = ()
    temperature: float | None = None
    """None leaves it to the provider: the field is not sent."""
    thinking: Thinking = Thinking.DEFAULT
    detail: Detail = Detail.AUTO
    service_tier: ServiceTier = ServiceTier.STANDARD
    seed: int | None = None
    """Distinguishes sampled draws, where the provider supports it."""
    shared_ends: tuple[int, ...] = ()
    """After how many parts a beginning ends that is worth keeping in the provider's cache, the shortest first."""
    cache_key: str | None = None
    """The same for requests that may begin alike, where the provider wants to be told."""
    on_begin: Callable[[], object] | None = field(default=None, compare=False)
    """Called when the response begins: the provider streams the response then. None: nobody waits for that."""

    def with_schema_as_text(self) -> tuple[Part, ...]:
        """The parts, the schema spelled out at their end: for a provider that cannot be held to a schema."""
        words = (
            "Answer with one JSON object that matches this JSON schema, and with nothing else:\n"
            f"{json.dumps(self.schema, ensure_ascii=False)}"
        )
        return (*self.parts, TextPart(words))


class ServiceError(Exception):
    """A call did not come back with a completion."""

    def __init__(
        self,
        status: int | None,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        permanent: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(status, message)
        self.status = status
        """The HTTP status; None where there was no response: no connection, a time-out, half a body."""
        self.message = message
        """What the service said: one line, cut, without keys."""
        self.retry_after_seconds = retry_after_seconds
        """How long the service asks to wait."""
        self.permanent = permanent
        """The same call would fail in the same way, whatever the status says."""
        self.unreachable = unreachable
        """No connection could be made at all: nobody listens there, or the name is unknown."""

    @property
    def summary(self) -> str:
        """What befell the call in a few words."""
        status = "no response" if self.status is None else f"HTTP {self.status}"
        limited = ", rate limit" if self.status == HTTPStatus.TOO_MANY_REQUESTS else ""
        return f"{status}{limited}"


def is_unreachable(error: BaseException) -> bool:
    """Whether an SDK's error says that no connection could be made; all SDKs here speak through httpx."""
    chain: BaseException | None = error
    while chain is not None:
        if type(chain).__name__ == "ConnectError":
            return True
        chain = chain.__cause__ or chain.__context__
    return False


def transport_errors(*of_sdk: type[Exception]) -> tuple[type[Exception], ...]:
    """An SDK's own errors, and those that it may let through within a response.

    These are the errors of whichever HTTP client it has, and Python's own where a body is nested thousands deep.
    """
    found = [*of_sdk, RecursionError]
    for module, name in (("httpx", "HTTPError"), ("httpx2", "HTTPError"), ("requests", "RequestException")):
        try:
            found.append(getattr(importlib.import_module(module), name))
        except ImportError:
            continue
    return tuple(found)


class Provider(Protocol):
    """One provider's API."""

    @property
    def name(self) -> str:
        """The spec that names the backbone."""

    @property
    def key_hint(self) -> str:
        """What to check when the service refuses the credentials, for example `OPENAI_API_KEY`."""

    @property
    def optional(self) -> Mapping[str, re.Pattern[str]]:
        """Features a service may refuse with a 400, each with what the refusal says; dropped then, in this order."""

    @property
    def default_temperature(self) -> float | None:
        """The temperature where a person sets none; None where the provider advises against setting it."""

    @property
    def limits(self) -> RequestLimits:
        """What one request may hold."""

    @property
    def prefix_cache(self) -> PrefixCache:
        """What the service keeps of requests that it has read. Asked for before the first request, which may ask it."""

    @property
    def identity(self) -> Mapping[str, object]:
        """What else than the name decides which model answers, and how: for example the base URL."""

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        """Make one call, using these of the optional features. Raises `ServiceError`, and nothing else on purpose."""


def truncate(text: str, longest: int) -> str:
    """The text, shortened to this many characters where it has more."""
    return text if len(text) <= longest else text[:longest] + "…"
