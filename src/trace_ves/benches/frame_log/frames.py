"""Frames that a program received from a library, and their exact timestamps from our own decoder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.records.calls import RecordedLook

if TYPE_CHECKING:
    from numpy.typing import NDArray

OFF_BY_TICKS: Final = 1  # tolerance for seconds that a library has rounded


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The shown frames of one video file."""

    pts: NDArray[np.int64]
    seconds: NDArray[np.float64]
    time_base: Fraction
    start_pts: int
    """The start of the stream according to the container, which may differ from its first frame."""
    is_timed: bool
    """Whether the file has timestamps for its frames; if not, libraries invent different ones."""

    def by_index(self, index: int, count: int) -> float | None:
        """The time of a frame by its index, if the library counts as many frames as we do."""
        is_valid = self.is_timed and count == len(self.seconds) and 0 <= index < count
        return float(self.seconds[index]) if is_valid else None

    def by_pts(self, pts: int, time_base: Fraction) -> float | None:
        """The time of the frame with this timestamp, in ticks of `time_base`."""
        ticks = Fraction(pts * time_base / self.time_base)
        return self._at(int(ticks), off_by=0) if ticks.denominator == 1 else None

    def by_seconds(self, seconds: float, *, from_start_time: bool) -> float | None:
        """The time of the frame whose timestamp was rounded to these seconds."""
        ticks = round(seconds / float(self.time_base)) + (self.start_pts if from_start_time else 0)
        return self._at(ticks, off_by=OFF_BY_TICKS)

    def _at(self, ticks: int, *, off_by: int) -> float | None:
        if not self.is_timed:
            return None
        after = min(int(np.searchsorted(self.pts, ticks)), len(self.pts) - 1)
        nearest = min({max(0, after - 1), after}, key=lambda row: abs(int(self.pts[row]) - ticks))
        return float(self.seconds[nearest]) if abs(int(self.pts[nearest]) - ticks) <= off_by else None


def frame_table(video: str) -> FrameTable | None:
    """The table of a local file; None if there is no such file or our decoder cannot read it."""
    path = Path(video.removeprefix("file://"))
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return _table(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _table(path: str, _size: int, _changed_ns: int) -> FrameTable | None:
    from trace_ves.video import open as open_video  # only needed if a video was opened

    try:
        import av

        with open_video(path) as video, av.open(path) as container:
            stream = container.streams.get(video.stream_index)[0]
            is_reordered = isinstance(stream, av.VideoStream) and stream.codec_context.has_b_frames
            # AVI has no timestamps: if frames are reordered, their times are unknown
            is_timed = not (container.format.name == "avi" and is_reordered)
            start_pts = stream.start_time or 0
            return FrameTable(video.pts.copy(), video.timestamps.copy(), video.time_base, start_pts, is_timed)
    except Exception:  # noqa: BLE001  a missing or failing decoder must not stop the recorded program
        return None


@dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """A frame that a program received, identified as its library does."""

    locate: Callable[[FrameTable], float | None]
    """Looks up its timestamp in a table; None if the table has no such frame."""
    library_seconds: Callable[[], float | None]
    """Its timestamp according to the library, used only if `locate` fails; None if it is unknown."""

    @classmethod
    def by_seconds(cls, seconds: float, *, from_start_time: bool = False) -> ReceivedFrame:
        """A frame identified by seconds, from zero or from the start time in the container."""
        return cls(lambda table: table.by_seconds(seconds, from_start_time=from_start_time), lambda: seconds)


@dataclass(slots=True, eq=False)
class LoggedLook:
    """The frames received from one reader."""

    video: str
    """The path or address that the program opened."""
    decoder: str
    """The library and its version."""
    question_id: str | None = None
    frames: list[ReceivedFrame] = field(default_factory=list)
    written: int = 0
    """The number of frames already written to a file."""
    kept: list[int] | None = None
    """Indices in `frames` of the frames that the program keeps; None if it called no `keep`."""
    number: int = field(default_factory=count(1).__next__)
    """Unique in this process."""

    @property
    def supplied(self) -> list[ReceivedFrame]:
        """The frames that count as supplied: those kept, or else all."""
        return self.frames if self.kept is None else [self.frames[place] for place in self.kept]

    def record(self, frames: Sequence[ReceivedFrame] | None = None, *, is_kept: bool = False) -> RecordedLook:
        """The line of these frames, or of all supplied ones; frames with unknown timestamps are only counted."""
        frames = self.supplied if frames is None else frames
        table = frame_table(self.video)
        timestamps, is_exact = [], table is not None
        for each in frames:
            seconds = each.locate(table) if table is not None else None
            if seconds is None:
                is_exact, seconds = False, each.library_seconds()
            if seconds is not None and 0 <= seconds < 1e9:
                timestamps.append(seconds)
        is_scan = self.kept is None and reads_consecutive_frames(timestamps, table)
        return RecordedLook(
            look=f"{os.getpid()}-{self.number}",
            video=self.video,
            question_id=self.question_id,
            timestamps=tuple(timestamps),
            frames_supplied=len(frames),
            decoder=self.decoder,
            exact=is_exact,
            scan=is_scan or None,
            kept=is_kept or None,
        )


FEWEST_SCANNED: Final = 50
LONGEST_STEP_SECONDS: Final = 0.1  # between consecutive frames of a video without a table


def reads_consecutive_frames(timestamps: Sequence[float], table: FrameTable | None) -> bool:
    """Whether these are at least 50 frames, and nearly all frames between the first and the last."""
    moments = np.unique(np.asarray(timestamps, np.float64))
    if len(moments) < FEWEST_SCANNED:
        return False
    if table is None:
        return bool(np.median(np.diff(moments)) <= LONGEST_STEP_SECONDS)
    first, last = np.searchsorted(table.seconds, moments[[0, -1]])
    return len(moments) >= 0.9 * (int(last) - int(first) + 1)
