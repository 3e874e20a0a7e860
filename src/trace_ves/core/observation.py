"""Frames with their true timestamps, and clips of frames.

A decoder provides a `Picture` for each `Frame`, which can be converted to JPEG or pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.core.interval import Interval


class Picture(Protocol):
    """The pixels of one frame, in any internal format."""

    @property
    def width(self) -> int:
        """Columns of pixels."""

    @property
    def height(self) -> int:
        """Rows of pixels."""

    def jpeg(self, quality: int) -> bytes:
        """The picture as a JPEG file."""

    def rgb(self) -> NDArray[np.uint8]:
        """The picture as an array of height x width x 3."""


@runtime_checkable
class DigestedPicture(Picture, Protocol):
    """A picture that can identify its pixels without converting them."""

    def digest(self) -> bytes:
        """A digest of the pixels and their shape."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the source video, with its true timestamp."""

    pts: int
    """Presentation timestamp in the stream's own ticks: the frame's identity within its video."""
    seconds: float
    """The decoder's timestamp, never the requested one; the first frame of the stream is at 0."""
    picture: Picture = field(repr=False, compare=False)

    def jpeg(self, quality: int = 90) -> bytes:
        """The picture as a JPEG file."""
        return self.picture.jpeg(quality)

    def rgb(self) -> NDArray[np.uint8]:
        """The picture as an array of height x width x 3."""
        return self.picture.rgb()


@dataclass(frozen=True, slots=True)
class ObservationStrategy:
    """How closely to look at a span."""

    fps: float = 1.0
    """Frames per second."""
    height: int = 360
    """Rows of pixels; smaller videos are not enlarged."""

    def __post_init__(self) -> None:
        if not (self.fps > 0 and self.height > 0):
            raise ValueError(f"a strategy needs fps > 0 and height > 0, got fps={self.fps}, height={self.height}")


@dataclass(frozen=True, slots=True)
class Clip:
    """A span of the video, how it was looked at, and its frames."""

    span: Interval
    strategy: ObservationStrategy
    frames: tuple[Frame, ...]
    title: str = ""
    """Its heading in a request; if empty, clips are numbered."""


class VideoSource(Protocol):
    """What an observer needs from a video; `trace_ves.video.open` returns one."""

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, in the order requested."""
