"""What was looked at: frames with their true timestamps, and clips of them.

Knows nothing about decoders: a `Frame` holds a `Picture`, and the decoder says how it becomes JPEG or pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.core.interval import Interval


class Picture(Protocol):
    """The pixels of one frame, in whatever form the decoder left them."""

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
    """A picture that can say what tells its pixels from any others, without making them."""

    def digest(self) -> bytes:
        """The same for the same pixels in the same shape, and different for any others."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the source video. It never travels without its true timestamp."""

    pts: int
    """Presentation timestamp in the stream's own ticks: the frame's identity within its video."""
    seconds: float
    """The decoder's timestamp, the first frame of the stream at 0; never the one that was asked for."""
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
    """Frames for each second of the span."""
    height: int = 360
    """Rows of pixels; a video with fewer keeps its own."""

    def __post_init__(self) -> None:
        if not (self.fps > 0 and self.height > 0):
            raise ValueError(f"a strategy needs fps > 0 and height > 0, got fps={self.fps}, height={self.height}")


@dataclass(frozen=True, slots=True)
class Clip:
    """A span of the video, how it was looked at, and the frames that were seen."""

    span: Interval
    strategy: ObservationStrategy
    frames: tuple[Frame, ...]
    title: str = ""
    """What a request calls it; empty for a number."""


class VideoSource(Protocol):
    """What an observer needs of a video; `trace_ves.video.open` gives one."""

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, one for each, in the order asked."""
