"""A folder of recorded frames: what a whole program was handed, one file for each process, one line for each look."""

from __future__ import annotations

import atexit
import os
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
    """Writes each look once another begins; what is written survives a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: JsonlAppender | None = None
        self._process = 0
        self._current: Look | None = None
        self._written = 0
        self._looks = 0

    def on_seen(self, look: Look) -> None:
        """Something more was seen at this look."""
        if look is not self._current:
            self.flush()
            self._current, self._written = look, 0 if look.question_id is None else len(look.seen) - 1
            self._looks += 1
        if len(look.seen) - self._written >= MOST_WAITING:
            self._write(look)

    def flush(self) -> None:
        """Write what waits."""
        if self._current is not None and len(self._current.seen) > self._written:
            self._write(self._current)

    def _write(self, look: Look) -> None:
        resolved = look.resolve(look.seen[self._written :])
        line = RecordedLook(
            look=f"{os.getpid()}-{self._looks}",
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
        self._written = len(look.seen)

    def _appender(self) -> JsonlAppender:
        """The file of this process; a process that was forked off gets one of its own."""
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
    return file
