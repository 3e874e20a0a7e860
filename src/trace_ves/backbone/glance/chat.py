"""A chat completion request as glance takes it: words, JPEGs with their times, and the schema of the reply.

Hostile input: every size is bounded, and a picture is taken from the request itself, never from an address in it.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import simplejpeg  # type: ignore[import-untyped]  # the package ships no types
from pydantic import BaseModel, Field, ValidationError

from trace_ves.core import Clip, Frame, InputError, Interval, ObservationStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

MAX_IMAGES: Final = 2048
MAX_IMAGE_SIDE_PX: Final = 8192
MAX_IMAGE_PIXELS: Final = 4096 * 4096
MAX_TEXT_LETTERS: Final = 1 << 18
MAX_SECONDS: Final = 1e7

_JPEG_URL: Final = "data:image/jpeg;base64,"
_CLIP: Final = re.compile(r"Clip \d{1,6}, (\d{1,7}\.\d+)-(\d{1,7}\.\d+) s")
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
class Call:
    """What a request asks of the model."""

    model: str
    text: str
    clips: tuple[Clip, ...]
    reply_properties: Mapping[str, Any]
    """The properties in the schema of the wanted reply; empty where none is given."""
    seed: int


def read_call(body: bytes) -> Call:
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
    text, clips = (content, ()) if isinstance(content, str) else _laid_out(content)
    if len(text) > MAX_TEXT_LETTERS:
        raise InputError(f"{len(text)} letters are too many for one call; it takes {MAX_TEXT_LETTERS}.")
    schema = request.response_format.json_schema if request.response_format else None
    wanted = schema.json_schema.get("properties") if schema else None
    return Call(request.model, text, clips, wanted if isinstance(wanted, dict) else {}, request.seed or 0)


def _laid_out(parts: list[TextContent | ImageContent]) -> tuple[str, tuple[Clip, ...]]:
    """The words of the prompt, and the clips. A picture belongs to the clip and the time that stand before it."""
    words: list[str] = []
    clips: list[tuple[Interval, list[Frame]]] = []
    seconds: float | None = None
    images = 0
    for part in parts:
        if isinstance(part, ImageContent):
            if not clips:
                clips.append((Interval(0, MAX_IMAGES), []))
            clips[-1][1].append(_frame(part.image_url.url, float(images) if seconds is None else seconds))
            seconds, images = None, images + 1
        elif clip := _CLIP.fullmatch(part.text):
            clips.append((_interval(float(clip[1]), float(clip[2])), []))
        elif time := _TIME.fullmatch(part.text):
            seconds = float(time[1])
        else:
            words.append(part.text)
    if images > MAX_IMAGES:
        raise InputError(f"{images} pictures are too many for one call; it takes {MAX_IMAGES}.")
    strategy = ObservationStrategy()
    return "\n".join(words), tuple(Clip(span, strategy, tuple(frames)) for span, frames in clips)


def _interval(start: float, end: float) -> Interval:
    if end < start:
        raise InputError(f"a clip from {start} to {end} s ends before it begins.")
    return Interval(start, end)


def _frame(url: str, seconds: float) -> Frame:
    if not url.startswith(_JPEG_URL):
        raise InputError(f"image_url: a picture must stand in the request itself, as {_JPEG_URL}…")
    try:
        data = base64.b64decode(url[len(_JPEG_URL) :], validate=True)
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"image_url: this is no JPEG file in base64: {error}.") from None
    if max(width, height) > MAX_IMAGE_SIDE_PX or width * height > MAX_IMAGE_PIXELS:
        raise InputError(f"image_url: {width} x {height} pixels are too many.")
    return Frame(round(seconds * 1000), seconds, JpegPicture(data, width, height))
