"""Recordings: the frames that a program received for each question, in memory or in files of a folder."""

from __future__ import annotations

import atexit
import operator
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trace_ves.benches.frame_log.frames import LoggedLook, ReceivedFrame
from trace_ves.benches.frame_log.hooks import HOOKS, ImportWatch
from trace_ves.core.jsonl import JsonlAppender
from trace_ves.records import Prediction

if TYPE_CHECKING:
    from trace_ves.records.calls import RecordedLook


@dataclass(slots=True, eq=False)
class Recording:
    """The frames received while one question is answered."""

    question_id: str
    looks: list[LoggedLook] = field(default_factory=list)
    latest: LoggedLook | None = None
    """The look with the last received frame."""

    @property
    def timestamps(self) -> tuple[float, ...]:
        """The timestamps of all supplied frames, in order."""
        return self.prediction(None).timestamps

    @property
    def frames_supplied(self) -> int:
        """The number of supplied frames; a frame received twice counts twice."""
        return sum(len(look.supplied) for look in self.looks)

    def prediction(self, answer: str | None, **facts: str) -> Prediction:
        """A run line with the answer, supplied frames and decoders; `facts` may have `method` and `backbone`."""
        looks = [look.record() for look in self.looks if look.frames]
        timestamps = tuple(moment for look in looks for moment in look.timestamps)
        scanned = sum(look.frames_supplied for look in looks if look.scan)
        return Prediction(
            self.question_id,
            answer,
            timestamps=timestamps,
            frames_supplied=self.frames_supplied,
            method=facts.get("method", ""),
            backbone=facts.get("backbone", ""),
            extra={
                "recorded": {
                    "decoders": sorted({look.decoder for look in looks}),
                    "exact": all(look.exact for look in looks),
                    "unplaced": self.frames_supplied - len(timestamps),
                    **({"scan": True} if 2 * scanned > self.frames_supplied else {}),
                }
            },
        )

    def append_to(self, run: Path | str, answer: str | None, **facts: str) -> Prediction:
        """Append the line to a run file."""
        line = self.prediction(answer, **facts)
        with JsonlAppender(run) as file:
            file.append(line.to_json())
        return line


class Recorder:
    """The hooks of all libraries, and the open recordings."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[Recording] = []
        self._users = 0
        self._patches = ExitStack()
        self._looks: weakref.WeakKeyDictionary[Any, dict[Recording | None, LoggedLook]] = weakref.WeakKeyDictionary()
        self._latest: LoggedLook | None = None
        self.file: FramesFile | None = None  # where all looks are written

    def install(self) -> None:
        """Install the hooks; each `install` needs an `uninstall`."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                watch = ImportWatch(list(HOOKS), lambda name, module: HOOKS[name](module, self, self._patches))
                watch.start(self._patches)

    def uninstall(self) -> None:
        """Remove the hooks after the last `uninstall`."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._patches.close()

    @contextmanager
    def assign_to(self, recording: Recording) -> Iterator[None]:
        """Assign the frames received in this context to a recording."""
        with self._lock:
            self._open.append(recording)
        self.install()
        token = _CURRENT.set(recording)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self.uninstall()
            with self._lock:
                self._open.remove(recording)

    def look(self, reader: Any, video: str, decoder: str) -> LoggedLook:
        """The look of this reader in the current recording."""
        current = self._current()
        with self._lock:
            looks = self._looks.setdefault(reader, {})
            if current not in looks:
                looks[current] = LoggedLook(video, decoder, current.question_id if current else None)
                if current is not None:
                    current.looks.append(looks[current])
            return looks[current]

    def note(self, look: LoggedLook, frames: Sequence[ReceivedFrame]) -> None:
        """Record that the program received these frames."""
        with self._lock:
            if look.question_id is None and self.file is None:
                return
            look.frames.extend(frames)
            self._latest = look
            if (current := self._current()) is not None:
                current.latest = look
            if self.file is not None:
                self.file.on_frames(look)

    def keep(self, places: Sequence[int] | None) -> None:
        """Record that the program keeps these frames of the last reader."""
        with self._lock:
            current = self._current()
            look = current.latest if current else self._latest
            if look is None:
                return  # there is no recording, or nothing was decoded
            count = len(look.frames)
            indices = [count - 1] if places is None else [operator.index(place) for place in places]
            if outside := [index for index in indices if not 0 <= index < count]:
                raise IndexError(f"frame {outside[0]} does not exist; this reader has returned {count} frames")
            look.kept = [*(look.kept or ()), *indices]
            if self.file is not None:
                self.file.on_keep(look, indices)

    def _current(self) -> Recording | None:
        """The recording of this thread or task, else the only open one, because libraries also decode in threads."""
        own = _CURRENT.get()
        if own is not None and own in self._open:
            return own
        return self._open[0] if len(self._open) == 1 else None


RECORDER: Final = Recorder()
_CURRENT: ContextVar[Recording | None] = ContextVar("trace_ves_recording", default=None)


@contextmanager
def recording(question_id: str) -> Iterator[Recording]:
    """Record which frames decord, PyAV, OpenCV or torchcodec return while one question is answered.

    Different threads or tasks may have their own recordings. Frames decoded in a thread that was started inside a
    recording belong to it only if no other recording is open.
    """
    current = Recording(question_id)
    with RECORDER.assign_to(current):
        yield current


MOST_UNWRITTEN: Final = 1000  # frames of a look in memory before they are written


class FramesFile:
    """Writes each look when the next one begins.

    A forked process has its own file and writes immediately, because it may end without running exit handlers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = os.getpid()
        self._file: JsonlAppender | None = None
        self._process = 0
        self._current: LoggedLook | None = None

    def on_frames(self, look: LoggedLook) -> None:
        """Handle new frames of a look."""
        if look is not self._current:
            self.flush()
            self._current = look
        if len(look.frames) - look.written >= MOST_UNWRITTEN or os.getpid() != self._home:
            self._write(look)

    def flush(self) -> None:
        """Write all unwritten frames."""
        if self._current is not None and len(self._current.frames) > self._current.written:
            self._write(self._current)

    def on_keep(self, look: LoggedLook, indices: Sequence[int]) -> None:
        """Write the frames of a look that the program keeps."""
        self._append(look.record([look.frames[index] for index in indices], is_kept=True))

    def _write(self, look: LoggedLook) -> None:
        line = look.record(look.frames[look.written :])
        look.written = len(look.frames)  # set before writing, so that a failed write is not repeated at exit
        self._append(line)

    def _append(self, line: RecordedLook) -> None:
        if self._file is None or self._process != os.getpid():  # each process has its own file
            self._process = os.getpid()
            self._file = JsonlAppender(self._folder / f"frames-{self._process}.jsonl")
        self._file.append(line.to_json())


def record_to(folder: Path) -> FramesFile:
    """Write every frame that this process receives from now on to a folder."""
    file = FramesFile(folder)
    RECORDER.file = file
    RECORDER.install()
    atexit.register(file.flush)
    os.register_at_fork(before=file.flush)  # else parent and child would both write the same frames
    return file
