"""Frames that libraries hand out, and their exact timestamps: each is looked up among the frames of our decoder."""

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

OFF_BY_TICKS: Final = 1  # Seconds that a library rounded may lie this far from the tick that was meant


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The shown frames of one video file."""

    pts: NDArray[np.int64]
    seconds: NDArray[np.float64]
    time_base: Fraction
    start_pts: int
    """Where the container says that the stream starts, which need not be its first frame."""
    is_timed: bool
    """Whether the file gives its frames timestamps; libraries make up different ones where it does not."""

    def by_index(self, index: int, count: int) -> float | None:
        """The frame at a place, if the library counts the same number of frames."""
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
    """The table of a local file; None if it is not a local file, or our own decoder is not installed."""
    path = Path(video.removeprefix("file://"))
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return _table(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _table(path: str, _size: int, _changed_ns: int) -> FrameTable | None:
    from trace_ves.video import open as open_video  # it is needed only where a video was opened

    try:
        import av  # the decoder too

        with open_video(path) as video, av.open(path) as container:
            stream = container.streams.get(video.stream_index)[0]
            is_reordered = isinstance(stream, av.VideoStream) and stream.codec_context.has_b_frames
            # AVI only numbers its packets: if frames are reordered, the file does not say which is shown when
            is_timed = not (container.format.name == "avi" and is_reordered)
            start_pts = stream.start_time or 0
            return FrameTable(video.pts.copy(), video.timestamps.copy(), video.time_base, start_pts, is_timed)
    except Exception:  # noqa: BLE001  not installed, too old, a file that only others read: no reason to stop a program
        return None


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame that a library handed out, as that library names it."""

    locate: Callable[[FrameTable], float | None]
    """Its timestamp in a table of all frames; None where the table has no such frame."""
    library_seconds: Callable[[], float | None]
    """What the library itself says, asked only where the table does not help; None where it does not know."""

    @classmethod
    def by_seconds(cls, seconds: float, *, from_start_time: bool = False) -> Seen:
        """A frame by seconds: from the stream's zero, or from the start time that the container states."""
        return cls(lambda table: table.by_seconds(seconds, from_start_time=from_start_time), lambda: seconds)


@dataclass(slots=True, eq=False)
class LoggedLook:
    """What was handed out by one reader."""

    video: str
    """The path or address as the program gave it."""
    decoder: str
    """Library and version."""
    question_id: str | None = None
    seen: list[Seen] = field(default_factory=list)
    written: int = 0
    """How many of them are written to a file already."""
    kept: list[int] | None = None
    """The places in `seen` of the frames that the program said it kept; None where it said nothing."""
    number: int = field(default_factory=count(1).__next__)
    """Tells the looks of one process apart."""

    @property
    def supplied(self) -> list[Seen]:
        """The frames that count: those that were kept, else all."""
        return self.seen if self.kept is None else [self.seen[place] for place in self.kept]

    def record(self, seen: Sequence[Seen] | None = None, *, is_kept: bool = False) -> RecordedLook:
        """The line of these frames, or of all that count; frames whose timestamp is not known have none in it."""
        seen = self.supplied if seen is None else seen
        table = frame_table(self.video)
        timestamps, is_exact = [], table is not None
        for each in seen:
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
            frames_supplied=len(seen),
            decoder=self.decoder,
            exact=is_exact,
            scan=is_scan or None,
            kept=is_kept or None,
        )


FEWEST_SCANNED: Final = 50
LONGEST_STEP_SECONDS: Final = 0.1  # Between consecutive frames of a video whose frames are not known


def reads_consecutive_frames(timestamps: Sequence[float], table: FrameTable | None) -> bool:
    """Whether these are at least 50 frames, and nearly all frames from the first of them to the last."""
    moments = np.unique(np.asarray(timestamps, np.float64))
    if len(moments) < FEWEST_SCANNED:
        return False
    if table is None:
        return bool(np.median(np.diff(moments)) <= LONGEST_STEP_SECONDS)
    first, last = np.searchsorted(table.seconds, moments[[0, -1]])
    return len(moments) >= 0.9 * (int(last) - int(first) + 1)
