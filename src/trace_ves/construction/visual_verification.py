"""Stage 2: two annotators look at every proposed interval, mend its edges, and accept or reject the item.

Pure rules: when two verdicts agree, and which intervals follow from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.looking import Looking
from trace_ves.core import Interval
from trace_ves.core.interval import iou

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AGREEING_IOU: Final = 0.5
"""Two annotators mean the same interval from this overlap on; below it, the adjudicator looks."""

Evidence = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """One annotator's verdict on an item."""

    accepted: bool
    evidence: Evidence = ()
    """The intervals with mended edges; empty for a rejection."""
    reason: str = ""
    """Why it was rejected, or what the annotator is unsure about."""
    answer: str = ""
    """The right option, where it is not the proposed one."""
    is_unsure: bool = False
    """Neither accepted nor rejected: the adjudicator decides."""
    comment: str = ""
    looking: Looking | None = None

    def to_json(self) -> dict[str, Any]:
        """The verdict as it stands in the history."""
        return {
            "accepted": self.accepted,
            "evidence": evidence_to_json(self.evidence),
            "reason": self.reason,
            "answer": self.answer,
            "unsure": self.is_unsure,
            "comment": self.comment,
            "looking": self.looking.to_json() if self.looking else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Verification:
        """The verdict that `to_json` wrote; version 0.1 knew neither answers nor comments."""
        return cls(
            bool(value["accepted"]),
            evidence_from_history(value["evidence"]),
            str(value["reason"]),
            str(value.get("answer", "")),
            bool(value.get("unsure", False)),
            str(value.get("comment", "")),
            Looking.from_json(value.get("looking")),
        )


def evidence_to_json(evidence: Evidence) -> list[list[float]]:
    """Intervals as pairs of seconds."""
    return [[interval.start, interval.end] for interval in evidence]


def evidence_from_history(pairs: Sequence[Sequence[float]]) -> Evidence:
    """The intervals that `evidence_to_json` wrote."""
    return tuple(Interval(start, end) for start, end in pairs)


def mean_iou(one: Evidence, other: Evidence) -> float:
    """How well two annotators' edges agree, interval by interval; one that only one of them has agrees with none."""
    if len(one) == len(other):
        overlaps = [iou(a, b) for a, b in zip(one, other, strict=True)]
    else:
        overlaps = [max((iou(a, b) for b in other), default=0.0) for a in one]
    return min(1.0, sum(overlaps) / max(len(one), len(other), 1))


def same_intervals(one: Evidence, other: Evidence) -> bool:
    """Whether every interval of one overlaps that of the other enough."""
    return len(one) == len(other) and all(iou(a, b) >= AGREEING_IOU for a, b in zip(one, other, strict=True))


def merged(one: Evidence, other: Evidence) -> Evidence:
    """Halfway between two annotators' edges, to the millisecond."""
    return tuple(
        Interval(round((a.start + b.start) / 2, 3), round((a.end + b.end) / 2, 3))
        for a, b in zip(one, other, strict=True)
    )


def union_of(one: Evidence, other: Evidence) -> Evidence:
    """Everything that either annotator marked; intervals that touch become one."""
    found: list[Interval] = []
    for interval in sorted((*one, *other), key=lambda each: (each.start, each.end)):
        if found and interval.start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, interval.end))
        else:
            found.append(interval)
    return tuple(found)
