"""TRACE's search as the page tells it: its record, what became of each anchor, and the words for its actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from trace_ves.core import Interval
from trace_ves.records.trace import AtLeast, Drop, Expand, Refine, Stop
from trace_ves.web.words import span_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.core import ObservationStrategy
    from trace_ves.records.trace import AnchorRecord, Decision, FactValue, PrefixRecord, RoundRecord, TraceRecord

Fate = Literal["answer", "kept", "dropped", "refined"]
"""The answer rests on an anchor, or it was kept, dropped, or another look took its place."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """One bundle of a round with its record."""

    anchors: tuple[str, ...]
    record: PrefixRecord
    is_fresh: bool
    """Read in this round; else its record stood already."""
    is_stable: bool
    is_conflict: bool
    """Whether its newest anchor is in the conflict set."""


@dataclass(frozen=True, slots=True)
class TraceStory:
    """The whole search."""

    record: TraceRecord
    anchors: Mapping[str, AnchorRecord]
    """Of all rounds, by name."""
    fates: Mapping[str, Fate]
    """What became of each anchor, by name."""

    kind: ClassVar[str] = "trace"

    @classmethod
    def of(cls, record: TraceRecord) -> TraceStory:
        """The story of a record."""
        return cls(record, {anchor.id: anchor for each in record.rounds for anchor in each.anchors}, _fates(record))

    @property
    def claims(self) -> dict[str, str]:
        """The words of each claim, by its id."""
        return {claim.id: claim.text for claim in self.record.claims}

    def reading_of(self, bundle: tuple[str, ...]) -> PrefixRecord | None:
        """The last reading of a bundle, which a replay of it is compared with; None where it was never read."""
        readings = (
            record
            for found in reversed(self.record.rounds)
            for anchors, record in zip(found.bundles, found.records, strict=False)
            if anchors == bundle
        )
        return next(readings, None)

    @staticmethod
    def prefixes(found: RoundRecord) -> tuple[Prefix, ...]:
        """The trajectory of a round."""
        flags = found.flags
        return tuple(
            Prefix(
                anchors=anchors,
                record=record,
                is_fresh=at in found.assembled,
                is_stable=flags is not None and flags.stable_prefix == at,
                is_conflict=flags is not None and bool(anchors) and anchors[-1] in flags.conflicts,
            )
            for at, (anchors, record) in enumerate(zip(found.bundles, found.records, strict=False))
        )


def _fates(record: TraceRecord) -> dict[str, Fate]:
    """The last thing that happened to an anchor counts."""
    fates: dict[str, Fate] = {}
    for each in record.rounds:
        fates |= {anchor.id: "kept" for anchor in each.anchors}
        fates |= {anchor.candidate.replaces: "refined" for anchor in each.anchors if anchor.candidate.replaces}
        for decision in each.decisions:
            if isinstance(decision.action, Drop):
                fates |= dict.fromkeys(decision.action.anchors, "dropped")
    final = record.stable_prefix or (record.fallback.prefix if record.fallback else ())
    return fates | dict.fromkeys(final, "answer")


def strategy_text(strategy: ObservationStrategy) -> str:
    """How closely a span was looked at, in words."""
    return f"{strategy.fps:g} fps, {strategy.height} px"


def fact_text(value: FactValue) -> str:
    """How a claim was settled, in words."""
    match value:
        case Interval():
            return span_text(value.start, value.end)
        case AtLeast():
            return f"at least {value.count}"
        case _:
            return value


def decision_text(decision: Decision) -> str:
    """What the reconciler did, in words."""
    match decision.action:
        case Stop(prefix=at):
            return f"bundle {at + 1} is stable; replay it"
        case Drop(anchors=dropped):
            return f"take out {', '.join(sorted(dropped))} and build the trajectory again"
        case Refine(anchor=anchor, refinement=refinement):
            return f"look at {anchor} again: {refinement.replace('-', ' ')}"
        case Expand(intervals=spans):
            return "look for candidates in " + ", ".join(span_text(span.start, span.end) for span in spans)
        case None:
            return "nothing is left that could be done"
