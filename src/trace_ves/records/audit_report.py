"""What `audit --json` writes: rates in percent, null where there is nothing to measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from trace_ves.records.base import Count, Flag, Name, Number, Numbers, Record, Span, SparseRecord
from trace_ves.records.calls import Call

Rates = dict[str, Number | None]
Bounds = tuple[Number | None, Number | None] | None


@dataclass(frozen=True, slots=True)
class BenchFigures(Record):
    """The benchmark itself: its size, and the constant that targeting is compared with."""

    questions: Count
    questions_with_evidence: Count
    videos: Count
    EP_ref: Number | None
    """Mean share of a video that is evidence, in percent."""
    families: dict[str, Count]
    """Questions of each family, of those with evidence."""
    mean_duration: Number | None
    """Seconds."""
    mean_intervals: Number | None
    """Evidence intervals of a question."""
    mean_interval_length: Number | None
    """Seconds."""


@dataclass(frozen=True, slots=True)
class GroupFigures(Record):
    """Accuracy over some of the questions."""

    questions: Count
    Acc: Number | None


@dataclass(frozen=True, slots=True)
class RunFigures(SparseRecord):
    """What the audit says of one run."""

    name: str
    method: str
    backbone: str
    sampler: Flag
    """A schedule without a model: nothing was answered."""
    signature: str
    """Version, bench and settings of the audit: numbers of one signature can be compared."""
    questions: Count
    """Questions that the metrics are over."""
    metrics: Rates
    ci95: dict[str, Bounds]
    ci95_by_video: dict[str, Bounds]
    """The same intervals with whole videos resampled."""
    families: dict[str, Rates]
    answer_only: GroupFigures
    """Accuracy over every question of the bench, evidence or not."""
    unanswered: Count | None = None
    """Questions of the bench without an answer; they count as wrong. Version 0.1.0 did not count them."""
    groups: dict[str, dict[str, GroupFigures]] | None = None
    """Accuracy by the bench's own group keys."""
    frames_by_stage: Rates | None = None
    """Supplied frames by the stage of the call, where the run logged its calls."""
    reconstructed: str | None = None
    """Where the timestamps were not logged: the schedule that they follow from, and the frames it chose among."""


@dataclass(frozen=True, slots=True)
class ComparisonFigures(Record):
    """Run a minus run b in one metric, on the same questions and the same resamples."""

    a: str
    b: str
    metric: str
    difference: Number | None
    ci95: Bounds
    p: Number | None
    """Two-sided, from the paired bootstrap."""


@dataclass(frozen=True, slots=True)
class AuditFigures(Record):
    """The whole audit."""

    signature: str
    bench: BenchFigures
    runs: tuple[RunFigures, ...]
    comparisons: tuple[ComparisonFigures, ...]
    warnings: tuple[str, ...]
    """What was counted but not refused, one sentence each."""


WHOLE_LOG: Final = "whole log"
CLIPS: Final = "clips"


@dataclass(frozen=True, slots=True)
class Masked(Record):
    """What was masked, what stood in for it, and what the model said then."""

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
    """Where the control's frames were counted; version 0.1.0 counted those of the clips alone."""
    backbone: str = ""
    seed: Annotated[int, Field(strict=True)] = 0

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"control_of": CLIPS} | value if isinstance(value, dict) else value
