"""What a counterfactual check found for one question, as a line of its file."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from trace_ves.records.base import Flag, Name, Numbers, Record, Span
from trace_ves.records.calls import Call

WHOLE_LOG: Final = "whole log"
CLIPS: Final = "clips"


@dataclass(frozen=True, slots=True)
class Masked(Record):
    """What was masked, what replaced it, and what the model said then."""

    span: Span
    masked: Numbers
    stand_ins: Numbers
    answer: str | None
    """None is "no answer", which is counted apart from a changed one."""
    changed: Flag
    """Whether another answer was given."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """Version 0.1.0 called it a change where no answer was given."""
        has_answer = not isinstance(value, dict) or "answer" not in value or value["answer"] is not None
        return value if has_answer else value | {"changed": False}


@dataclass(frozen=True, slots=True)
class Outcome(Record):
    """What the check found for one question."""

    question_id: Name
    answer: str | None
    """The prediction's."""
    replayed: str | None
    """The answer from the same clips, unmasked."""
    evidence: Masked | None = None
    control: Masked | None = None
    observations: tuple[Call, ...] = ()
    error: Annotated[str | None, Field(exclude=True)] = None
    """Why there is no outcome; a failed check is not written down, so that it is made again."""
    control_of: str = WHOLE_LOG
    """Where the control's frames were counted; version 0.1.0 counted only those of the clips."""
    backbone: str = ""
    seed: Annotated[int, Field(strict=True)] = 0

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"control_of": CLIPS} | value if isinstance(value, dict) else value
