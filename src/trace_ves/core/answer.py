"""What a method gives back, and the line of a run file that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trace_ves.core.fields import (
    as_count,
    as_list,
    as_name,
    as_number,
    as_numbers,
    as_optional_text,
    as_record,
    as_text,
    each,
    require,
)
from trace_ves.core.observation import Call, ObservationLog, Usage, usage_from_json, usage_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.core.observation import Clip
    from trace_ves.core.question import Question


class Termination(StrEnum):
    """How a method came to its end."""

    STABLE_PREFIX_FOUND = "stable-prefix-found"
    """The answer was stable as evidence grew, and a replay over the same clips agreed."""
    NO_STABLE_PREFIX = "no-stable-prefix"
    """A forced answer; sufficiency is not claimed."""
    SINGLE_PASS = "single-pass"
    """The method looks once and claims nothing about stopping."""
    SELF_REPORTED = "self-reported"
    """The model itself said that it had seen enough."""
    EXHAUSTED = "exhausted"
    """Rounds, steps or budget ran out, and the method answered from what it had."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method gives back for one question."""

    option: str | None
    """The letter of an option, or the words of an open answer. None is "no answer": scored wrong, never guessed."""
    termination: Termination = Termination.SINGLE_PASS
    bundle: tuple[Clip, ...] = ()
    """The raw clips that the answer rests on."""
    record: Mapping[str, object] = field(default_factory=dict)
    """The method's own account of its search, ready for JSON; stands under `trajectory` in a run file."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One line of a run file. The first four fields are all that an outsider must write."""

    question_id: str
    answer: str | None
    timestamps: tuple[float, ...] = ()
    frames_supplied: int = 0
    method: str = ""
    backbone: str = ""
    termination: str | None = None
    observations: tuple[Call, ...] = ()
    trajectory: Mapping[str, object] = field(default_factory=dict)
    bundle: tuple[Mapping[str, object], ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    error: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    """Keys that this package does not know, kept as they were."""

    @classmethod
    def of(
        cls, question: Question, answer: Answer, log: ObservationLog, *, method: str, backbone: str, seconds: float
    ) -> Prediction:
        """What a method answered and what the observer saw it look at, as one line of a run file."""
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
            bundle=tuple(clip_to_json(clip) for clip in answer.bundle),
            usage=log.usage,
            seconds=seconds,
        )

    def to_json(self) -> dict[str, object]:
        """The prediction as it stands in a run file; what a plain outsider's line lacks is left out."""
        record: dict[str, object] = {
            "question_id": self.question_id,
            "answer": self.answer,
            "timestamps": list(self.timestamps),
            "frames_supplied": self.frames_supplied,
        }
        optional: dict[str, object] = {
            "method": self.method,
            "backbone": self.backbone,
            "termination": self.termination,
            "observations": [call.to_json() for call in self.observations],
            "trajectory": dict(self.trajectory),
            "bundle": [dict(clip) for clip in self.bundle],
            "usage": usage_to_json(self.usage) if self.usage != Usage() else None,
            "seconds": self.seconds,
            "error": self.error,
        }
        return record | {key: value for key, value in optional.items() if value} | dict(self.extra)

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Prediction:
        """The line of a run file; the first three keys must be there."""
        timestamps = as_numbers("timestamps", require(record, "timestamps"))
        return cls(
            question_id=as_name("question_id", require(record, "question_id")),
            answer=as_optional_text("answer", require(record, "answer")),
            timestamps=timestamps,
            frames_supplied=as_count("frames_supplied", record.get("frames_supplied", len(timestamps))),
            method=as_text("method", record.get("method", "")),
            backbone=as_text("backbone", record.get("backbone", "")),
            termination=as_optional_text("termination", record.get("termination")),
            observations=ObservationLog.from_json(as_list("observations", record.get("observations", []))).calls,
            trajectory=as_record("trajectory", record.get("trajectory", {})),
            bundle=each("bundle", record.get("bundle", []), as_record),
            usage=usage_from_json(as_record("usage", record.get("usage", {}))),
            seconds=as_number("seconds", record.get("seconds", 0.0)),
            error=as_optional_text("error", record.get("error")),
            extra={key: value for key, value in record.items() if key not in _KNOWN_KEYS},
        )


_KNOWN_KEYS: Final = {field.name for field in fields(Prediction)} - {"extra"}


def clip_to_json(clip: Clip) -> dict[str, object]:
    """A clip of the answer's bundle as it stands in a run file: where it lies and which frames, not the pixels."""
    return {
        "span": [clip.span.start, clip.span.end],
        "fps": clip.strategy.fps,
        "height": clip.strategy.height,
        "timestamps": [frame.seconds for frame in clip.frames],
    }
