"""Videos that are open, shared by all threads of a process: one that is asked for again need not be surveyed again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves import video
from trace_ves.core.checksum import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trace_ves.core import Frame
    from trace_ves.core.checksum import Checksum
    from trace_ves.video.video import Video

CACHE_BYTES: Final = 64 << 20
"""Decoded frames that are kept of each open video."""


class SharedVideo:
    """A video that is opened when it is first looked at: a method that never looks needs no file."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.borrowers = 0
        self._lock = threading.Lock()
        self._opened: tuple[Video, video.CachedVideo] | None = None

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return self._frames().duration

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, one for each, in the order asked."""
        return self._frames().frames_at(seconds, height=height)

    def checksum(self) -> Checksum | None:
        """What tells this file from any other; None where nobody looked at it."""
        return checksum(self.path) if self._opened else None

    def close(self) -> None:
        """Give back the file."""
        with self._lock:
            if self._opened:
                self._opened[0].close()
                self._opened = None

    def _frames(self) -> video.CachedVideo:
        with self._lock:
            if self._opened is None:
                opened = video.open(self.path)
                self._opened = opened, video.CachedVideo(opened, max_bytes=CACHE_BYTES)
            return self._opened[1]


class VideoShelf:
    """Keeps the most recently used videos open, up to `most`, and never closes one that somebody looks at."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._videos: OrderedDict[str, SharedVideo] = OrderedDict()

    @contextmanager
    def borrow(self, path: str) -> Iterator[SharedVideo]:
        """A video to look at, for the time of the `with` block."""
        with self._lock:
            shared = self._videos.setdefault(path, SharedVideo(Path(path)))
            self._videos.move_to_end(path)
            shared.borrowers += 1
        try:
            yield shared
        finally:
            with self._lock:
                shared.borrowers -= 1
                too_many = len(self._videos) - self._most
                idle = [key for key, each in self._videos.items() if not each.borrowers][: max(0, too_many)]
                closing = [self._videos.pop(key) for key in idle]
            for each in closing:
                each.close()
