"""Frames already decoded, kept up to a number of bytes, so that asking again costs nothing. Knows no decoder."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.core import Frame, VideoSource

    Key = tuple[float, int | None]
    """A moment and a height; moments at which one frame is on screen share that frame's own time."""


class CachedVideo:
    """A video that remembers the frames it gave, the most recently used of them up to `max_bytes`."""

    def __init__(self, video: VideoSource, *, max_bytes: int = 256 << 20) -> None:
        if max_bytes < 0:
            raise ValueError(f"a cache needs max_bytes >= 0, got {max_bytes}")
        self._video = video
        self._max_bytes = max_bytes
        self._timestamps: Sequence[float] = getattr(video, "timestamps", ())
        self._frames: OrderedDict[Key, Frame] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._decoding = threading.Lock()

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return self._video.duration

    @property
    def bytes_held(self) -> int:
        """Bytes of the frames that are remembered now."""
        return self._bytes

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, one for each, in the order asked."""
        keys = [(self._on_screen(moment), height) for moment in seconds]
        frames = self._remembered(keys)
        if len(frames) < len(set(keys)):
            with self._decoding:  # another thread may have decoded some of them while this one waited
                frames |= self._remembered([key for key in keys if key not in frames])
                missing = list(dict.fromkeys(key for key in keys if key not in frames))
                decoded = self._video.frames_at([moment for moment, _ in missing], height=height) if missing else ()
                fresh = dict(zip(missing, decoded, strict=True))
                self._remember(fresh)
            frames |= fresh
        return tuple(frames[key] for key in keys)

    def _on_screen(self, moment: float) -> float:
        """The time of the frame on screen at this moment where the video lists them, else the moment itself."""
        if len(self._timestamps) and 0 <= moment <= self.duration:
            return float(self._timestamps[max(0, bisect_right(self._timestamps, moment) - 1)])
        return moment

    def _remembered(self, keys: Sequence[Key]) -> dict[Key, Frame]:
        with self._lock:
            found = {key: self._frames[key] for key in keys if key in self._frames}
            for key in found:
                self._frames.move_to_end(key)
            return found

    def _remember(self, frames: dict[Key, Frame]) -> None:
        with self._lock:
            for key, frame in frames.items():
                self._frames[key] = frame
                self._bytes += _size(frame)
            while self._bytes > self._max_bytes:
                _, dropped = self._frames.popitem(last=False)
                self._bytes -= _size(dropped)


def _size(frame: Frame) -> int:
    """Bytes that a frame may come to hold: planes of 12 bits a pixel, and a JPEG made from them."""
    return 2 * frame.picture.width * frame.picture.height
