"""Stage 2: two annotators look at every proposed interval, correct its edges, and accept or reject the item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from trace_ves.construction.looking import Looking
from trace_ves.core import Interval
from trace_ves.core.interval import iou
from trace_ves.records.base import Flag, Record, Span

AGREEING_IOU: Final = 0.5  # two annotators mean the same interval from this overlap on; below it, the adjudicator looks

Evidence = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Verification(Record):
    """One annotator's verdict on an item."""

    accepted: Flag
    evidence: Evidence = ()  # the intervals with corrected edges; empty for a rejection
    reason: str = ""  # why it was rejected, or what the annotator is unsure about
    answer: str = ""  # the right option, if it is not the proposed one
    is_unsure: Annotated[Flag, Field(alias="unsure")] = False  # neither accepted nor rejected: the adjudicator decides
    comment: str = ""
    looking: Looking | None = None


def evidence_to_json(evidence: Evidence) -> list[list[float]]:
    """Intervals as pairs of seconds."""
    return [[interval.start, interval.end] for interval in evidence]


def mean_iou(one: Evidence, other: Evidence) -> float:
    """How well two annotators' edges agree, interval by interval; one that only one of them has agrees with none."""
    if len(one) == len(other):
        overlaps = [iou(a, b) for a, b in zip(one, other, strict=True)]
    else:
        overlaps = [max((iou(a, b) for b in other), default=0.0) for a in one]
    return min(1.0, sum(overlaps) / max(len(one), len(other), 1))


def same_intervals(one: Evidence, other: Evidence) -> bool:
    """Whether every interval of one overlaps its counterpart enough."""
    return len(one) == len(other) and all(iou(a, b) >= AGREEING_IOU for a, b in zip(one, other, strict=True))


def merge_intervals(one: Evidence, other: Evidence) -> Evidence:
    """Halfway between two annotators' edges, to the millisecond."""
    return tuple(
        Interval(round((a.start + b.start) / 2, 3), round((a.end + b.end) / 2, 3))
        for a, b in zip(one, other, strict=True)
    )
