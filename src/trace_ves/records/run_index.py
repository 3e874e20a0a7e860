"""An index of one run file by byte offset: a few facts about each line; the whole line is read on demand."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from trace_ves.core.errors import FormatError, InputError, wrap_os_errors
from trace_ves.core.jsonl import BYTE_ORDER_MARK, MAX_LINE_BYTES, PROGRESS_LINES, parse_object
from trace_ves.records import Prediction
from trace_ves.records.base import FieldError
from trace_ves.records.disk_cache import Facts
from trace_ves.records.transcript import TranscriptIndex

MOST_PROBLEMS: Final = 20  # A file that is not a run would otherwise fill the page


class Score(NamedTuple):
    """The audit of one line."""

    correct: bool | None = None  # where there was nothing to score, or it could not be scored
    frames_distinct: int = 0
    frames_inside: int = 0
    density: int = 0


class Entry(NamedTuple):
    """A line of a run file without its heavy parts, its timestamps among them, and where the full line is."""

    line: int
    offset: int
    length: int
    frames_supplied: int
    correct: bool | None
    frames_distinct: int
    frames_inside: int
    density: int
    answer: str | None
    termination: str | None
    method: str
    backbone: str
    error: str | None  # the method's own error
    refusal: str | None  # why the line could not be scored


class RunIndex:
    """The lines of one run file by question; if a question has two lines, the later one counts.

    `score` is asked about every line as it is read, while its timestamps are available; a `FieldError` says why a line
    cannot be scored, None that there is nothing to score it against.
    """

    def __init__(self, path: Path, score: Callable[[Prediction], Score | None] = lambda _: None) -> None:
        self.path: Final = path
        self.is_torn = False
        """Whether the file ends inside a line: it is being written, or its writer was killed."""
        self.generation = 0  # Grows whenever the lines change
        self._score = score
        self._identity: tuple[int, int] | None = None
        self.size = 0  # Of the file when it was last read
        self._lock = threading.Lock()
        self.transcripts: Final = TranscriptIndex(path)
        self._forget()

    def _forget(self) -> None:
        self.entries: dict[str, Entry] = {}  # The line of each question
        self.problems: list[str] = []  # What could not be read, one sentence each
        self.problem_count = 0
        self._offset = self._line = 0

    @property
    def key(self) -> str:
        """What the run is called in addresses: its file name without the ending."""
        return self.path.name.removesuffix(".jsonl")

    def refresh(self, on_progress: Callable[[int, int], None] | None = None) -> bool:
        """Read what is new in the file; says whether anything is. `on_progress` hears of bytes read and in all."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    identity = (status.st_dev, status.st_ino)
                    if identity == self._identity and status.st_size == self.size:
                        return False
                    if identity != self._identity or status.st_size < self.size:
                        self._forget()
                    self._identity, self.size = identity, status.st_size
                    file.seek(self._offset)
                    self.is_torn = False
                    while raw := file.readline(MAX_LINE_BYTES + 1):
                        if not self._take(raw):
                            break
                        if on_progress is not None and self._line % PROGRESS_LINES == 0:
                            on_progress(self._offset, self.size)
            except OSError as error:
                was_there = self._identity is not None
                self._forget()
                self._identity = None
                self._problem(f"{self.path.name}: cannot be read: {error.strerror}.")
                self.generation += was_there
                return was_there
            self.generation += 1
            return True

    def read(self, question_id: str) -> Prediction:
        """The whole prediction; a `FormatError` where its line is damaged, a `KeyError` where there is none."""
        entry = self.entries[question_id]
        with wrap_os_errors(self.path, "read"), self.path.open("rb") as file:
            file.seek(entry.offset)
            raw = file.read(entry.length)
        try:
            found = Prediction.from_json(parse_object(raw.removeprefix(BYTE_ORDER_MARK)))
        except (ValueError, FieldError) as error:
            raise FormatError(f"{error}.", path=self.path, line=entry.line) from None
        if found.question_id != question_id:
            raise InputError(f"{self.path}: the file was changed while it was read; load the page again.")
        return found

    def facts(self) -> Facts:
        """What `restore` makes the same index of, as long as the file stays as it is."""
        state = [self._identity, self.size, self._offset, self._line]
        problems = [self.problems, self.problem_count, self.is_torn]
        return Facts({"state": state, "problems": problems, "entries": self.entries})

    def restore(self, facts: Facts) -> None:
        """Take over what `facts` gave for the same state of the file."""
        with self._lock:
            self.entries = {name: Entry(*entry) for name, entry in facts.values["entries"].items()}
            self.problems, self.problem_count, self.is_torn = facts.values["problems"]
            (device, inode), self.size, self._offset, self._line = facts.values["state"]
            self._identity = (device, inode)
            self.generation += 1

    def _take(self, raw: bytes) -> bool:
        """Index one line; says whether to continue with the next."""
        if len(raw) > MAX_LINE_BYTES:
            self._problem(f"{self.path.name}:{self._line + 1}: the line is longer than {MAX_LINE_BYTES} bytes.")
            return False
        whole = raw.endswith(b"\n")
        try:
            if raw.strip():
                self._add(raw)
        except (ValueError, FieldError) as error:
            if not whole:
                self.is_torn = True
                return False
            self._problem(f"{self.path.name}:{self._line + 1}: {error}; the line was left out.")
        if whole:
            self._line += 1
            self._offset += len(raw)
        return whole

    def _add(self, raw: bytes) -> None:
        text = raw.removeprefix(BYTE_ORDER_MARK) if self._line == 0 else raw
        prediction = Prediction.from_json(parse_object(text))
        name, before = prediction.question_id, self.entries.get(prediction.question_id)
        if before is not None and before.offset != self._offset:
            self._problem(f"{self.path.name}:{self._line + 1}: question {name[:60]!r} is also in line {before.line}.")
        if prediction.frames_supplied > sys.float_info.max:
            raise FieldError("'frames_supplied' is too large a number")
        scored, refusal = Score(), None
        try:
            scored = self._score(prediction) or scored
        except FieldError as error:
            refusal = str(error)
        self.entries[sys.intern(name)] = Entry(
            self._line + 1,
            self._offset,
            len(raw),
            prediction.frames_supplied,
            *scored,
            answer=prediction.answer and sys.intern(prediction.answer),
            termination=prediction.termination and sys.intern(prediction.termination),
            method=sys.intern(prediction.method),
            backbone=sys.intern(prediction.backbone),
            error=prediction.error,
            refusal=refusal,
        )

    def _problem(self, sentence: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(sentence)
