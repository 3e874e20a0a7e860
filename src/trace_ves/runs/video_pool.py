"""A pool of open videos for all threads of a process, so that none is indexed twice."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves import video
from trace_ves.core import Frame, InputError, TraceVesError, VideoSource
from trace_ves.records.disk_cache import Checksum, checksum

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import OpensVideos
    from trace_ves.benches import Bench
    from trace_ves.core.subtitles import Subtitles
    from trace_ves.records import Item
    from trace_ves.video.video import Video

CACHE_BYTES: Final = 512 << 20
"""Memory for decoded frames of all open videos. Several methods use some hundred frames of a video, half a megabyte
each at a height of 360; without the cache most frames would be decoded three times."""


class SharedVideo:
    """A video that is opened on first use, so that a method that never looks needs no file."""

    def __init__(self, path: Path, opener: OpensVideos | None = None, *, cache_bytes: int = 128 << 20) -> None:
        self.path: Final = path
        self._cache_bytes = cache_bytes
        self.borrowers = 0
        self._opener = opener
        self._lock = threading.Lock()
        self._file: Video | None = None
        self._source: VideoSource | None = None
        self._subtitles: tuple[Subtitles | None] | None = None

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return self._frames().duration

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame shown at each of these moments, in the same order."""
        return self._frames().frames_at(seconds, height=height)

    def checksum(self) -> Checksum | None:
        """The checksum of the file; None if it was never opened or is not a file."""
        return checksum(self.path) if self._file else None

    def subtitles(self) -> Subtitles | None:
        """The subtitles in a file next to the video or in a track; None if there are none."""
        duration = self.duration
        with self._lock:
            if self._file is None:
                return None
            if self._subtitles is None:
                from trace_ves.video.subtitles import read_subtitles  # needs the extra video

                self._subtitles = (read_subtitles(self.path, duration),)
            return self._subtitles[0]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file:
                self._file.close()
            self._file = self._source = None

    def _frames(self) -> VideoSource:
        with self._lock:
            if self._source is None and self._opener is not None:
                self._source = self._opener.open_video(self.path)
            elif self._source is None:
                self._file = video.open(self.path)
                self._source = video.CachedVideo(self._file, max_bytes=self._cache_bytes)
            return self._source


class VideoPool:
    """Keeps the most recently used videos open, up to `most`, and never closes one that is in use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._videos: OrderedDict[tuple[str, OpensVideos | None], SharedVideo] = OrderedDict()

    @contextmanager
    def borrow(self, path: str, opener: OpensVideos | None = None) -> Iterator[SharedVideo]:
        """An open video for the `with` block, opened by the decoder or by `opener`."""
        with self._lock:
            opened = SharedVideo(Path(path), opener, cache_bytes=CACHE_BYTES // max(1, self._most))
            shared = self._videos.setdefault((path, opener), opened)
            self._videos.move_to_end((path, opener))
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


MOST_TOO_LONG: Final = 0.05  # Allowed share above the real duration: soundtracks outlast pictures
THREADS: Final = 4


def bench_folder(bench: Bench) -> Path:
    """The folder of a bench's videos; raises an `InputError` for a bench without a file."""
    if bench.path is None:
        raise InputError("a run needs a bench that was read from a file.")
    return bench.path.absolute().parent


def check_durations(bench: Bench, videos: Collection[str], on_progress: Callable[[int, int], None]) -> None:
    """Compare the durations of these videos with the existing files; the first difference is an error.

    Unreadable files are skipped here; their questions fail later.
    """
    folder = bench_folder(bench)
    items = {item.question.video: item for item in reversed(bench.items) if item.question.video in videos}
    with_duration = [item for item in reversed(items.values()) if math.isfinite(item.duration)]
    present = [item for item in with_duration if (folder / item.question.video).is_file()]
    with ThreadPoolExecutor(THREADS) as pool:
        sentences = pool.map(lambda item: _find_difference(item, folder), present)
        differences = []
        for number, sentence in enumerate(sentences, start=1):
            on_progress(number, len(present))
            differences += [sentence] if sentence else []
    if differences:
        others = len(differences) - 1
        more = f" {others} more {'video differs' if others == 1 else 'videos differ'}." if others else ""
        raise InputError(f"{bench.path}: {differences[0]} Correct the durations before anything is asked.{more}")


def matches_duration(item: Item, real_seconds: float) -> bool:
    """Whether the bench states the real duration of a video, up to rounding."""
    stated, slack = item.duration, item.slack_seconds
    if not math.isfinite(stated):
        return True
    return stated + slack >= real_seconds and stated - max(slack, MOST_TOO_LONG * real_seconds) <= real_seconds


def _find_difference(item: Item, folder: Path) -> str | None:
    """A sentence about a wrong duration; None if it is right or the file cannot be read."""
    name, stated = item.question.video, item.duration
    try:
        with video.open(folder / name) as source:
            real = source.duration
    except TraceVesError:
        return None
    if matches_duration(item, real):
        return None
    return f"question {item.question.id!r} gives {name} {stated:g} s, but the video has {real:.1f} s."
