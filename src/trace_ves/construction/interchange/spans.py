"""What another tool's file says: labelled spans of a video, in seconds or in frames, and how frames become seconds.

Pure. A frame is on screen from its own timestamp to that of the next one, whatever the nominal frame rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import InputError, Interval

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MOST_BYTES: Final = 64 * 1024**2
MOST_SPANS: Final = 100_000
MOST_FRAMES: Final = 10**8
EDGE_SECONDS: Final = 0.001
"""Edges are kept in milliseconds, timestamps are not: an edge this close to a timestamp is meant to be it."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """A span that a file gives in seconds."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Frames:
    """A span that a file gives by its first and last frame, counted from 0; both belong to it."""

    first: int
    last: int | None
    """None where it goes on to the end of the video."""


@dataclass(frozen=True, slots=True)
class LabelledSpan:
    """One annotation of another tool."""

    media: str
    """What the file calls the video: a name, a path or an address; only its last part is ever used."""
    label: str
    span: Seconds | Frames
    note: str = ""


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When the frames of a video are on screen."""

    timestamps: NDArray[np.float64]
    duration: float

    @property
    def frame_rate(self) -> float:
        """Frames in a second, on average."""
        length = float(self.timestamps[-1] - self.timestamps[0])
        return (len(self.timestamps) - 1) / length if length > 0 else 1.0

    def interval(self, span: Seconds | Frames, fps: float | None = None) -> Interval:
        """A span in seconds of the video; with `fps`, frames are counted at that rate and not as the video has them.

        A span that leaves the video is a `ValueError`.
        """
        if isinstance(span, Seconds):
            start, end = span.start, span.end
        elif fps is not None:
            start, end = span.first / fps, self.duration if span.last is None else (span.last + 1) / fps
        else:
            count = len(self.timestamps)
            last = count - 1 if span.last is None else span.last
            if not 0 <= span.first <= last < count:
                raise ValueError(f"frames {span.first}-{last} are not in a video of {count} frames")
            start = float(self.timestamps[span.first])
            end = float(self.timestamps[last + 1]) if last + 1 < count else self.duration
        if not (math.isfinite(start) and math.isfinite(end) and -EDGE_SECONDS <= start < end):
            raise ValueError(f"{start:g}-{end:g} s is no interval")
        if end > self.duration + max(EDGE_SECONDS, 1.0 / (fps or self.frame_rate)):
            raise ValueError(f"{start:g}-{end:g} s is not in a video of {self.duration:g} s")
        return Interval(max(0.0, round(start, 3)), min(round(end, 3), self.duration))

    def frames(self, interval: Interval) -> Frames:
        """The frames that are on screen during an interval, at least one."""
        first = int(np.searchsorted(self.timestamps, interval.start + EDGE_SECONDS, side="right")) - 1
        last = int(np.searchsorted(self.timestamps, interval.end - EDGE_SECONDS, side="left")) - 1
        first = max(first, 0)
        return Frames(first, max(first, last))


@dataclass(frozen=True, slots=True)
class ExportedItem:
    """An item as it is written for another tool."""

    id: str
    question: str
    intervals: tuple[tuple[Interval, str], ...]
    """Each interval with what it should show."""


@dataclass(frozen=True, slots=True)
class ExportedVideo:
    """A video and its items as they are written for another tool."""

    name: str
    """Path below the build's folder."""
    times: FrameTimes
    width: int
    height: int
    items: tuple[ExportedItem, ...]


def read_bytes(path: Path) -> bytes:
    """The content of a file that may come from strangers."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: larger than {MOST_BYTES // 1024**2} MiB; this is no file of intervals.")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from None


def frame_number(text: object) -> int:
    """A frame's number as a file gives it; anything else is a `ValueError`."""
    if isinstance(text, bool) or not isinstance(text, int | str):
        raise ValueError(f"{str(text)[:40]!r} is not a frame number")
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{str(text)[:40]!r} is not a frame number") from None
    if not 0 <= number < MOST_FRAMES:
        raise ValueError(f"{number} is not a frame number")
    return number
