"""Clips for annotators: cutting them, tracking what was sent and played, and the rules for how much must be played."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from pydantic import PlainSerializer

from trace_ves.core.interval import Interval, union
from trace_ves.records.base import Flag, Number, Record
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from numpy.typing import NDArray


FASTEST_RATE: Final = 4.0  # the player's highest speed
SLACK_SECONDS: Final = 2.0  # how far a report may run ahead of the server's clock, because timers are not exact
REPORT_SECONDS: Final = 20.0  # the longest time between two reports of a player
PAUSE_SECONDS: Final = 120.0  # a longer pause counts as this much working time
STILL_SECONDS: Final = 0.3  # a single frame counts as this much video before and after it
JOIN_SECONDS: Final = 0.12  # spans closer than this are joined, because players report single frames
# Rounded to three decimals in the history.
Rounded = Annotated[Number, PlainSerializer(lambda value: round(value, 3), return_type=float)]


@dataclass(frozen=True, slots=True)
class Looking(Record):
    """How an annotator viewed the clips before a judgement."""

    watched_share: Rounded  # the played share of the least played interval
    took_seconds: Rounded  # working time, by the server's clock
    clip_seconds: Rounded  # total length of the intervals
    is_blind: Flag = True  # for leave-one-out: whether they had seen no other part of the video

    @property
    def pace(self) -> float:
        """Working time divided by the length of the clips; below 1 the judgement took less time than playing them."""
        return self.took_seconds / self.clip_seconds if self.clip_seconds > 0 else 1.0


def join_spans(spans: Iterable[Sequence[float]]) -> list[list[float]]:
    """Sort spans, and join those that touch or overlap."""
    joined = union((Interval(float(start), float(end)) for start, end in spans), gap=JOIN_SECONDS)
    return [[span.start, span.end] for span in joined]


def length(spans: Iterable[Sequence[float]]) -> float:
    """The total length of spans in seconds."""
    return sum(end - start for start, end in spans)


def watched_share(interval: Interval, spans: Iterable[Sequence[float]]) -> float:
    """The played share of an interval."""
    inside = (max(0.0, min(end, interval.end) - max(start, interval.start)) for start, end in join_spans(spans))
    return min(1.0, sum(inside) / interval.length) if interval.length > 0 else 1.0


def playable_seconds(credit: float, elapsed_seconds: float) -> float:
    """The most video that can have been played since the last report, which left `credit` seconds unused."""
    # Players report every few seconds, so a longer silence does not increase the limit.
    return min(credit + FASTEST_RATE * elapsed_seconds, FASTEST_RATE * REPORT_SECONDS + SLACK_SECONDS)


def add_played(known: Mapping[str, Any], spans: Sequence[Sequence[float]], elapsed_seconds: float) -> dict[str, Any]:
    """Add a report to what was played and to the working time; a credit below 0 means that it is impossible."""
    credit = playable_seconds(known.get("credit", SLACK_SECONDS), elapsed_seconds) - length(spans)
    active = known.get("active", 0.0) + min(elapsed_seconds, PAUSE_SECONDS)
    return {"spans": join_spans([*known.get("spans", []), *spans]), "credit": credit, "active": active}


@lru_cache(maxsize=64)
def _frame_bytes(path: Path, _size: int, _changed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The byte range of each frame in a file, and the time of each frame; the last time is the end."""
    with open_video(path) as video:
        places, moments = video.byte_ranges, np.append(video.timestamps, video.duration)
    if np.any(places[:, 0] < 0):  # unknown for this container, so assume frames of equal size
        edges = np.linspace(0, _size, len(places) + 1).astype(np.int64)
        places = np.column_stack((edges[:-1], edges[1:]))
    return places, moments


def spans_of_bytes(path: Path, ranges: Iterable[Sequence[float]]) -> tuple[list[list[float]], float]:
    """The spans of a video whose frames lie completely in these byte ranges, and the duration of the video."""
    status = path.stat()
    places, moments = _frame_bytes(path, status.st_size, status.st_mtime_ns)
    inside = np.zeros(len(places) + 2, dtype=np.bool_)  # padded, so that every span has a start and an end
    for first, last in ranges:
        inside[1:-1] |= (places[:, 0] >= first) & (places[:, 1] <= last)
    changes = np.flatnonzero(inside[1:] != inside[:-1])
    spans = [[float(moments[a]), float(moments[b])] for a, b in zip(changes[::2], changes[1::2], strict=True)]
    return spans, float(moments[-1])


FPS: Final = 12.0
HEIGHT: Final = 480
MOST_FRAMES: Final = 1200


def cut_clip(path: Path, span: Interval) -> bytes:
    """Cut an interval to an MP4 that starts at 0: only frames inside it, with their time differences, without sound."""
    from trace_ves.video.clip_file import encode_frames  # loads the encoder

    with open_video(path) as video:
        frames = [
            frame
            for frame in video.frames_between(span, fps=FPS, height=HEIGHT, limit=MOST_FRAMES)
            if frame.seconds in span
        ]
        frames = frames or list(video.frames_at([span.centre], height=HEIGHT))
    file = io.BytesIO()
    encode_frames(frames, file, preset="ultrafast", crf=23)
    return file.getvalue()


WORKERS: Final = 2  # more would slow down requests


def _lower_priority() -> None:
    """Lower the priority of this thread below that of requests."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class ClipCache:
    """Clips of the leave-one-out stage in a scratch folder of the desk. Threads may share it."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._clips: dict[tuple[Path, int, int, Interval], Future[Path]] = {}
        self._numbers = count()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="cut", initializer=_lower_priority)

    def clip(self, video: Path, span: Interval) -> Future[Path]:
        """The clip of one interval, cut once in a background thread."""
        status = video.stat()
        key = (video, status.st_size, status.st_mtime_ns, span)
        with self._lock:
            future = self._clips.get(key)
            if future is None or (future.done() and (future.cancelled() or future.exception())):
                path = self._scratch / f"{next(self._numbers)}.mp4"
                future = self._clips[key] = self._pool.submit(self._cut, video, span, path)
            return future

    @staticmethod
    def _cut(video: Path, span: Interval, path: Path) -> Path:
        if path.parent.is_dir():  # else the desk has ended
            path.write_bytes(cut_clip(video, span))
        return path
