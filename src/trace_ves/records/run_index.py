"""One run file, indexed by byte offset: the light parts of its lines in memory, a whole line read when asked for.

The file may grow, lose its torn tail or be replaced at any time; `refresh` follows it.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.core import FormatError, InputError
from trace_ves.core.jsonl import MAX_LINE_BYTES
from trace_ves.core.strict_json import parse_object
from trace_ves.records import Prediction
from trace_ves.records.record import FieldError
from trace_ves.records.skim import skim
from trace_ves.records.transcript import TranscriptIndex

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trace_ves.records.transcript import Transcript

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
MOST_PROBLEMS: Final = 20
"""A file that is no run at all would otherwise fill the page."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A prediction without its heavy parts, and where the whole of it stands."""

    prediction: Prediction
    line: int
    offset: int
    length: int


class RunIndex:
    """The lines of one run file by question; where a question stands twice, the later line counts."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.entries: dict[str, Entry] = {}
        self.problems: list[str] = []
        """What could not be read, one sentence each."""
        self.problem_count = 0
        self.is_torn = False
        """Whether the file ends inside a line: it is being written, or its writer was killed."""
        self.generation = 0
        """Grows whenever the lines change."""
        self._identity: tuple[int, int] | None = None
        self._size = 0
        self._offset = 0
        self._line = 0
        self._lock = threading.Lock()
        self.transcripts: Final = TranscriptIndex(path)
        """What was said in the calls of each question, where the run kept it."""

    @property
    def key(self) -> str:
        """What the run is called in addresses: its file name without the ending."""
        return self.path.name.removesuffix(".jsonl")

    def refresh(self) -> bool:
        """Read what is new in the file; says whether anything is."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    identity = (status.st_dev, status.st_ino)
                    if identity == self._identity and status.st_size == self._size:
                        return False
                    if identity != self._identity or status.st_size < self._size:
                        self._forget()
                    self._identity, self._size = identity, status.st_size
                    file.seek(self._offset)
                    self.is_torn = False
                    while raw := file.readline(MAX_LINE_BYTES + 1):
                        if not self._take(raw):
                            break
            except OSError as error:
                return self._lost(error)
            self.generation += 1
            return True

    def read(self, question_id: str) -> Prediction:
        """The whole prediction; a `FormatError` where its line is damaged, a `KeyError` where there is none."""
        entry = self.entries[question_id]
        try:
            with self.path.open("rb") as file:
                file.seek(entry.offset)
                raw = file.read(entry.length)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror}.") from None
        try:
            found = Prediction.from_json(parse_object(raw.removeprefix(BYTE_ORDER_MARK)))
        except (ValueError, FieldError) as error:
            raise FormatError(f"{error}.", path=self.path, line=entry.line) from None
        if found.question_id != question_id:
            raise InputError(f"{self.path}: the file was changed while it was read; load the page again.")
        return found

    def transcript(self, question_id: str) -> Transcript | None:
        """The rendered prompt and the raw replies of each call of a question; None where the run kept none.

        `transcript.calls` stand in the order of `observations` of the whole prediction (`read`), one for each;
        `transcript.prompt_of(call)` is the prompt as the model read it after the frames of `call.clips`, and
        `call.replies` what the model said: a reply with a `problem` could not be used. All of it is a stranger's text.
        A damaged line is a `FormatError`. Whoever may only read certain folders checks `transcripts.path` first.
        """
        return self.transcripts.read(question_id)

    def _forget(self) -> None:
        self.entries = {}
        self.problems, self.problem_count = [], 0
        self._offset = self._line = 0

    def _lost(self, error: OSError) -> bool:
        was_there = self._identity is not None
        self._forget()
        self._identity = None
        self._problem(f"{self.path.name}: cannot be read: {error.strerror}.")
        self.generation += was_there
        return was_there

    def _take(self, raw: bytes) -> bool:
        """Index one line; says whether to go on to the next."""
        if len(raw) > MAX_LINE_BYTES:
            self._problem(f"{self.path.name}:{self._line + 1}: the line is longer than {MAX_LINE_BYTES} bytes.")
            return False
        whole = raw.endswith(b"\n")
        try:
            if raw.strip():
                self._add(raw, skim if whole else parse_object)
        except (ValueError, FieldError) as error:
            if not whole:
                self.is_torn = True
                return False
            self._problem(f"{self.path.name}:{self._line + 1}: {error}; the line was left out.")
        if whole:
            self._line += 1
            self._offset += len(raw)
        return whole

    def _add(self, raw: bytes, parse: Callable[[bytes], dict[str, object]]) -> None:
        prediction = Prediction.from_json(parse(raw.removeprefix(BYTE_ORDER_MARK) if self._line == 0 else raw))
        before = self.entries.get(prediction.question_id)
        if before is not None and before.offset != self._offset:
            name = prediction.question_id[:60]
            self._problem(f"{self.path.name}:{self._line + 1}: question {name!r} stood in line {before.line} already.")
        self.entries[prediction.question_id] = Entry(prediction, self._line + 1, self._offset, len(raw))

    def _problem(self, sentence: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(sentence)
