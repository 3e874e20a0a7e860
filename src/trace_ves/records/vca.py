"""Video Curious Agent's account of its search: which segment each step explored, its rated children, the decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trace_ves.records.avp import Fault
from trace_ves.records.record import Count, Number, Numbers, Record, SparseRecord


@dataclass(frozen=True, slots=True)
class VcaSegment(Record):
    """A node of the search tree, as prompts and records show it."""

    segment: Count
    start: Number
    end: Number
    relevance: Count = 0


@dataclass(frozen=True, slots=True)
class VcaRating(VcaSegment):
    """A new segment, how relevant it was called and why."""

    explanation: str = ""


@dataclass(frozen=True, slots=True)
class VcaDecision(Record):
    """Explore a candidate, or answer."""

    action: Literal["explore", "answer"]
    segment: Count | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class VcaStep(SparseRecord):
    """One expansion of the tree."""

    explored: VcaSegment
    frames: Numbers
    """When the new frames were taken."""
    scores: tuple[VcaRating, ...] | None = None
    """None where no frame lay inside the segment, so that it could not be split."""
    decision: VcaDecision | Fault | None = None
    """None for a step after which nothing was decided."""


@dataclass(frozen=True, slots=True)
class VcaRecord(Record):
    """The whole search, as it stands under `trajectory` in a run file."""

    kind: Literal["vca"] = field(default="vca", kw_only=True)
    steps: tuple[VcaStep, ...]
