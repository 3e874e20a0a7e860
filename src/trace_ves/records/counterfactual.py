"""The result of a counterfactual check for one question: a line of its file."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from trace_ves.records.base import Flag, Name, Numbers, Record, Span
from trace_ves.records.calls import Call

WHOLE_LOG: Final = "whole log"
CLIPS: Final = "clips"


@dataclass(frozen=True, slots=True)
class Masked(Record):
    """The masked frames, their replacements, and the answer without them."""

    span: Span
    masked: Numbers
    stand_ins: Numbers
    answer: str | None
    """None is "no answer", which is counted separately from a changed answer."""
    changed: Flag
    """Whether the model gave another answer."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """Version 0.1.0 counted a missing answer as changed."""
        has_answer = not isinstance(value, dict) or "answer" not in value or value["answer"] is not None
        return value if has_answer else value | {"changed": False}


@dataclass(frozen=True, slots=True)
class Outcome(Record):
    """The result of the check for one question."""

    question_id: Name
    answer: str | None
    """The answer of the prediction."""
    replayed: str | None
    """The answer from the same clips, unmasked."""
    evidence: Masked | None = None
    control: Masked | None = None
    observations: tuple[Call, ...] = ()
    error: Annotated[str | None, Field(exclude=True)] = None
    """Why there is no result. A failed check is not written, so that the next run repeats it."""
    control_of: str = WHOLE_LOG
    """Whether the control was chosen by the frames of the whole log, or only of the clips as in version 0.1.0."""
    backbone: str = ""
    seed: Annotated[int, Field(strict=True)] = 0

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"control_of": CLIPS} | value if isinstance(value, dict) else value
