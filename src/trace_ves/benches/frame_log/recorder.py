"""Recordings: which frames were handed out for which question, in memory or in the files of a folder."""

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

from trace_ves.benches.frame_log.frames import LoggedLook, Seen
from trace_ves.benches.frame_log.hooks import HOOKS, ImportWatch
from trace_ves.core.jsonl import JsonlAppender
from trace_ves.records import Prediction

if TYPE_CHECKING:
    from trace_ves.records.calls import RecordedLook


@dataclass(slots=True, eq=False)
class Recording:
    """What was looked at while one question was answered."""

    question_id: str
    looks: list[LoggedLook] = field(default_factory=list)
    latest: LoggedLook | None = None
    """The look that the last frame was handed out at."""

    @property
    def timestamps(self) -> tuple[float, ...]:
        """Of every frame that was handed out, or that the program kept, in order."""
        return self.prediction(None).timestamps

    @property
    def frames_supplied(self) -> int:
        """Frames that were handed out, or that the program kept; one handed out twice counts twice."""
        return sum(len(look.supplied) for look in self.looks)

    def prediction(self, answer: str | None, **facts: str) -> Prediction:
        """A line of a run: the answer, what was looked at, and with which decoders; `facts` such as method."""
        looks = [look.record() for look in self.looks if look.seen]
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
        """Append that line to a run file."""
        line = self.prediction(answer, **facts)
        with JsonlAppender(run) as file:
            file.append(line.to_json())
        return line


class Recorder:
    """The hooks of all libraries, and the recordings that are open."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[Recording] = []
        self._users = 0
        self._patches = ExitStack()
        self._looks: weakref.WeakKeyDictionary[Any, dict[Recording | None, LoggedLook]] = weakref.WeakKeyDictionary()
        self._latest: LoggedLook | None = None
        self.file: FramesFile | None = None  # where all looks are written

    def install(self) -> None:
        """Watch the libraries; each `install` needs one `uninstall`."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                watch = ImportWatch(list(HOOKS), lambda name, module: HOOKS[name](module, self, self._patches))
                watch.start(self._patches)

    def uninstall(self) -> None:
        """Put everything back once there is no recording left."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._patches.close()

    @contextmanager
    def assign_to(self, recording: Recording) -> Iterator[None]:
        """Assign frames that are handed out meanwhile to this recording."""
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
        """The look of this reader in the recording that is open now; the same one for the same two."""
        current = self._current()
        with self._lock:
            looks = self._looks.setdefault(reader, {})
            if current not in looks:
                looks[current] = LoggedLook(video, decoder, current.question_id if current else None)
                if current is not None:
                    current.looks.append(looks[current])
            return looks[current]

    def note(self, look: LoggedLook, seen: Sequence[Seen]) -> None:
        """Record that these frames were handed out."""
        with self._lock:
            if look.question_id is None and self.file is None:
                return
            look.seen.extend(seen)
            self._latest = look
            if (current := self._current()) is not None:
                current.latest = look
            if self.file is not None:
                self.file.on_seen(look)

    def keep(self, places: Sequence[int] | None) -> None:
        """Record that the program keeps these frames of the reader that handed out the last one."""
        with self._lock:
            current = self._current()
            look = current.latest if current else self._latest
            if look is None:
                return  # nothing is recorded, or nothing was decoded
            chosen = [len(look.seen) - 1] if places is None else [operator.index(place) for place in places]
            if outside := [place for place in chosen if not 0 <= place < len(look.seen)]:
                raise IndexError(f"frame {outside[0]} was not handed out; this reader has handed out {len(look.seen)}")
            look.kept = [*(look.kept or ()), *chosen]
            if self.file is not None:
                self.file.on_kept(look, chosen)

    def _current(self) -> Recording | None:
        """The recording of this thread or task, else the only one that is open: libraries decode in threads too."""
        mine = _CURRENT.get()
        if mine is not None and mine in self._open:
            return mine
        return self._open[0] if len(self._open) == 1 else None


RECORDER: Final = Recorder()
_CURRENT: ContextVar[Recording | None] = ContextVar("trace_ves_recording", default=None)


@contextmanager
def recording(question_id: str) -> Iterator[Recording]:
    """Record which frames decord, PyAV, OpenCV or torchcodec hand out while one question is answered.

    Several may be open in different threads or tasks. A thread that was started inside of one belongs to it only while
    it is the only one.
    """
    made = Recording(question_id)
    with RECORDER.assign_to(made):
        yield made


MOST_WAITING: Final = 1000  # Frames of one look that wait before they are written as a line


class FramesFile:
    """Writes each look once another begins; what is written survives a kill.

    A forked process writes at once, into another file: it may end without running exit handlers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = os.getpid()
        self._file: JsonlAppender | None = None
        self._process = 0
        self._current: LoggedLook | None = None

    def on_seen(self, look: LoggedLook) -> None:
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

    def on_kept(self, look: LoggedLook, places: Sequence[int]) -> None:
        """The program kept these frames of a look."""
        self._append(look.record([look.seen[place] for place in places], is_kept=True))

    def _write(self, look: LoggedLook) -> None:
        line = look.record(look.seen[look.written :])
        look.written = len(look.seen)  # what cannot be written is not tried again at exit
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
    os.register_at_fork(before=file.flush)  # else parent and child would both write what waits
    return file
