"""Cache of cut clips in a scratch folder: each is cut once, and a bounded number is kept."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from trace_ves.construction.clips import cut

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.core import Interval

MOST_CLIPS: Final = 64


class ClipCache:
    """Clips of the leave-one-out stage. Threads may share it."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._clips: OrderedDict[str, Path] = OrderedDict()

    def clip(self, video: Path, span: Interval) -> Path:
        """The file of one interval, which holds nothing of the video beyond it."""
        status = video.stat()
        identity = f"{video}\n{status.st_size}\n{status.st_mtime_ns}\n{span.start!r}\n{span.end!r}"
        key = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        with self._lock:  # one cut at a time: more would only take turns on the same cores
            if key not in self._clips:
                path = self._scratch / f"{key}.mp4"
                path.write_bytes(cut(video, span))
                self._clips[key] = path
                if len(self._clips) > MOST_CLIPS:
                    self._clips.popitem(last=False)[1].unlink(missing_ok=True)
            self._clips.move_to_end(key)
            return self._clips[key]
