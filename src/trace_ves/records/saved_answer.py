"""What `ask --save` and `ask --json` write: the question, its answer in words, and the line of a run file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from trace_ves.core.errors import FormatError, InputError
from trace_ves.core.jsonl import parse_object
from trace_ves.core.question import Question
from trace_ves.records.disk_cache import Checksum
from trace_ves.records.prediction import Prediction
from trace_ves.records.record import FieldError, Flag, JsonObject, Name, Number, OpenRecord
from trace_ves.records.transcript import Transcript

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

TRANSCRIPT: Final = "transcript.json"
"""What was said in the calls of a saved answer, beside its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer(OpenRecord):
    """One question and its answer; the keys of a run line stand beside these."""

    nulls: ClassVar[frozenset[str]] = frozenset({"text"})

    video: str
    """Where the video lay."""
    duration: Number
    """Seconds of the video."""
    question: str
    options: tuple[str, ...]
    """Empty for an open question."""
    text: str | None = None
    """The answer in words."""
    stable: Flag = False
    """Whether a stable prefix was found and confirmed by replay."""
    video_checksum: Checksum | None = None
    """Of the video; version 0.1.0 did not note it."""
    question_id: Name
    extra: JsonObject = field(default_factory=dict)
    """The keys of the run line."""

    @classmethod
    def of(cls, question: Question, duration: float, prediction: Prediction, *, text: str | None, stable: bool) -> Self:
        """The record of one answer."""
        line = prediction.to_json()
        return cls(
            video=question.video,
            duration=duration,
            question=question.text,
            options=question.options,
            text=text,
            stable=stable,
            video_checksum=prediction.video_checksum,
            question_id=prediction.question_id,
            extra={key: value for key, value in line.items() if key not in {"question_id", "video"}},
        )

    @property
    def asked(self) -> Question:
        """The question as a method saw it."""
        return Question(self.question_id, self.video, self.question, self.options)

    @property
    def prediction(self) -> Prediction:
        """The line of a run file."""
        noted = {} if self.video_checksum is None else {"video": self.video_checksum.to_json()}
        return Prediction.from_json({**self.extra, "question_id": self.question_id, **noted})


def read_saved_transcript(folder: Path) -> Transcript | None:
    """What was said in the calls of the answer that `ask --save` wrote into a folder; None where it was left out."""
    path = folder / TRANSCRIPT
    try:
        return Transcript.from_json(parse_object(path.read_bytes()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except (ValueError, FieldError) as error:
        raise FormatError(f"{error}; it is not what ask --save wrote.", path=path) from None
