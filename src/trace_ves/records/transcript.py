"""Transcripts: the rendered prompt and raw replies of each call of a question.

A run stores them in `METHOD@BACKBONE.transcripts`, one line per question; a saved answer in `transcript.json`. Frames
are not stored: a call has the timestamps of its clips, and the line of the run has the checksum of the video. Long
texts are shortened, and keys are masked before a record is made.
"""

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import model_validator

from trace_ves.core.errors import FormatError, InputError, wrap_os_errors
from trace_ves.core.jsonl import MAX_LINE_BYTES, JsonlAppender, parse_object
from trace_ves.records.base import Count, FieldError, Flag, Name, SparseRecord
from trace_ves.records.prediction import ClipRecord

_LOG: Final = logging.getLogger(__name__)

TRANSCRIPT: Final = "transcript.json"  # The transcript in the folder of a saved answer

LONGEST_TEXT_CHARS: Final = 100_000  # Longer prompts and replies are cut; no stage needs as much
MOST_CHARS: Final = 2_000_000  # For all texts of one question; those of later calls are cut or left out
MOST_SEARCHED_BYTES: Final = 256 * 1024**2  # A search reads only the beginning of a file


@dataclass(frozen=True, slots=True)
class ModelText(SparseRecord):
    """The raw text of a model in one attempt."""

    text: str
    problem: str | None = None
    """Why the text was invalid; absent if it became the reply."""
    chars: Count | None = None
    """The full length of a text that is cut here."""


@dataclass(frozen=True, slots=True)
class CallTranscript(SparseRecord):
    """One call: its prompt, its clips, and the texts of the model."""

    stage: str
    prompt: Count
    """The index of the rendered prompt in the transcript's `prompts`; calls of one batch often share one."""
    clips: tuple[ClipRecord, ...] = ()
    """The visual input, in the order in which the model saw it: spans and timestamps, no pixels."""
    replies: tuple[ModelText, ...] = ()
    """One text, or two if the first was invalid and the model was asked again."""
    raw: Flag = True
    """False if the reply is not the raw text of a model: replies of rules or of the response cache are JSON."""


@dataclass(frozen=True, slots=True)
class Transcript(SparseRecord):
    """All calls of one question, in the order of `observations` in its run line."""

    question_id: Name
    prompts: tuple[str, ...] = ()
    calls: tuple[CallTranscript, ...] = ()
    backbone: str | None = None
    """The model that answered, without its address; not in files of version 0.1.0."""

    def prompt_of(self, call: CallTranscript) -> str:
        """The rendered prompt of a call."""
        return self.prompts[call.prompt]

    @model_validator(mode="after")
    def _check_prompts(self) -> Self:
        if any(call.prompt >= len(self.prompts) for call in self.calls):
            raise ValueError("names a prompt that is not there")
        return self


@dataclass(frozen=True, slots=True)
class CallTexts:
    """The full texts of one call, before they become part of a transcript."""

    stage: str
    prompt: str
    clips: tuple[ClipRecord, ...] = ()
    replies: tuple[ModelText, ...] = ()
    raw: bool = True


def make_transcript(question_id: str, calls: Sequence[CallTexts], backbone: str | None = None) -> Transcript:
    """The transcript of a question's calls. Long texts are cut, and equal prompts are stored once."""
    prompts: dict[str, int] = {}
    room = MOST_CHARS
    transcripts = []
    for call in calls:
        if call.prompt not in prompts:
            room -= min(len(call.prompt), LONGEST_TEXT_CHARS)
        place = prompts.setdefault(call.prompt if room >= 0 else "", len(prompts))
        replies = []
        for reply in call.replies:
            longest = min(LONGEST_TEXT_CHARS, max(room, 0))
            room -= min(len(reply.text), longest)
            is_cut = len(reply.text) > longest
            replies.append(ModelText(reply.text[:longest], reply.problem, len(reply.text)) if is_cut else reply)
        transcripts.append(CallTranscript(call.stage, place, call.clips, tuple(replies), call.raw))
    return Transcript(question_id, tuple(text[:LONGEST_TEXT_CHARS] for text in prompts), tuple(transcripts), backbone)


# --- the transcripts of a run -------------------------------------------------------------------


def transcripts_path(run: Path) -> Path:
    """The path of the transcripts of a run file."""
    return run.with_name(run.name.removesuffix(".jsonl") + ".transcripts")


class TranscriptFile:
    """The transcripts of a run, written line by line. A failure to write is logged and never stops the run."""

    def __init__(self, run: Path) -> None:
        self.path: Final = transcripts_path(run)
        self._appender: JsonlAppender | None = None
        self._stopped = False

    def append(self, transcript: Transcript) -> None:
        """Write one line. If a question is asked again, its last line counts."""
        if self._stopped:
            return
        try:
            self._appender = self._appender or JsonlAppender(self.path)
            self._appender.append(transcript.to_json())
        except InputError as error:
            self._stopped = True
            _LOG.warning("%s: no more transcripts are kept (%s); the run continues without them.", self.path, error)

    def close(self) -> None:
        """Close the file."""
        if self._appender is not None:
            self._appender.close()


class TranscriptIndex:
    """Reads single transcripts of a run on request. The file may grow, and it may be missing."""

    def __init__(self, run: Path) -> None:
        self.path: Final = transcripts_path(run)
        self._places: dict[str, tuple[int, int]] = {}
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._lock = threading.Lock()

    def read(self, question_id: str) -> Transcript | None:
        """The transcript of a question, or None. Raises `FormatError` for a damaged line."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    file.seek(self._start(os.fstat(file.fileno())))
                    while (raw := file.readline(MAX_LINE_BYTES + 1)).endswith(b"\n"):
                        if (name := _question_id(raw)) is not None:
                            self._places[name] = (self._offset, len(raw))
                        self._offset += len(raw)
                    if question_id not in self._places:
                        return None
                    offset, length = self._places[question_id]
                    file.seek(offset)
                    raw = file.read(length)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise InputError(f"{self.path}: cannot be read: {error.strerror}.") from None
        try:
            return Transcript.from_json(parse_object(raw))
        except (ValueError, FieldError) as error:
            raise FormatError(f"the transcript of {question_id!r}: {error}.", path=self.path) from None

    def search(self, words: Sequence[str]) -> set[str]:
        """The questions whose prompts and replies contain all of these words, ignoring case."""
        matches: dict[str, bool] = {}
        try:
            with self.path.open("rb") as file:
                while (raw := file.readline(MAX_LINE_BYTES + 1)).endswith(b"\n") and file.tell() <= MOST_SEARCHED_BYTES:
                    text = raw.decode("utf-8", "replace").casefold()
                    if (name := _question_id(raw)) is not None:
                        matches[name] = all(word in text for word in words)  # the last line of a question counts
        except OSError:
            return set()
        return {name for name, is_match in matches.items() if is_match}

    def _start(self, status: os.stat_result) -> int:
        """The offset to continue reading from: the start if the file was replaced or cut."""
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._offset:
            self._places, self._offset = {}, 0
        self._identity = identity
        return self._offset


def _question_id(raw: bytes) -> str | None:
    """The question of a line. Its key comes first, so the rest of the line is usually not parsed."""
    for part in (raw[: raw.find(b'", "')] + b'"}', raw):
        try:
            name = parse_object(part).get("question_id")
        except ValueError:
            continue
        if isinstance(name, str):
            return name
    return None


def read_transcript(run: Path | str, question_id: str) -> Transcript | None:
    """The transcript of one question of a run file; None for a run without transcripts."""
    return TranscriptIndex(Path(run)).read(question_id)


def read_saved_transcript(folder: Path) -> Transcript | None:
    """The transcript in a folder that `ask --save` wrote; None if there is none."""
    path = folder / TRANSCRIPT
    return read_recording(path)[0] if path.exists() else None


def read_recording(path: Path) -> list[Transcript]:
    """The transcripts in a file: one as JSON, or one on each line. Raises `FormatError`."""
    with wrap_os_errors(path, "read"):
        raw = path.read_bytes()
    lines = [raw] if raw.lstrip()[1:2].isspace() else raw.splitlines()  # a line break after the brace: indented JSON
    transcripts = []
    for number, line in enumerate(lines, 1):
        try:
            transcripts.append(Transcript.from_json(parse_object(line)))
        except (ValueError, FieldError) as error:
            message = f"{error}; it is not what --record or --save wrote."
            raise FormatError(message, path=path, line=number if len(lines) > 1 else None) from None
    if not transcripts:
        raise FormatError("is empty; it is not what --record or --save wrote.", path=path)
    return transcripts
