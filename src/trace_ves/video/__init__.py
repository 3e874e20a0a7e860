"""Exact frames of a video file at any moment. The extra `video` is loaded when a video is opened."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from cachetools import LRUCache

from trace_ves.core import Frame, MissingExtraError, VideoSource

if TYPE_CHECKING:
    from trace_ves.video.video import Video


Key = tuple[float, int | None]  # the time of a frame, or the requested moment if times are unknown; and a height

__all__ = ["CachedVideo", "Video", "open"]


def __getattr__(name: str) -> object:
    """Load the class `Video` on first use, because it needs the decoder."""
    if name == "Video":
        from trace_ves.video.video import Video

        return Video
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open(path: str | PathLike[str], *, deadline_seconds: float = 120.0) -> Video:  # noqa: A001  video.open reads well
    """Open a video file; opening it and each request fail after `deadline_seconds`."""
    try:
        from trace_ves.video.video import Video  # loads the decoder
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] in {"av", "simplejpeg"}:
            raise MissingExtraError("Decoding video", "video") from error
        raise
    return Video(path, deadline_seconds=deadline_seconds)


class CachedVideo:
    """A video with a cache of its most recently used frames, up to `max_bytes`."""

    def __init__(self, video: VideoSource, *, max_bytes: int = 256 << 20) -> None:
        self._video = video
        self._timestamps: Sequence[float] = getattr(video, "timestamps", ())
        self._frames: LRUCache[Key, Frame] = LRUCache(max_bytes, getsizeof=_size)
        self._lock = threading.Lock()
        self._decoding = threading.Lock()

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return self._video.duration

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, in the order of the moments."""
        keys = [(self._on_screen(moment), height) for moment in seconds]
        frames = self._load(keys)
        if len(frames) < len(set(keys)):
            with self._decoding:  # another thread may have decoded some of them meanwhile
                frames |= self._load([key for key in keys if key not in frames])
                missing = list(dict.fromkeys(key for key in keys if key not in frames))
                decoded = self._video.frames_at([moment for moment, _ in missing], height=height) if missing else ()
                fresh = dict(zip(missing, decoded, strict=True))
                with self._lock:
                    self._frames.update(
                        {key: frame for key, frame in fresh.items() if _size(frame) <= self._frames.maxsize}
                    )
            frames |= fresh
        return tuple(frames[key] for key in keys)

    def _on_screen(self, moment: float) -> float:
        """The time of the frame on screen at a moment; the moment itself if the times are unknown."""
        if len(self._timestamps) and 0 <= moment <= self.duration:
            return float(self._timestamps[max(0, bisect_right(self._timestamps, moment) - 1)])
        return moment

    def _load(self, keys: Sequence[Key]) -> dict[Key, Frame]:
        with self._lock:
            return {key: self._frames[key] for key in keys if key in self._frames}


def _size(frame: Frame) -> int:
    """The most bytes that a frame may use: planes of 12 bits per pixel, and a JPEG made from them."""
    return 2 * frame.picture.width * frame.picture.height
