"""glance as an OpenAI-compatible server, to test clients and prompts.

It receives only rendered prompts and JPEGs, so its answers depend on the text of the prompt.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal

import simplejpeg  # type: ignore[import-untyped]  # the package ships no types
from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trace_ves.core import Clip, Frame, InputError, Interval, ObservationStrategy
from trace_ves.twin.glance.judgement import UNDETERMINED
from trace_ves.twin.glance.prompt_reading import read_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from starlette.requests import Request

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
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(self.data, "RGB", fastupsample=True)
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
    reply = _answer(glance, stage, variables, clips, request.seed or 0)
    sent, written = len(text.split()), len(reply.split())
    return {
        "id": "chatcmpl-glance",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written},
    }


def _answer(glance: Glance, stage: str, variables: Mapping[str, Any], clips: tuple[Clip, ...], seed: int) -> str:
    """The reply of the stage's rule as JSON, or a sentence if the prompt or a picture is invalid."""
    try:
        reply = glance.reply_to(stage, variables, clips, sample=seed)
    except Exception as error:  # noqa: BLE001  a prompt may contain anything; the client gets a reply that is not JSON
        return f"glance cannot answer this prompt, read as {stage}: {type(error).__name__}: {error}"
    reply.pop(UNDETERMINED, None)  # models never send it
    return json.dumps(reply, ensure_ascii=False)


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


CHAT_PATH: Final = "/v1/chat/completions"
MAX_BODY_BYTES: Final = 96 << 20  # 256 frames of 720 rows, in base64


def create_app(glance: Glance) -> Starlette:
    """The application: a chat completion, and the list of models."""

    async def list_models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "you"}]})

    async def chat(request: Request) -> Response:
        if request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            return _refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json.")
        try:
            return JSONResponse(await run_in_threadpool(complete, await request.body(), glance))
        except InputError as error:
            return _refuse(HTTPStatus.BAD_REQUEST, str(error))

    return Starlette(routes=[Route("/v1/models", list_models), Route(CHAT_PATH, chat, methods=["POST"])])


def _refuse(status: HTTPStatus, message: str) -> Response:
    """An error in OpenAI's format."""
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status)
