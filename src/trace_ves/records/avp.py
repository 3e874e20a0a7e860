"""Active Video Perception's account of its search: plan, observation and reflection of each round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from trace_ves.records.record import Count, Flag, Number, Record, Span, SparseRecord

Seconds = Annotated[float, Field(allow_inf_nan=False)]
SpatialRate = Literal["low", "medium"]


class AvpPlan(BaseModel):
    """One observation step, as the planner words it."""

    load_mode: Literal["uniform", "region"]
    fps: float = Field(ge=0.1, le=5.0)
    spatial: SpatialRate
    regions: list[tuple[Seconds, Seconds]] = Field(default_factory=list, max_length=32)
    completion_criteria: str = ""


@dataclass(frozen=True, slots=True)
class AvpPiece(Record):
    """Something seen that bears on the question, and when, in whole seconds."""

    start: Count
    end: Count
    description: str


@dataclass(frozen=True, slots=True)
class AvpEvidence(Record):
    """What one observation brought, as text: all that later calls see of it."""

    round: Count
    description: str
    key_evidence: tuple[AvpPiece, ...] = ()


@dataclass(frozen=True, slots=True)
class AvpVerdict(Record):
    """The reflector's judgement of the evidence so far."""

    answer: str | None
    sufficient: Flag
    confidence: Number
    justification: str = ""


@dataclass(frozen=True, slots=True)
class Fault(Record):
    """What was wrong with a model's reply."""

    fault: str


@dataclass(frozen=True, slots=True)
class AvpRound(SparseRecord):
    """One round."""

    plan: AvpPlan
    spans: tuple[Span, ...]
    evidence: AvpEvidence
    reflection: AvpVerdict | Fault | None = None
    """None for the last round, which is not reflected on."""


@dataclass(frozen=True, slots=True)
class AvpRecord(Record):
    """The whole search, as it stands under `trajectory` in a run file."""

    kind: Literal["avp"] = field(default="avp", kw_only=True)
    rounds: tuple[AvpRound, ...]
