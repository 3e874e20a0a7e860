"""What was said in the calls of a question: each rendered prompt and each raw reply of the model.

A run has them in a sidecar, `METHOD@BACKBONE.transcripts`, a line for each question; a saved answer has one
in `transcript.json`. Frames are not stored again: a call names its clips and the timestamps of their frames, and the
line of the run has the checksum of the video. Texts are bounded, and keys are masked before a record is made.
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

TRANSCRIPT: Final = "transcript.json"  # What was said in the calls of a saved answer, beside its record

LONGEST_TEXT_CHARS: Final = 100_000  # A prompt or a reply beyond this is cut; no stage writes as much
MOST_CHARS: Final = 2_000_000  # Texts of one question; what a question says beyond is left out, call by call
MOST_SEARCHED_BYTES: Final = 256 * 1024**2  # A search reads the beginning of a sidecar


@dataclass(frozen=True, slots=True)
class ModelText(SparseRecord):
    """What a model said in one attempt, as it said it."""

    text: str
    problem: str | None = None
    """What was wrong with it; absent where it became the reply."""
    chars: Count | None = None
    """How long it was, where it is cut here."""


@dataclass(frozen=True, slots=True)
class CallTranscript(SparseRecord):
    """One call: where its prompt is, the clips that came before the words, and what the model said."""

    stage: str
    prompt: Count
    """The place of the rendered prompt among the transcript's `prompts`; calls of one batch often share theirs."""
    clips: tuple[ClipRecord, ...] = ()
    """The visual input, in the order in which the model saw it: spans and timestamps, no pixels."""
    replies: tuple[ModelText, ...] = ()
    """One text, or two where the first could not be used and the model was asked again."""
    raw: Flag = True
    """False where there is no text of a model: a reply by rules, or from the response cache, is shown as JSON."""


@dataclass(frozen=True, slots=True)
class Transcript(SparseRecord):
    """All calls of one question, in the order of `observations` in its run line."""

    question_id: Name
    prompts: tuple[str, ...] = ()
    calls: tuple[CallTranscript, ...] = ()
    backbone: str | None = None
    """The model that answered, without its address; version 0.1.0 did not say."""

    def prompt_of(self, call: CallTranscript) -> str:
        """The rendered prompt of a call."""
        return self.prompts[call.prompt]

    @model_validator(mode="after")
    def _prompts_are_there(self) -> Self:
        if any(call.prompt >= len(self.prompts) for call in self.calls):
            raise ValueError("names a prompt that is not there")
        return self


@dataclass(frozen=True, slots=True)
class SpokenCall:
    """A call as it was made, before its texts are bounded and put in one place."""

    stage: str
    prompt: str
    clips: tuple[ClipRecord, ...] = ()
    replies: tuple[ModelText, ...] = ()
    raw: bool = True


def make_transcript(question_id: str, calls: Sequence[SpokenCall], backbone: str | None = None) -> Transcript:
    """The record of a question's calls; texts that are too long are cut, each prompt is kept once."""
    prompts: dict[str, int] = {}
    left = MOST_CHARS
    kept = []
    for call in calls:
        if call.prompt not in prompts:
            left -= min(len(call.prompt), LONGEST_TEXT_CHARS)
        place = prompts.setdefault(call.prompt if left >= 0 else "", len(prompts))
        replies = []
        for reply in call.replies:
            allowed = min(LONGEST_TEXT_CHARS, max(left, 0))
            left -= min(len(reply.text), allowed)
            cut = len(reply.text) > allowed
            replies.append(ModelText(reply.text[:allowed], reply.problem, len(reply.text)) if cut else reply)
        kept.append(CallTranscript(call.stage, place, call.clips, tuple(replies), call.raw))
    return Transcript(question_id, tuple(text[:LONGEST_TEXT_CHARS] for text in prompts), tuple(kept), backbone)


# --- the sidecar of a run -----------------------------------------------------------------------


def transcripts_path(run: Path) -> Path:
    """The path of the transcripts of a run file."""
    return run.with_name(run.name.removesuffix(".jsonl") + ".transcripts")


class TranscriptFile:
    """The sidecar that grows with a run. It is made with its first line; trouble with it never stops the run."""

    def __init__(self, run: Path) -> None:
        self.path: Final = transcripts_path(run)
        self._appender: JsonlAppender | None = None
        self._stopped = False

    def append(self, transcript: Transcript) -> None:
        """Write one line. A question that is asked again gets another; the last one counts."""
        if self._stopped:
            return
        try:
            self._appender = self._appender or JsonlAppender(self.path)
            self._appender.append(transcript.to_json())
        except InputError as error:
            self._stopped = True
            _LOG.warning("%s: no more transcripts are kept (%s); the run continues without them.", self.path, error)

    def close(self) -> None:
        """Let go of the file."""
        if self._appender is not None:
            self._appender.close()


class TranscriptIndex:
    """Reads the sidecar of a run, line by line on request; it may grow meanwhile, or not be there at all."""

    def __init__(self, run: Path) -> None:
        self.path: Final = transcripts_path(run)
        self._places: dict[str, tuple[int, int]] = {}
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._lock = threading.Lock()

    def read(self, question_id: str) -> Transcript | None:
        """The transcript of a question; None where there is none. A damaged line is a `FormatError`."""
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
        """The questions in whose prompts and replies all of these words occur, whatever their case."""
        found: dict[str, bool] = {}
        try:
            with self.path.open("rb") as file:
                while (raw := file.readline(MAX_LINE_BYTES + 1)).endswith(b"\n") and file.tell() <= MOST_SEARCHED_BYTES:
                    text = raw.decode("utf-8", "replace").casefold()
                    if (name := _question_id(raw)) is not None:
                        found[name] = all(word in text for word in words)  # the last line of a question counts
        except OSError:
            return set()
        return {name for name, is_match in found.items() if is_match}

    def _start(self, status: os.stat_result) -> int:
        """Where the last reading ended; the beginning of a file that was replaced or cut meanwhile."""
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._offset:
            self._places, self._offset = {}, 0
        self._identity = identity
        return self._offset


def _question_id(raw: bytes) -> str | None:
    """The question that a line is about; it comes first, so that the rest need not be parsed."""
    for part in (raw[: raw.find(b'", "')] + b'"}', raw):
        try:
            name = parse_object(part).get("question_id")
        except ValueError:
            continue
        if isinstance(name, str):
            return name
    return None


def read_transcript(run: Path, question_id: str) -> Transcript | None:
    """What was said in the calls of one question of a run file; None for a run without transcripts."""
    return TranscriptIndex(run).read(question_id)


def read_saved_transcript(folder: Path) -> Transcript | None:
    """What was said in the calls of the answer that `ask --save` wrote into a folder; None where it was left out."""
    path = folder / TRANSCRIPT
    return read_recording(path)[0] if path.exists() else None


def read_recording(path: Path) -> list[Transcript]:
    """The transcripts in a file: one as JSON, or one on each line. A damaged file is a `FormatError`."""
    with wrap_os_errors(path, "read"):
        raw = path.read_bytes()
    lines = [raw] if raw.lstrip()[1:2].isspace() else raw.splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Transcript.from_json(parse_object(line)))
        except (ValueError, FieldError) as error:
            message = f"{error}; it is not what --record or --save wrote."
            raise FormatError(message, path=path, line=number if len(lines) > 1 else None) from None
    if not found:
        raise FormatError("is empty; it is not what --record or --save wrote.", path=path)
    return found
