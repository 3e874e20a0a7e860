"""An index of one run file: a few facts about each line and its byte offset, to read the whole line on demand."""

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

MOST_PROBLEMS: Final = 20  # A file that is not a run has a problem in every line


class Score(NamedTuple):
    """The audit of one line."""

    correct: bool | None = None  # None if there was nothing to score, or the line could not be scored
    frames_distinct: int = 0
    frames_inside: int = 0
    density: int = 0


class Entry(NamedTuple):
    """The small values of a line of a run file, and the position of the full line."""

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
    error: str | None  # The method's own error
    refusal: str | None  # Why the line could not be scored


class RunIndex:
    """The lines of one run file by question; if a question has two lines, the later one counts.

    `score` is called with every line as it is read. It returns None if there is nothing to score the line against, and
    raises `FieldError` if the line cannot be scored.
    """

    def __init__(self, path: Path, score: Callable[[Prediction], Score | None] = lambda _: None) -> None:
        self.path: Final = path
        self.is_torn = False
        """Whether the file ends inside a line: it is being written, or its writer was killed."""
        self.generation = 0  # Increases when the lines change
        self._score = score
        self._identity: tuple[int, int] | None = None
        self.size = 0  # Of the file when it was last read
        self._lock = threading.Lock()
        self.transcripts: Final = TranscriptIndex(path)
        self._clear()

    def _clear(self) -> None:
        self.entries: dict[str, Entry] = {}  # The line of each question
        self.problems: list[str] = []  # One sentence for each line that could not be read
        self.problem_count = 0
        self._offset = self._line = 0

    @property
    def key(self) -> str:
        """The name of the run in URLs: its file name without the suffix."""
        return self.path.name.removesuffix(".jsonl")

    def refresh(self, on_progress: Callable[[int, int], None] | None = None) -> bool:
        """Read new lines; returns whether there are any. `on_progress` gets the bytes read and the total."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    identity = (status.st_dev, status.st_ino)
                    if identity == self._identity and status.st_size == self.size:
                        return False
                    if identity != self._identity or status.st_size < self.size:
                        self._clear()
                    self._identity, self.size = identity, status.st_size
                    file.seek(self._offset)
                    self.is_torn = False
                    while raw := file.readline(MAX_LINE_BYTES + 1):
                        if not self._index_line(raw):
                            break
                        if on_progress is not None and self._line % PROGRESS_LINES == 0:
                            on_progress(self._offset, self.size)
            except OSError as error:
                existed = self._identity is not None
                self._clear()
                self._identity = None
                self._add_problem(f"{self.path.name}: cannot be read: {error.strerror}.")
                self.generation += existed
                return existed
            self.generation += 1
            return True

    def read(self, question_id: str) -> Prediction:
        """The whole prediction. Raises `FormatError` if its line is damaged, `KeyError` if there is none."""
        entry = self.entries[question_id]
        with wrap_os_errors(self.path, "read"), self.path.open("rb") as file:
            file.seek(entry.offset)
            raw = file.read(entry.length)
        try:
            prediction = Prediction.from_json(parse_object(raw.removeprefix(BYTE_ORDER_MARK)))
        except (ValueError, FieldError) as error:
            raise FormatError(f"{error}.", path=self.path, line=entry.line) from None
        if prediction.question_id != question_id:
            raise InputError(f"{self.path}: the file was changed while it was read; load the page again.")
        return prediction

    def facts(self) -> Facts:
        """The state of the index, for `restore`."""
        state = [self._identity, self.size, self._offset, self._line]
        problems = [self.problems, self.problem_count, self.is_torn]
        return Facts({"state": state, "problems": problems, "entries": self.entries})

    def restore(self, facts: Facts) -> None:
        """Restore the state that `facts` returned for the unchanged file."""
        with self._lock:
            self.entries = {name: Entry(*entry) for name, entry in facts.values["entries"].items()}
            self.problems, self.problem_count, self.is_torn = facts.values["problems"]
            (device, inode), self.size, self._offset, self._line = facts.values["state"]
            self._identity = (device, inode)
            self.generation += 1

    def _index_line(self, raw: bytes) -> bool:
        """Index one line; returns whether to continue with the next."""
        if len(raw) > MAX_LINE_BYTES:
            self._add_problem(f"{self.path.name}:{self._line + 1}: the line is longer than {MAX_LINE_BYTES} bytes.")
            return False
        is_whole = raw.endswith(b"\n")
        try:
            if raw.strip():
                self._add_entry(raw)
        except (ValueError, FieldError) as error:
            if not is_whole:
                self.is_torn = True
                return False
            self._add_problem(f"{self.path.name}:{self._line + 1}: {error}; the line was left out.")
        if is_whole:
            self._line += 1
            self._offset += len(raw)
        return is_whole

    def _add_entry(self, raw: bytes) -> None:
        text = raw.removeprefix(BYTE_ORDER_MARK) if self._line == 0 else raw
        prediction = Prediction.from_json(parse_object(text))
        name, before = prediction.question_id, self.entries.get(prediction.question_id)
        if before is not None and before.offset != self._offset:
            problem = f"question {name[:60]!r} is also in line {before.line}"
            self._add_problem(f"{self.path.name}:{self._line + 1}: {problem}.")
        if prediction.frames_supplied > sys.float_info.max:
            raise FieldError("'frames_supplied' is too large a number")
        score, refusal = Score(), None
        try:
            score = self._score(prediction) or score
        except FieldError as error:
            refusal = str(error)
        self.entries[sys.intern(name)] = Entry(
            self._line + 1,
            self._offset,
            len(raw),
            prediction.frames_supplied,
            *score,
            answer=prediction.answer and sys.intern(prediction.answer),
            termination=prediction.termination and sys.intern(prediction.termination),
            method=sys.intern(prediction.method),
            backbone=sys.intern(prediction.backbone),
            error=prediction.error,
            refusal=refusal,
        )

    def _add_problem(self, sentence: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(sentence)
