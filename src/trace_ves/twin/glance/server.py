"""glance as an OpenAI-compatible server on loopback, to try clients and to test prompts.

It gets only rendered prompts and JPEGs, so leaving something out of a prompt changes the answer.
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
from typing import TYPE_CHECKING, Any, Final, Literal

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

MODEL: Final = "glance"
MAX_IMAGE_PIXELS: Final = 4096 * 4096

_JPEG_URL: Final = "data:image/jpeg;base64,"
_CLIP: Final = re.compile(r"(?:Clip \d{1,6}|Storyboard|Scan), (\d{1,7}\.\d+)-(\d{1,7}\.\d+) s")
_TIME: Final = re.compile(r"t=(\d{1,7}(?:\.\d+)?) s")


class Content(BaseModel):
    """Text, or a picture whose URL holds its data."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: dict[str, Any] = {}


class Message(BaseModel):
    """One turn."""

    role: str
    content: str | list[Content]


class ChatRequest(BaseModel):
    """The fields of a request that glance uses."""

    model: str
    messages: list[Message] = Field(min_length=1)
    response_format: dict[str, Any] | None = None
    seed: int | None = None
    stream: bool | None = False


@dataclass(frozen=True, slots=True)
class JpegPicture:
    """A picture from a JPEG file; satisfies `core.Picture`."""

    data: bytes = field(repr=False)
    width: int
    height: int

    def jpeg(self, quality: int = 90) -> bytes:  # noqa: ARG002  it is a JPEG file already
        """The original file."""
        return self.data

    def rgb(self) -> NDArray[np.uint8]:
        """The pixels; chroma is repeated, as in decoded video."""
        try:
            pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(self.data, "RGB", fastupsample=True)
        except ValueError as error:
            raise InputError(f"a picture cannot be decoded as JPEG: {error}.") from None
        return pixels


def complete(body: bytes, glance: Glance) -> dict[str, object]:
    """The completion in OpenAI's format, with words counted as tokens; an unusable body is an `InputError`."""
    try:
        request = ChatRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise InputError(f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}") from None
    if request.model != MODEL:
        raise InputError(f"unknown model {request.model!r}; use {MODEL}.")
    if request.stream:
        raise InputError("stream: glance does not stream; leave it out.")
    content = next((message.content for message in request.messages if message.role == "user"), None)
    if content is None:
        raise InputError("messages: there is no user message; add one.")
    text, clips = (content, ()) if isinstance(content, str) else _parse_content(content)
    properties: Any = request.response_format  # in the schema of the reply; none without a schema
    for key in ("json_schema", "schema", "properties"):
        properties = properties.get(key) if isinstance(properties, dict) else None
    stage, variables = read_prompt(text, properties if isinstance(properties, dict) else {})
    said = _answer(glance, stage, variables, clips, request.seed or 0)
    asked, answered = len(text.split()), len(said.split())
    return {
        "id": "chatcmpl-glance",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
    }


def _answer(glance: Glance, stage: str, variables: Mapping[str, Any], clips: tuple[Clip, ...], seed: int) -> str:
    """The JSON of the stage's rule, or a sentence if the prompt makes no sense."""
    try:
        said = glance.reply_to(stage, variables, clips, sample=seed)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  a prompt may say anything; the client gets a reply that is not JSON
        return f"glance cannot make sense of this prompt, read as {stage}: {type(error).__name__}: {error}"
    said.pop(UNDETERMINED, None)  # models never send it
    return json.dumps(said, ensure_ascii=False)


def _parse_content(parts: list[Content]) -> tuple[str, tuple[Clip, ...]]:
    """The text of the prompt, and the clips. A picture belongs to the clip and time named before it."""
    words: list[str] = []
    clips: list[tuple[Interval, list[Frame]]] = []
    seconds: float | None = None
    images = 0
    for part in parts:
        if part.type == "image_url":
            if not clips:
                clips.append((Interval(0, len(parts)), []))
            url = str(part.image_url.get("url"))
            clips[-1][1].append(_parse_frame(url, float(images) if seconds is None else seconds))
            seconds, images = None, images + 1
        elif clip := _CLIP.fullmatch(part.text):
            start, end = float(clip[1]), float(clip[2])
            if end < start:
                raise InputError(f"a clip from {start} to {end} s ends before it starts.")
            clips.append((Interval(start, end), []))
        elif time := _TIME.fullmatch(part.text):
            seconds = float(time[1])
        else:
            words.append(part.text)
    strategy = ObservationStrategy()
    return "\n".join(words), tuple(Clip(span, strategy, tuple(frames)) for span, frames in clips)


def _parse_frame(url: str, seconds: float) -> Frame:
    if not url.startswith(_JPEG_URL):
        raise InputError(f"image_url: a picture must be part of the request, as {_JPEG_URL}…")
    try:
        data = base64.b64decode(url[len(_JPEG_URL) :], validate=True)
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"image_url: not a JPEG file in base64: {error}.") from None
    if width * height > MAX_IMAGE_PIXELS:
        raise InputError(f"image_url: {width} x {height} pixels are too many; send a smaller picture.")
    return Frame(round(seconds * 1000), seconds, JpegPicture(data, width, height))


HOST: Final = "127.0.0.1"
HOST_NAMES: Final = frozenset({"127.0.0.1", "localhost"})
"""Host names that a request may use; with any other, a web page could reach this server through its own domain."""
MAX_BODY_BYTES: Final = 96 << 20  # 256 frames of 720 rows, in base64
IDLE_SECONDS: Final = 60.0  # An idle connection is closed after this time


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
        """The address for clients."""
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
            models = [{"id": MODEL, "object": "model", "owned_by": "you"}]
            self._send(HTTPStatus.OK, {"object": "list", "data": models})

    def do_POST(self) -> None:
        """A chat completion."""
        if not self._accepts("/v1/chat/completions"):
            return
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json.")
        elif not re.fullmatch(r"\d{1,12}", length):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length.")
        elif int(length) > MAX_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {MAX_BODY_BYTES} bytes.")
        else:
            try:
                self._send(HTTPStatus.OK, complete(self.rfile.read(int(length)), self.server.glance))
            except InputError as error:
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))

    def _accepts(self, path: str) -> bool:
        """Whether a request names this server and this path; if not, refuse it."""
        name = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host") or ""
        if name not in HOST_NAMES:
            self._refuse(HTTPStatus.FORBIDDEN, f"this server is {HOST}, not {name[:80]!r}.")
        elif self.path != path:
            self._refuse(HTTPStatus.NOT_FOUND, "use /v1/models or /v1/chat/completions.")
        else:
            return True
        return False

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Send an error in OpenAI's format. Closing the connection discards the rest of the request."""
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
