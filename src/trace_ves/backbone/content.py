"""What a request looks like to a model: frames first, then the words, as parts that no provider has shaped yet.

Knows nothing of providers. A bundle that is a prefix of another gives parts that are a literal prefix of the other's,
so that prefix caches hit; hence no part says how many clips there are, and no part names a file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
