"""Glance behind HTTP on loopback, as an OpenAI-compatible server: for trying clients, and for testing prompts.

It gets only rendered prompts and JPEGs, so a prompt that omits something changes the answer.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import simplejpeg  # type: ignore[import-untyped]  # the package ships no types
from pydantic import BaseModel, Field, ValidationError

from trace_ves.core import Clip, Frame, InputError, Interval, ObservationStrategy
from trace_ves.twin.glance.judgement import UNDETERMINED
from trace_ves.twin.glance.prompt_reading import read_prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.twin.glance.glance import Glance

MAX_IMAGES: Final = 2048
MAX_IMAGE_SIDE_PX: Final = 8192
MAX_IMAGE_PIXELS: Final = 4096 * 4096
MAX_TEXT_LETTERS: Final = 1 << 18

_JPEG_URL: Final = "data:image/jpeg;base64,"
_CLIP: Final = re.compile(r"(?:Clip \d{1,6}|Storyboard|Scan), (\d{1,7}\.\d+)-(\d{1,7}\.\d+) s")
_TIME: Final = re.compile(r"t=(\d{1,7}(?:\.\d+)?) s")


class TextContent(BaseModel):
    """Words."""

    type: Literal["text"]
    text: str


class ImageUrl(BaseModel):
    """Where a picture is: inside the request."""

    url: str


class ImageContent(BaseModel):
    """A picture."""

    type: Literal["image_url"]
    image_url: ImageUrl


Content = Annotated[TextContent | ImageContent, Field(discriminator="type")]


class Message(BaseModel):
    """One turn."""

    role: str
    content: str | Annotated[list[Content], Field(max_length=3 * MAX_IMAGES)]


class JsonSchema(BaseModel):
    """The schema of the reply, and its name."""

    json_schema: dict[str, Any] = Field(default={}, alias="schema")


class ResponseFormat(BaseModel):
    """The form of the reply."""

    type: str
    json_schema: JsonSchema | None = None


class ChatRequest(BaseModel):
    """The body of a request, as far as it matters here."""

    model: str = Field(max_length=100)
    messages: list[Message] = Field(min_length=1, max_length=16)
    response_format: ResponseFormat | None = None
    seed: int | None = None
    stream: bool | None = False


@dataclass(frozen=True, slots=True)
class JpegPicture:
    """A picture that came as a JPEG file; satisfies `core.Picture`."""

    data: bytes = field(repr=False)
    width: int
    height: int

    def jpeg(self, quality: int = 90) -> bytes:  # noqa: ARG002  it is a JPEG file already
        """The file as it came."""
        return self.data

    def rgb(self) -> NDArray[np.uint8]:
        """The pixels; chroma is repeated, as it is in decoded video."""
        try:
            pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(self.data, "RGB", fastupsample=True)
        except ValueError as error:
            raise InputError(f"a picture cannot be decoded as JPEG: {error}.") from None
        return pixels


@dataclass(frozen=True, slots=True)
class ChatCall:
    """What a request asks of the model."""

    model: str
    text: str
    clips: tuple[Clip, ...]
    reply_properties: Mapping[str, Any]  # The properties in the schema of the wanted reply; empty where none is given
    seed: int


def read_call(body: bytes) -> ChatCall:
    """The call in a request's body; what cannot be used is an `InputError`."""
    try:
        request = ChatRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise InputError(f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}") from None
    if request.stream:
        raise InputError("stream: glance answers at once; leave it out.")
    asked = next((message for message in request.messages if message.role == "user"), None)
    if asked is None:
        raise InputError("messages: none of them is from the user.")
    content = asked.content
    text, clips = (content, ()) if isinstance(content, str) else _parse_content(content)
    if len(text) > MAX_TEXT_LETTERS:
        raise InputError(f"{len(text)} letters are too many for one call; it takes {MAX_TEXT_LETTERS}.")
    schema = request.response_format.json_schema if request.response_format else None
    wanted = schema.json_schema.get("properties") if schema else None
    return ChatCall(request.model, text, clips, wanted if isinstance(wanted, dict) else {}, request.seed or 0)


def _parse_content(parts: list[TextContent | ImageContent]) -> tuple[str, tuple[Clip, ...]]:
    """The words of the prompt, and the clips. A picture belongs to the clip and the time named before it."""
    words: list[str] = []
    clips: list[tuple[Interval, list[Frame]]] = []
    seconds: float | None = None
    images = 0
    for part in parts:
        if isinstance(part, ImageContent):
            if not clips:
                clips.append((Interval(0, MAX_IMAGES), []))
            clips[-1][1].append(_parse_frame(part.image_url.url, float(images) if seconds is None else seconds))
            seconds, images = None, images + 1
        elif clip := _CLIP.fullmatch(part.text):
            clips.append((_parse_interval(float(clip[1]), float(clip[2])), []))
        elif time := _TIME.fullmatch(part.text):
            seconds = float(time[1])
        else:
            words.append(part.text)
    if images > MAX_IMAGES:
        raise InputError(f"{images} pictures are too many for one call; it takes {MAX_IMAGES}.")
    strategy = ObservationStrategy()
    return "\n".join(words), tuple(Clip(span, strategy, tuple(frames)) for span, frames in clips)


def _parse_interval(start: float, end: float) -> Interval:
    if end < start:
        raise InputError(f"a clip from {start} to {end} s ends before it begins.")
    return Interval(start, end)


def _parse_frame(url: str, seconds: float) -> Frame:
    if not url.startswith(_JPEG_URL):
        raise InputError(f"image_url: a picture must be part of the request, as {_JPEG_URL}…")
    try:
        data = base64.b64decode(url[len(_JPEG_URL) :], validate=True)
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"image_url: this is no JPEG file in base64: {error}.") from None
    if max(width, height) > MAX_IMAGE_SIDE_PX or width * height > MAX_IMAGE_PIXELS:
        raise InputError(f"image_url: {width} x {height} pixels are too many.")
    return Frame(round(seconds * 1000), seconds, JpegPicture(data, width, height))


HOST: Final = "127.0.0.1"
HOST_NAMES: Final = frozenset({"127.0.0.1", "localhost"})
"""What a request may call this server; another name would be a page somewhere that points its own name here."""
MAX_BODY_BYTES: Final = 96 << 20  # 256 frames of 720 rows, in base64
IDLE_SECONDS: Final = 60.0  # A connection on which nothing comes for so long is closed


class GlanceServer(ThreadingHTTPServer):
    """Serves `/v1/chat/completions` and `/v1/models` on a port of this machine; 0 picks a free port."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, glance: Glance) -> None:
        self.glance: Final = glance
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise InputError(f"port {port} cannot be used: {error.strerror or error}; give another --port.") from None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{HOST}:{self.server_address[1]}/v1"

    def handle_error(self, request: object, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: GlanceServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's signature
        """Print nothing per request."""

    def do_GET(self) -> None:
        """The list of models."""
        if self._accepts("/v1/models"):
            models = [{"id": "glance", "object": "model", "owned_by": "you"}]
            self._send(HTTPStatus.OK, {"object": "list", "data": models})

    def do_POST(self) -> None:
        """A chat completion."""
        if not self._accepts("/v1/chat/completions"):
            return
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json.")
            return
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,12}", length):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed.")
        elif int(length) > MAX_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {MAX_BODY_BYTES} bytes.")
        else:
            self._complete(self.rfile.read(int(length)))

    def _complete(self, body: bytes) -> None:
        try:
            call = read_call(body)
            said = answer(call, self.server.glance.with_sharp_frames(_sharp_frames(call.model)))
        except InputError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._send(HTTPStatus.OK, _completion(call, said))

    def _accepts(self, path: str) -> bool:
        """Whether a request names this server and this path; it is refused otherwise."""
        name = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host") or ""
        if name not in HOST_NAMES:
            self._refuse(HTTPStatus.FORBIDDEN, f"this server is called {HOST}, not {name[:80]!r}.")
        elif self.path != path:
            self._refuse(HTTPStatus.NOT_FOUND, "there are /v1/models and /v1/chat/completions.")
        else:
            return True
        return False

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """An error in OpenAI's form. What was not read of the request is never taken for the next one."""
        self.close_connection = True
        self._send(status, {"error": {"message": message, "type": "invalid_request_error", "code": None}})

    def _send(self, status: HTTPStatus, content: object) -> None:
        data = json.dumps(content, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)


def answer(call: ChatCall, glance: Glance) -> str:
    """What the model says: the JSON that its rules give, or a sentence where it cannot make sense of the prompt."""
    read = read_prompt(call.text, call.reply_properties)
    try:
        said = glance.reply_to(read.stage, read.variables, call.clips, sample=call.seed)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  a prompt may say anything; the client sees a reply that is no JSON
        return f"glance cannot make sense of this prompt, read as {read.stage}: {type(error).__name__}: {error}"
    said.pop(UNDETERMINED, None)  # no model says so
    return json.dumps(said, ensure_ascii=False)


def _sharp_frames(model: str) -> int | None:
    """The frames that a call sees at full size, by the name of the model: `glance`, or `glance:64`."""
    found = re.fullmatch(r"glance(?::([1-9]\d{0,5}))?", model)
    if not found:
        raise InputError(f"there is no model {model!r}; there are glance and glance:FRAMES.")
    return int(found[1]) if found[1] else None


def _completion(call: ChatCall, said: str) -> dict[str, object]:
    """The response in OpenAI's form. Words are counted for tokens, as glance has none."""
    asked, answered = len(call.text.split()), len(said.split())
    return {
        "id": "chatcmpl-glance",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": call.model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
    }
