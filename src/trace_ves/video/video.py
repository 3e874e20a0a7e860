"""A video file: the exact frame on screen at any moment, independent of earlier requests, from any thread."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from trace_ves.core import Frame, Interval, VideoError, centred_uniform
from trace_ves.video.container import Deadline
from trace_ves.video.decoder import FrameDecoder
from trace_ves.video.survey import Survey, load_survey, save_survey, survey

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.video.reader import Reader

_SLOW_SURVEY_SECONDS: Final = 0.02  # a faster survey is not stored, because reading it would take about as long


class Video:
    """A video file; made by `trace_ves.video.open`, satisfies `core.VideoSource`."""

    def __init__(self, path: str | os.PathLike[str], *, deadline_seconds: float) -> None:
        self.path: Final = Path(path)
        self._deadline_seconds = deadline_seconds
        self._state = _state(self.path)
        facts, reader = _survey(self.path, self._deadline("opening it"))
        index = self._index = facts.index
        self._decoder = FrameDecoder(self.path, facts, reader)
        weakref.finalize(self, self._decoder.close)  # closes the file of a video that was not closed
        self.stream_index: Final = facts.stream_index
        self.codec: Final = facts.codec
        self.width: Final = facts.width
        self.height: Final = facts.height
        self.duration: Final = index.duration  # seconds from the first frame to the end of the last
        self.frame_count: Final = len(index)  # frames that are shown
        self.average_fps: Final = self.frame_count / self.duration
        self.timestamps: Final = index.seconds  # of every shown frame, the first at 0, in display order
        self.pts: Final = index.pts  # the same in the stream's own ticks
        self.time_base: Final = index.time_base  # seconds for each tick
        self._warnings = facts.warnings
        self._undecodable: set[int] = set()
        self._damaged: set[int] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Video({str(self.path)!r}, {self.duration:.3f} s, {self.width}x{self.height}, {self.codec})"

    def close(self) -> None:
        """Close the file and the decoders; decoded frames stay valid."""
        with self._lock:
            self._closed = True
            self._decoder.close()

    @property
    def byte_ranges(self) -> NDArray[np.int64]:
        """The start and end of every shown frame in the file, in bytes; the start is -1 if it is unknown."""
        packets, rows = self._index.packets, self._index.packet
        return np.column_stack((packets.position[rows], packets.position[rows] + packets.size[rows]))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of the file found so far."""
        with self._lock:
            return (*self._warnings, *self._damage())

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, in their order, with at most `height` rows."""
        if height is not None and height < 1:
            raise VideoError(f"{self.path}: a picture needs at least 1 row of pixels, got height={height}.")
        for at in seconds:
            if not 0 <= at <= self.duration:
                raise VideoError(f"{self.path}: there is no frame at {at} s; give a time from 0 to {self.duration} s.")
        rows = [self._index.locate(at) for at in seconds]
        with self._lock:
            if self._closed:
                raise VideoError(f"{self.path}: the video was closed; open it again.")
            if _state(self.path) != self._state:
                raise VideoError(f"{self.path}: the file changed since it was opened; open it again.")
            pictures = self._decoder.pictures(set(rows), height, self._deadline("decoding frames of it"))
            self._undecodable |= {row for row, shown in pictures.items() if shown.row != row}
            self._damaged |= {row for row, shown in pictures.items() if shown.row == row and shown.is_damaged}
        frames = {
            row: Frame(int(self.pts[shown.row]), float(self.timestamps[shown.row]), shown.picture)
            for row, shown in pictures.items()
        }
        return tuple(frames[row] for row in rows)

    def frames_between(
        self, span: Interval, *, fps: float, height: int | None = None, limit: int | None = None
    ) -> tuple[Frame, ...]:
        """Evenly spaced frames of a span, `fps` per second but at most `limit`, without duplicates."""
        if not (fps > 0 and math.isfinite(fps)) or (limit is not None and limit < 1):
            raise VideoError(f"{self.path}: frames between need fps > 0 and limit >= 1, got fps={fps}, limit={limit}.")
        count = max(1, round(span.length * fps))
        moments = centred_uniform(span, count if limit is None else min(count, limit))
        frames = self.frames_at(moments, height=height)
        return tuple({frame.pts: frame for frame in frames}.values())

    def _damage(self) -> tuple[str, ...]:
        """A sentence about requested frames that could not be decoded cleanly."""
        missing, damaged = len(self._undecodable), len(self._damaged)
        if missing:
            first = self._index.seconds[min(self._undecodable)]
            text = f"{missing} of the requested frames cannot be decoded, the first at {first:.3f} s"
            text += "; the frame before is used instead"
            return (f"{text}; {damaged} others depend on damaged data" if damaged else text,)
        if damaged:
            first = self._index.seconds[min(self._damaged)]
            return (f"{damaged} of the requested frames depend on damaged data, the first at {first:.3f} s",)
        return ()

    def _deadline(self, doing: str) -> Deadline:
        return Deadline(self.path, doing, self._deadline_seconds)


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change; None if the file is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _survey(path: Path, deadline: Deadline) -> tuple[Survey, Reader | None]:
    """The stored survey of a file, or a new one with its reader."""
    stored = load_survey(path)
    if stored is not None:
        return stored, None
    started = time.perf_counter()
    fresh, reader = survey(path, deadline)
    if time.perf_counter() - started > _SLOW_SURVEY_SECONDS:
        save_survey(path, fresh)
    return fresh, reader
