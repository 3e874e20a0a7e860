"""Looking at clips: how they are cut, what was sent and played of them, and whether that is enough to judge."""

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

from trace_ves.records.base import Flag, Number, Record
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.core import Interval

FASTEST_RATE: Final = 4.0  # the player's highest speed
SLACK_SECONDS: Final = 2.0  # how far a report may be ahead of the server's clock: timers and networks are not exact
REPORT_SECONDS: Final = 20.0  # the longest time between two reports of a player
PAUSE_SECONDS: Final = 120.0  # a longer silence counts as work for this long
STILL_SECONDS: Final = 0.3  # a single frame from the server shows this much of the video before and after it
JOIN_SECONDS: Final = 0.12  # spans closer than this are one: players report frames, and frames have gaps
# A number with three decimals in the history.
Rounded = Annotated[Number, PlainSerializer(lambda value: round(value, 3), return_type=float)]


@dataclass(frozen=True, slots=True)
class Looking(Record):
    """How an annotator looked before a judgement."""

    watched_share: Rounded  # the smallest share of any interval that was played
    took_seconds: Rounded  # time at work on it, by the server's clock
    clip_seconds: Rounded  # length of the intervals together
    is_blind: Flag = True  # for leave-one-out: whether the person had seen nothing more of this video before

    @property
    def pace(self) -> float:
        """Time taken, in lengths of the clips; below 1 it was faster than the clips are long."""
        return self.took_seconds / self.clip_seconds if self.clip_seconds > 0 else 1.0


def join_spans(spans: Iterable[Sequence[float]]) -> list[list[float]]:
    """The same spans in order, with those that touch or overlap made one."""
    joined: list[list[float]] = []
    for start, end in sorted((float(start), float(end)) for start, end in spans):
        if joined and start <= joined[-1][1] + JOIN_SECONDS:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def length(spans: Iterable[Sequence[float]]) -> float:
    """Seconds of all spans, one after the other."""
    return sum(end - start for start, end in spans)


def watched_share(interval: Interval, spans: Iterable[Sequence[float]]) -> float:
    """The share of an interval that was played."""
    inside = (max(0.0, min(end, interval.end) - max(start, interval.start)) for start, end in join_spans(spans))
    return min(1.0, sum(inside) / interval.length) if interval.length > 0 else 1.0


def playable_seconds(credit: float, elapsed_seconds: float) -> float:
    """Seconds of video that can have been played since the last report, which left `credit` seconds over."""
    # Players report every few seconds, so that a long silence earns no more than a short one.
    return min(credit + FASTEST_RATE * elapsed_seconds, FASTEST_RATE * REPORT_SECONDS + SLACK_SECONDS)


def add_played(known: Mapping[str, Any], spans: Sequence[Sequence[float]], elapsed_seconds: float) -> dict[str, Any]:
    """What was played and for how long, after one more report; a credit below 0 says that this is not possible."""
    credit = playable_seconds(known.get("credit", SLACK_SECONDS), elapsed_seconds) - length(spans)
    active = known.get("active", 0.0) + min(elapsed_seconds, PAUSE_SECONDS)
    return {"spans": join_spans([*known.get("spans", []), *spans]), "credit": credit, "active": active}


@lru_cache(maxsize=64)
def _frame_bytes(path: Path, _size: int, _changed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Where each frame lies in a file, and the moments at which they begin; the last moment is the end."""
    with open_video(path) as video:
        places, moments = video.byte_ranges, np.append(video.timestamps, video.duration)
    if np.any(places[:, 0] < 0):  # the container does not say: frames are spread evenly over the file
        edges = np.linspace(0, _size, len(places) + 1).astype(np.int64)
        places = np.column_stack((edges[:-1], edges[1:]))
    return places, moments


def spans_of_bytes(path: Path, ranges: Iterable[Sequence[float]]) -> tuple[list[list[float]], float]:
    """The spans of a video whose frames lie wholly in these ranges of bytes, and the duration of all of it."""
    status = path.stat()
    places, moments = _frame_bytes(path, status.st_size, status.st_mtime_ns)
    inside = np.zeros(len(places) + 2, dtype=np.bool_)  # with an end on either side
    for first, last in ranges:
        inside[1:-1] |= (places[:, 0] >= first) & (places[:, 1] <= last)
    changes = np.flatnonzero(inside[1:] != inside[:-1])
    spans = [[float(moments[a]), float(moments[b])] for a, b in zip(changes[::2], changes[1::2], strict=True)]
    return spans, float(moments[-1])


FPS: Final = 12.0
HEIGHT: Final = 480
MOST_FRAMES: Final = 1200


def cut_clip(path: Path, span: Interval) -> bytes:
    """The interval as an MP4 that begins at 0: only frames inside of it, at their own distances, without sound."""
    from trace_ves.video.clip_file import encode_frames  # the encoder is loaded only where a clip is cut

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


WORKERS: Final = 2  # more would only take turns on the same cores, and slow down what people wait for


def _lower_priority() -> None:
    """Let requests go before the cutting of clips."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class ClipCache:
    """Clips of the leave-one-out stage, in a scratch folder that goes when the desk ends. Threads may share it."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._clips: dict[tuple[Path, int, int, Interval], Future[Path]] = {}
        self._numbers = count()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="cut", initializer=_lower_priority)

    def clip(self, video: Path, span: Interval) -> Future[Path]:
        """The file of one interval, which holds nothing of the video beyond it; cut once, without the lock."""
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
        if path.parent.is_dir():  # else the desk has ended, and nothing waits for this clip
            path.write_bytes(cut_clip(video, span))
        return path
