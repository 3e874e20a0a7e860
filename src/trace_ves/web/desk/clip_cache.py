"""Cache of cut clips in a scratch folder: each is cut once, in the background, and a bounded number is kept."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trace_ves.construction.clips import cut

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trace_ves.core import Interval

MOST_CLIPS: Final = 1000
KEPT_SECONDS: Final = 3600.0
"""A clip that somebody asked for within this time is never removed: they may be playing it."""
WORKERS: Final = 2
"""More would only take turns on the same cores, and slow down what people wait for."""


def _yield_to_requests() -> None:
    """Let this thread wait where others have something to do: nobody should wait for a click while a clip is cut."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class ClipCache:
    """Clips of the leave-one-out stage. Threads may share it; nobody holds a lock while a clip is cut."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._clips: OrderedDict[str, tuple[Future[Path], float]] = OrderedDict()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="cut", initializer=_yield_to_requests)

    def clip(self, video: Path, span: Interval) -> Future[Path]:
        """The file of one interval, which holds nothing of the video beyond it; cut where it is not there yet."""
        status = video.stat()
        identity = f"{video}\n{status.st_size}\n{status.st_mtime_ns}\n{span.start!r}\n{span.end!r}"
        key = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        with self._lock:
            known = self._clips.get(key)
            if known is None or (known[0].done() and (known[0].cancelled() or known[0].exception())):
                future = self._pool.submit(self._cut, video, span, self._scratch / f"{key}.mp4")
            else:
                future = known[0]
            self._clips[key] = future, time.monotonic()
            self._clips.move_to_end(key)
            self._remove_old()
            return future

    def prepare(self, video: Path, spans: Iterable[Interval]) -> None:
        """Begin to cut clips that somebody will ask for."""
        for span in spans:
            self.clip(video, span)

    def close(self) -> None:
        """Cut nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _cut(video: Path, span: Interval, path: Path) -> Path:
        path.write_bytes(cut(video, span))
        return path

    def _remove_old(self) -> None:
        while len(self._clips) > MOST_CLIPS:
            key, (future, asked) = next(iter(self._clips.items()))
            if not future.done() or time.monotonic() - asked < KEPT_SECONDS:
                return
            del self._clips[key]
            if not future.cancelled() and future.exception() is None:
                future.result().unlink(missing_ok=True)
