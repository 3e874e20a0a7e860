"""One run file, indexed by byte offset: a few numbers of each line in memory, a whole line read when asked for.

The file may grow, lose its torn tail or be replaced at any time; `refresh` follows it.
"""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from trace_ves.core import FormatError, InputError
from trace_ves.core.jsonl import MAX_LINE_BYTES, PROGRESS_LINES, parse_object
from trace_ves.records import Prediction
from trace_ves.records.disk_cache import Facts
from trace_ves.records.record import FieldError
from trace_ves.records.transcript import TranscriptIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trace_ves.records.transcript import Transcript

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
MOST_PROBLEMS: Final = 20
"""A file that is no run at all would otherwise fill the page."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A prediction without its heavy parts, its timestamps among them, and where the whole of it stands."""

    prediction: Prediction
    line: int
    offset: int
    length: int


class Score(NamedTuple):
    """The audit of one line."""

    correct: bool
    frames_distinct: int
    frames_inside: int
    density: int


NOT_SCORED: Final = -1
"""In the column `correct`: there was nothing to score, or it could not be."""


class RunIndex:
    """The lines of one run file by question; where a question stands twice, the later line counts.

    `score` is asked about every line as it is read, while its timestamps are at hand; a `FieldError` says why a line
    cannot be scored, None that there is nothing to score it against.
    """

    def __init__(self, path: Path, score: Callable[[Prediction], Score | None] = lambda _: None) -> None:
        self.path: Final = path
        self.problems: list[str] = []
        """What could not be read, one sentence each."""
        self.problem_count = 0
        self.is_torn = False
        """Whether the file ends inside a line: it is being written, or its writer was killed."""
        self.generation = 0
        """Grows whenever the lines change."""
        self.places: dict[str, int] = {}
        """The place of each question's line in the columns."""
        self.columns = Columns()
        self.entries: Final = Entries(self)
        self._score = score
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

    def refresh(self, on_progress: Callable[[int, int], None] | None = None) -> bool:
        """Read what is new in the file; says whether anything is. `on_progress` hears of bytes read and in all."""
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
                        if on_progress is not None and self._line % PROGRESS_LINES == 0:
                            on_progress(self._offset, self._size)
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

    def facts(self) -> Facts:
        """What `restore` makes the same index of, as long as the file stays as it is."""
        columns = self.columns
        values = {
            "state": [self._identity, self._size, self._offset, self._line],
            "names": list(self.places),
            "words": columns.words,
            "errors": list(columns.errors.items()),
            "refusals": list(columns.refusals.items()),
            "problems": [self.problems, self.problem_count, self.is_torn],
        }
        return Facts(values, {name: np.array(getattr(columns, name)) for name in _COLUMNS})

    def restore(self, facts: Facts) -> None:
        """Take over what `facts` gave for the same state of the file."""
        values = facts.values
        with self._lock:
            self.places = {sys.intern(name): at for at, name in enumerate(values["names"])}
            self.columns = Columns()
            for name in _COLUMNS:
                getattr(self.columns, name).frombytes(facts.columns[name].tobytes())
            for word in values["words"]:
                self.columns.encode(word)
            self.columns.errors, self.columns.refusals = dict(values["errors"]), dict(values["refusals"])
            self.problems, self.problem_count, self.is_torn = values["problems"]
            identity, self._size, self._offset, self._line = values["state"]
            self._identity = tuple(identity)
            self.generation += 1

    def _forget(self) -> None:
        self.places, self.columns = {}, Columns()
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
        name, columns = prediction.question_id, self.columns
        before = self.places.get(name)
        if before is not None and columns.offset[before] != self._offset:
            stood = columns.line[before]
            self._problem(f"{self.path.name}:{self._line + 1}: question {name[:60]!r} stood in line {stood} already.")
        refusal: str | None = None
        try:
            score = self._score(prediction)
        except FieldError as error:
            score, refusal = None, str(error)
        self.places.setdefault(sys.intern(name), len(self.places))
        columns.put(self.places[name], prediction, score, refusal, (self._line + 1, self._offset, len(raw)))

    def _problem(self, sentence: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(sentence)


class Columns:
    """What is kept of the lines, a column for each number."""

    def __init__(self) -> None:
        self.line = array("q")
        self.offset = array("q")
        self.length = array("q")
        self.frames_supplied = array("d")
        self.answer = array("i")
        self.termination = array("i")
        self.method = array("i")
        self.backbone = array("i")
        self.correct = array("b")
        self.frames_distinct = array("q")
        self.frames_inside = array("q")
        self.density = array("q")
        self.words: list[str | None] = []
        """Answers, terminations, methods and backbones; their places here stand for them in the columns."""
        self._codes: dict[str | None, int] = {}
        self._all: tuple[array[Any], ...] = tuple(getattr(self, name) for name in _COLUMNS)
        self.errors: dict[int, str] = {}
        """The errors of the method's own, by place."""
        self.refusals: dict[int, str] = {}
        """Why lines could not be scored, by place."""

    def put(
        self, at: int, line: Prediction, score: Score | None, refusal: str | None, place: tuple[int, int, int]
    ) -> None:
        """Keep a line at a place that is there already, or at the next one."""
        if line.frames_supplied > sys.float_info.max:
            raise FieldError("'frames_supplied' is too large a number")
        codes = [self.encode(word) for word in (line.answer, line.termination, line.method, line.backbone)]
        scored = (NOT_SCORED, 0, 0, 0) if score is None else (int(score.correct), *score[1:])
        for column, value in zip(self._all, (*place, line.frames_supplied, *codes, *scored), strict=True):
            if at == len(column):
                column.append(value)
            else:
                column[at] = value
        for sentences, sentence in ((self.errors, line.error), (self.refusals, refusal)):
            sentences.pop(at, None)
            if sentence is not None:
                sentences[at] = sentence

    def encode(self, word: str | None) -> int:
        """The place of a word in `words`, where it is put if it is new."""
        code = self._codes.setdefault(word, len(self.words))
        if code == len(self.words):
            self.words.append(word)
        return code


_COLUMNS: Final = (
    *("line", "offset", "length", "frames_supplied"),
    *("answer", "termination", "method", "backbone"),
    *("correct", "frames_distinct", "frames_inside", "density"),
)


class Entries(Mapping[str, Entry]):
    """The lines of an index by question, each made when it is asked for."""

    def __init__(self, index: RunIndex) -> None:
        self._index = index

    def __getitem__(self, question_id: str) -> Entry:
        at = self._index.places[question_id]
        found = self._index.columns
        words = found.words
        line = Prediction(
            question_id,
            words[found.answer[at]],
            (),
            int(found.frames_supplied[at]),
            words[found.method[at]] or "",
            words[found.backbone[at]] or "",
            words[found.termination[at]],
            error=found.errors.get(at),
        )
        return Entry(line, found.line[at], found.offset[at], found.length[at])

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.places)

    def __len__(self) -> int:
        return len(self._index.places)
