"""Answers in files: the lines of a run file, and the record that `ask --save` writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self

from pydantic import ConfigDict, Field, model_serializer, model_validator

from trace_ves.core.observation import ObservationStrategy
from trace_ves.core.question import Question
from trace_ves.records.base import (
    Count,
    FieldError,
    Flag,
    JsonObject,
    Name,
    Number,
    Numbers,
    OpenRecord,
    Record,
    Span,
    add_description,
    gather_extra,
    hide_extra,
)
from trace_ves.records.calls import Call, ObservationLog, Usage
from trace_ves.records.disk_cache import Checksum

if TYPE_CHECKING:
    from trace_ves.core import Answer, Clip


@dataclass(frozen=True, slots=True)
class ClipRecord(Record):
    """A clip in a file: its span and the timestamps of its frames, without the pixels."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False, extra="forbid", json_schema_extra=add_description)

    span: Span
    fps: Annotated[Number, Field(gt=0)]
    height: Annotated[Count, Field(gt=0)]
    timestamps: Numbers

    @classmethod
    def of(cls, clip: Clip) -> ClipRecord:
        """The record of a clip."""
        timestamps = tuple(frame.seconds for frame in clip.frames)
        return cls(clip.span, clip.strategy.fps, clip.strategy.height, timestamps)

    @property
    def strategy(self) -> ObservationStrategy:
        """How closely the span was looked at."""
        return ObservationStrategy(self.fps, self.height)


RecordedClip = Annotated[ClipRecord | JsonObject, Field(union_mode="left_to_right")]
"""A clip of an answer's bundle; an object of another shape, written by another program, stays unchanged."""


@dataclass(frozen=True, slots=True)
class Prediction(Record):
    """One line of a run file. Other programs need to write only the first four fields."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False, json_schema_extra=hide_extra)

    question_id: Name
    answer: str | None
    timestamps: Numbers = ()
    frames_supplied: Count = 0
    method: str = ""
    backbone: str = ""
    termination: str | None = None
    observations: tuple[Call, ...] = ()
    trajectory: JsonObject = field(default_factory=dict)
    """The method's record of its search; `records.search` reads those of the built-in methods."""
    bundle: tuple[RecordedClip, ...] = ()
    """The clips that support the answer."""
    usage: Usage = Usage()
    seconds: Number = 0.0
    error: str | None = None
    undetermined: Flag = False
    """Whether the answer was drawn among equally good options. Only glance and lab report this."""
    extra: JsonObject = field(default_factory=dict)
    """Unknown keys, unchanged."""

    @classmethod
    def of(
        cls, question: Question, answer: Answer, log: ObservationLog, *, method: str, backbone: str, seconds: float
    ) -> Prediction:
        """The line for an answer and the observer's log of its calls."""
        return cls(
            question_id=question.id,
            answer=answer.option,
            timestamps=log.timestamps,
            frames_supplied=log.frames_supplied,
            method=method,
            backbone=backbone,
            termination=answer.termination,
            observations=log.calls,
            trajectory=answer.record,
            bundle=tuple(ClipRecord.of(clip) for clip in answer.bundle),
            usage=log.usage,
            seconds=seconds,
            undetermined=answer.option is not None and bool(log.calls and log.calls[-1].undetermined),
        )

    def summary(self) -> Prediction:
        """The line without its frames and its search; the calls keep their cost."""
        calls = tuple(replace(call, timestamps=(), heights=()) for call in self.observations)
        return replace(self, timestamps=(), observations=calls, trajectory={}, bundle=(), extra={})

    @property
    def video_checksum(self) -> Checksum | None:
        """The checksum of the video, if the run recorded it."""
        try:
            return Checksum.from_json(self.extra.get("video"))
        except FieldError:
            return None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, line: Any) -> Any:
        """Move unknown keys into `extra`; without `frames_supplied`, count every timestamp as one frame."""
        if not isinstance(line, dict):
            return line
        if "timestamps" not in line:
            raise ValueError("the key 'timestamps' is missing")
        values = gather_extra(cls, line)
        if "frames_supplied" not in line and isinstance(line["timestamps"], list):
            return values | {"frames_supplied": len(line["timestamps"])}
        return values

    @model_serializer(mode="wrap")
    def _write(self, write: Callable[[Prediction], dict[str, object]]) -> dict[str, object]:
        """Leave out empty values, except those that every line has."""
        line = write(self)
        del line["extra"]
        if self.usage == Usage():
            del line["usage"]
        return {key: value for key, value in line.items() if value or key in _REQUIRED_KEYS} | dict(self.extra)


_REQUIRED_KEYS: Final = frozenset({"question_id", "answer", "timestamps", "frames_supplied"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer(OpenRecord):
    """One question and its answer, together with the keys of a run line."""

    nulls: ClassVar[frozenset[str]] = frozenset({"text"})

    video: str
    """The path of the video."""
    duration: Number
    """Seconds of the video."""
    question: str
    options: tuple[str, ...]
    """Empty for an open question."""
    text: str | None = None
    """The answer as text."""
    stable: Flag = False
    """Whether a stable prefix was found and confirmed by replay."""
    video_checksum: Checksum | None = None
    """The checksum of the video; not in files of version 0.1.0."""
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
        video = {} if self.video_checksum is None else {"video": self.video_checksum.to_json()}
        return Prediction.from_json({**self.extra, "question_id": self.question_id, **video})
