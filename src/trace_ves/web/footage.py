"""Decoded frames and true timestamps for the pages. Callers check that a file may be served."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

from trace_ves.video import CachedVideo
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from trace_ves.core import Frame
    from trace_ves.video.video import Video

OPEN_VIDEOS: Final = 6
CACHE_BYTES: Final = 96 << 20  # decoded frames cached for each open video

CONTENT_TYPES: Final = {
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".avi": "video/x-msvideo",
    ".ts": "video/mp2t",
    ".ogv": "video/ogg",
}
"""Video files that are sent whole, by suffix; of other videos, only single frames are sent."""


class Footage:
    """A cache of the most recently used open videos. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: LRUCache[tuple[Path, int, int], tuple[Video, CachedVideo]] = LRUCache(OPEN_VIDEOS)

    def frames_at(self, path: Path, moments: Sequence[float], height: int | None = None) -> Sequence[Frame]:
        """The frames on screen at these moments, in the order of the moments; a `VideoError` if there is none."""
        return self._open_cached(path)[1].frames_at(moments, height=height)

    def video(self, path: Path) -> Video:
        """The opened file, for its timestamps."""
        return self._open_cached(path)[0]

    def _open_cached(self, path: Path) -> tuple[Video, CachedVideo]:
        status = path.stat()
        key = (path, status.st_size, status.st_mtime_ns)
        with self._lock:
            if key not in self._open:
                opened = open_video(path)
                # an evicted video is not closed here, because another thread may still decode from it
                self._open[key] = opened, CachedVideo(opened, max_bytes=CACHE_BYTES)
            return self._open[key]
