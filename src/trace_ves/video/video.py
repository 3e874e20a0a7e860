"""A video file that gives the frame on screen at any moment, exactly, whatever was asked before and from any thread."""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Self, TypeVar

import numpy as np

from trace_ves.core import Frame, Interval, VideoError, centred_uniform
from trace_ves.video import survey_cache
from trace_ves.video.deadline import Deadline
from trace_ves.video.picture import Scaler
from trace_ves.video.plan import plan, readers_pay
from trace_ves.video.reader import PacketsMovedError, Reader
from trace_ves.video.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from trace_ves.video.picture import YuvPicture
    from trace_ves.video.plan import Group
    from trace_ves.video.survey import Survey

_Number = TypeVar("_Number", np.int64, np.float64)

_MAX_READERS: Final = 4
"""More readers would take more memory, and a machine with more cores has more videos to decode."""
_FIRST_READER: Final = (0, 1)
"""Slot and number of threads of the reader that a survey leaves."""
_SLOW_SURVEY_SECONDS: Final = 0.02
"""A file that is surveyed faster is surveyed again: reading the survey back would take about as long."""


class Video:
    """A video file; made by `trace_ves.video.open`, satisfies `core.VideoSource`."""

    def __init__(self, path: str | os.PathLike[str], *, deadline_seconds: float) -> None:
        self.path: Final = Path(path)
        self._deadline_seconds = deadline_seconds
        found, reader = _survey(self.path, self._deadline("opening it"))
        self._stream_index = found.stream_index
        self._orientation = found.orientation
        self._index = found.index
        self.codec: Final = found.codec
        self.width: Final = found.width
        self.height: Final = found.height
        self._warnings = found.warnings
        self._undecodable: set[int] = set()
        self._lock = threading.Lock()
        self._readers: dict[tuple[int, int], Reader] = {} if reader is None else {_FIRST_READER: reader}
        self._closed = False
        self._cores = min(_MAX_READERS, _usable_cores())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Video({str(self.path)!r}, {self.duration:.3f} s, {self.width}x{self.height}, {self.codec})"

    def close(self) -> None:
        """Give back the file and the decoders; what was read of it before stays good."""
        with self._lock:
            self._closed = True
            self._drop_readers()

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return self._index.duration

    @property
    def frame_count(self) -> int:
        """Frames that are shown."""
        return len(self._index)

    @property
    def pts(self) -> NDArray[np.int64]:
        """The timestamp of every shown frame in the stream's own ticks, in display order."""
        return _read_only(self._index.pts)

    @property
    def timestamps(self) -> NDArray[np.float64]:
        """The timestamp of every shown frame in seconds, the first at 0, in display order."""
        return _read_only(self._index.seconds)

    @property
    def average_fps(self) -> float:
        """Frames for each second of the video."""
        return self.frame_count / self.duration

    @property
    def variable_frame_rate(self) -> bool:
        """Whether frames stay for different times, by more than the rounding of their timestamps."""
        gaps = np.diff(self._index.pts)
        return bool(len(gaps)) and bool(
            np.max(np.abs(gaps - np.median(gaps))) > max(1.0, 0.01 * float(np.median(gaps)))
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is missing or odd in the file, as far as it was read."""
        with self._lock:
            count = len(self._undecodable)
            if not count:
                return self._warnings
            first = self._index.seconds[min(self._undecodable)]
            damage = f"{count} of the frames asked for cannot be decoded, the first at {first:.3f} s"
            return (*self._warnings, f"{damage}; the one shown before it is given instead")

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, one for each, in the order asked; at most `height` rows."""
        if height is not None and height < 1:
            raise VideoError(f"{self.path}: a picture needs at least 1 row of pixels, got height={height}.")
        rows = [self._row(moment) for moment in seconds]
        frames = self._decode(set(rows), height)
        return tuple(frames[row] for row in rows)

    def frames_between(
        self, span: Interval, *, fps: float, height: int | None = None, limit: int | None = None
    ) -> tuple[Frame, ...]:
        """Frames spread evenly over the span, `fps` for each second but at most `limit`, none of them twice."""
        if not (fps > 0 and math.isfinite(fps)) or (limit is not None and limit < 1):
            raise VideoError(f"{self.path}: frames between need fps > 0 and limit >= 1, got fps={fps}, limit={limit}.")
        count = max(1, round(span.length * fps))
        moments = centred_uniform(span, count if limit is None else min(count, limit))
        frames = self.frames_at(moments, height=height)
        return tuple({frame.pts: frame for frame in frames}.values())

    def _row(self, seconds: float) -> int:
        if not 0 <= seconds <= self.duration:
            raise VideoError(f"{self.path}: there is no frame at {seconds} s; moments go from 0 to {self.duration} s.")
        return self._index.locate(seconds)

    def _deadline(self, doing: str) -> Deadline:
        return Deadline(self.path, doing, self._deadline_seconds)

    def _decode(self, rows: set[int], height: int | None) -> dict[int, Frame]:
        """The frames of these rows of the index."""
        deadline = self._deadline("decoding frames of it")
        with self._lock:
            if self._closed:
                raise VideoError(f"{self.path}: the video was closed; open it again.")
            try:
                pictures = self._decode_groups(plan(self._index, rows), height, deadline)
                by_row = {row: (row, pictures.get(int(self._index.packet[row]))) for row in rows}
                frames = {}
                for row, (_, picture) in by_row.items():
                    frames[row] = self._frame(row, picture) if picture else self._repaired(row, height, deadline)
                return frames
            except BaseException:
                self._drop_readers()  # one that was stopped halfway stands nobody knows where
                raise

    def _decode_groups(self, groups: Sequence[Group], height: int | None, deadline: Deadline) -> dict[int, YuvPicture]:
        """Pictures by packet number; those that do not come are left out."""
        if not readers_pay(groups, self._cores):
            reader = self._reader(0, threads=self._cores, deadline=deadline)
            return self._work(reader, iter(groups), height, deadline)
        count = min(self._cores, len(groups))
        readers = [self._reader(slot, threads=1, deadline=deadline) for slot in range(count)]
        queue: SimpleQueue[Group] = SimpleQueue()
        for group in sorted(groups, key=lambda group: -group.packets):
            queue.put(group)
        with ThreadPoolExecutor(count - 1, thread_name_prefix="trace-ves-video") as pool:
            others = [pool.submit(self._work, reader, _drain(queue), height, deadline) for reader in readers[1:]]
            pictures = self._work(readers[0], _drain(queue), height, deadline)
            for other in others:
                pictures |= other.result()
        return pictures

    def _work(
        self, reader: Reader, groups: Iterable[Group], height: int | None, deadline: Deadline
    ) -> dict[int, YuvPicture]:
        """Decode groups one after the other, scaling each wanted frame as it comes."""
        scaler = Scaler(self._orientation)
        pictures: dict[int, YuvPicture] = {}
        for group in groups:
            wanted = frozenset(group.wanted)
            for start in (group.start, 0):
                try:
                    for number, frame in reader.frames(start, wanted, deadline):
                        if number in wanted and not frame.is_corrupt:
                            pictures[number] = scaler.picture(frame, height)
                    break
                except PacketsMovedError:
                    if start == 0:
                        raise VideoError(f"{self.path}: the file changed while it was read; open it again.") from None
        return pictures

    def _repaired(self, row: int, height: int | None, deadline: Deadline) -> Frame:
        """The frame on screen at a row whose own frame did not come: decode from ever further back, skip nothing."""
        index = self._index
        reader = self._reader(0, threads=self._cores, deadline=deadline)
        rows = {int(packet): at for at, packet in enumerate(index.packet[: row + 1])}
        keys = np.flatnonzero(index.packets.is_key)
        scaler = Scaler(self._orientation)
        back = int(np.searchsorted(keys, index.start[row]))
        while True:
            back = max(0, back - 1)
            start = int(keys[back]) if len(keys) and back else 0
            best: tuple[int, YuvPicture] | None = None
            last = int(index.packet[row])
            for number, frame in reader.frames(start, (last,), deadline, skip_unwanted=False):
                at = rows.get(number, -1)
                if at >= 0 and (best is None or at > best[0]):
                    best = (at, scaler.picture(frame, height))
            if best is not None:
                if best[0] != row:
                    self._undecodable.add(row)
                return self._frame(*best)
            if start == 0:
                raise VideoError(f"{self.path}: no frame up to {index.seconds[row]:.3f} s can be decoded.")

    def _frame(self, row: int, picture: YuvPicture) -> Frame:
        return Frame(int(self._index.pts[row]), float(self._index.seconds[row]), picture)

    def _reader(self, slot: int, *, threads: int, deadline: Deadline) -> Reader:
        key = (slot, threads)
        if key not in self._readers:
            self._readers[key] = Reader(
                self.path, self._index.packets, self._stream_index, threads=threads, deadline=deadline
            )
        return self._readers[key]

    def _drop_readers(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()


def _survey(path: Path, deadline: Deadline) -> tuple[Survey, Reader | None]:
    """What is known of the file, from the disk where it was slow to find out before, else with a reader of it."""
    stored = survey_cache.load(path)
    if stored is not None:
        return stored, None
    started = time.perf_counter()
    found, reader = survey(path, deadline)
    if time.perf_counter() - started > _SLOW_SURVEY_SECONDS:
        survey_cache.save(path, found)
    return found, reader


def _drain(queue: SimpleQueue[Group]) -> Iterable[Group]:
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return


def _read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    view = array.view()
    view.flags.writeable = False
    return view


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
