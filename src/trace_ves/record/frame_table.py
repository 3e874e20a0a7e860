"""Every frame of a video with the timestamp that our own decoder gives it: what other libraries' frames are held to."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

OFF_BY_TICKS: Final = 1
"""Seconds that a library rounded may lie this far from the tick that was meant."""


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The shown frames of one video file."""

    pts: NDArray[np.int64]
    seconds: NDArray[np.float64]
    time_base: Fraction
    start_pts: int = 0
    """Where the container says that the stream starts, which need not be its first frame."""
    is_timed: bool = True
    """Whether the file gives its frames timestamps; libraries make up different ones where it does not."""

    def by_index(self, index: int, count: int) -> float | None:
        """The frame at a place, if there are as many frames as the asker thinks."""
        holds = self.is_timed and count == len(self.seconds) and 0 <= index < count
        return float(self.seconds[index]) if holds else None

    def by_pts(self, pts: int, time_base: Fraction) -> float | None:
        """The frame with this timestamp, in ticks of some length."""
        ticks = Fraction(pts * time_base / self.time_base)
        return self._at(int(ticks), off_by=0) if ticks.denominator == 1 else None

    def by_seconds(self, seconds: float, *, from_start_time: bool) -> float | None:
        """The frame whose timestamp these seconds were rounded from."""
        ticks = round(seconds / float(self.time_base)) + (self.start_pts if from_start_time else 0)
        return self._at(ticks, off_by=OFF_BY_TICKS)

    def _at(self, ticks: int, *, off_by: int) -> float | None:
        if not self.is_timed:
            return None
        after = min(int(np.searchsorted(self.pts, ticks)), len(self.pts) - 1)
        nearest = min({max(0, after - 1), after}, key=lambda row: abs(int(self.pts[row]) - ticks))
        return float(self.seconds[nearest]) if abs(int(self.pts[nearest]) - ticks) <= off_by else None


def frame_table(video: str) -> FrameTable | None:
    """The table of a local file; None where it is no such file, or our own decoder is not installed."""
    path = Path(video.removeprefix("file://"))
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return _table(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _table(path: str, _size: int, _changed_ns: int) -> FrameTable | None:
    from trace_ves.video import open as open_video  # noqa: PLC0415  it is needed only where a video was opened

    try:
        with open_video(path) as video:
            start_pts, is_timed = _stated(path, video.stream_index)
            return FrameTable(video.pts.copy(), video.timestamps.copy(), video.time_base, start_pts, is_timed)
    except Exception:  # noqa: BLE001  not installed, too old, a file that only others read: no reason to stop a program
        return None


def _stated(path: str, stream_index: int) -> tuple[int, bool]:
    """Where the container says that a stream starts, and whether it says when its frames are shown.

    AVI files number their packets alone, so where frames are reordered nothing says which is shown when.
    """
    import av  # noqa: PLC0415  the decoder is loaded only where a video was opened

    with av.open(path) as container:
        stream = container.streams.get(stream_index)[0]
        is_reordered = isinstance(stream, av.VideoStream) and stream.codec_context.has_b_frames
        return stream.start_time or 0, not (container.format.name == "avi" and is_reordered)
