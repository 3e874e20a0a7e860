"""A folder of recorded frames: what a whole program was handed, one file for each process, one line for each look."""

from __future__ import annotations

import atexit
import os
import weakref
from itertools import count
from typing import TYPE_CHECKING, Final

from trace_ves.core.jsonl import JsonlAppender
from trace_ves.record.recorder import RECORDER
from trace_ves.records.recorded_look import RecordedLook

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.record.look import Look

MOST_WAITING: Final = 1000
"""Frames of one look that wait before they are written as a line of their own."""


class FramesFile:
    """Writes each look once another begins; what is written survives a kill.

    A process that was forked off writes at once, into a file of its own: such processes end without a word.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = os.getpid()
        self._file: JsonlAppender | None = None
        self._process = 0
        self._numbers: weakref.WeakKeyDictionary[Look, int] = weakref.WeakKeyDictionary()
        self._counter = count(1)
        self._current: Look | None = None

    def on_seen(self, look: Look) -> None:
        """Something more was seen at this look."""
        if look is not self._current:
            self.flush()
            self._current = look
        if len(look.seen) - look.written >= MOST_WAITING or os.getpid() != self._home:
            self._write(look)

    def flush(self) -> None:
        """Write what waits."""
        if self._current is not None and len(self._current.seen) > self._current.written:
            self._write(self._current)

    def _write(self, look: Look) -> None:
        resolved = look.resolve(look.seen[look.written :])
        if look not in self._numbers:
            self._numbers[look] = next(self._counter)
        line = RecordedLook(
            look=f"{os.getpid()}-{self._numbers[look]}",
            video=look.video,
            question_id=look.question_id,
            timestamps=resolved.timestamps,
            frames_supplied=resolved.frames_supplied,
            decoder=look.decoder,
            exact=resolved.is_exact,
        )
        self._appender().append(line.to_json())
        if look.question_id is None:
            look.seen.clear()
        look.written = len(look.seen)

    def _appender(self) -> JsonlAppender:
        """The file of this process."""
        if self._file is None or self._process != os.getpid():
            self._process = os.getpid()
            self._file = JsonlAppender(self._folder / f"frames-{self._process}.jsonl")
        return self._file


def record_to(folder: Path) -> FramesFile:
    """Have everything that this process is handed from now on written to a folder."""
    file = FramesFile(folder)
    RECORDER.on_seen = file.on_seen
    RECORDER.install()
    atexit.register(file.flush)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=file.flush)  # else parent and child would both write what waits
    return file
