"""The state of Algorithm 1 between rounds, and how each action changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trace_ves.agent.refinement import refine
from trace_ves.agent.settings import STRATEGIES, LookFor, TraceSettings
from trace_ves.agent.temporal_proposal import make_candidate, split_span, update_notes
from trace_ves.records.search import Action, Candidate, Drop, Expand, Refine, Relevance, SegmentNote

if TYPE_CHECKING:
    from trace_ves.agent.anchors import BundleKey, Look, PrefixBundle, VisualAnchor
    from trace_ves.core import Interval


@dataclass(frozen=True, slots=True)
class State:
    """A, R and U of the paper, and the effects of the last action."""

    whole: Interval
    anchors: PrefixBundle = ()  # A_t, in order of priority
    needs: frozenset[str] = frozenset()  # U_t
    refuted: frozenset[BundleKey] = frozenset()  # Bundles whose replay disagreed: never proposed for STOP again
    notes: tuple[SegmentNote, ...] | None = None
    """Notes on the storyboard, the scan and the looks; None before the first proposal."""
    looks: tuple[Look, ...] = ()  # The looks without an anchor
    evidence: tuple[Interval, ...] = ()
    """Every span in which a look showed evidence; an anchor may be shorter."""
    focus: tuple[Interval, ...] = ()  # The unexplored spans that EXPAND named
    pending: tuple[Candidate, ...] = ()  # The looks that REFINE or EXPAND requested
    rebuild: bool = False  # Whether the trajectory must be read again after DROP

    def with_looks(self, looks: Sequence[Look], anchors: Sequence[VisualAnchor]) -> State:
        """The state after looking: new anchors come last or replace refined ones, and notes are updated."""
        replaced = {anchor.candidate.replaces for anchor in anchors}
        with_anchors = {anchor.candidate.id for anchor in anchors}
        notes = [
            SegmentNote(look.clip.span.start, look.clip.span.end, look.seen[:300], look.relevant is not Relevance.NO)
            for look in looks
            if look.seen
        ]
        return replace(
            self,
            anchors=tuple(anchor for anchor in self.anchors if anchor.id not in replaced) + tuple(anchors),
            looks=self.looks + tuple(look for look in looks if look.id not in with_anchors and not look.has_evidence),
            evidence=self.evidence + tuple(event.span for look in looks for event in look.events),
            notes=update_notes(self.notes or (), notes),
            pending=(),
            rebuild=False,
        )

    def after(self, action: Action, settings: TraceSettings) -> State:
        """The state after DROP, REFINE or EXPAND."""
        match action:
            case Drop(anchors=dropped):
                remaining = tuple(anchor for anchor in self.anchors if anchor.id not in dropped)
                return replace(self, anchors=remaining, focus=(), rebuild=True)
            case Refine(anchor=name, refinement=way):
                anchors = tuple(replace(a, refined=a.refined | {way}) if a.id == name else a for a in self.anchors)
                looks = tuple(replace(k, refined=k.refined | {way}) if k.id == name else k for k in self.looks)
                targets: tuple[VisualAnchor | Look, ...] = (*anchors, *looks)
                pending = tuple(refine(target, way, self.whole, settings) for target in targets if target.id == name)
                return replace(self, anchors=anchors, looks=looks, focus=(), pending=pending)
            case Expand(intervals=intervals, look_for=look_for):
                return replace(self, focus=intervals, pending=_plan_direct_looks(intervals, look_for, settings))
            case _:
                raise ValueError(f"{action} leaves no state behind")


def _plan_direct_looks(intervals: Sequence[Interval], look_for: str, settings: TraceSettings) -> tuple[Candidate, ...]:
    """The looks at the spans of EXPAND: the first part of each, then the second parts, and so on."""
    name: LookFor = next((name for name in STRATEGIES if name == look_for), "general")
    strategy = STRATEGIES[name]
    parts = [split_span(span, settings.longest_look(strategy)) for span in intervals]
    turns = range(max((len(looks) for looks in parts), default=0))
    return tuple(
        make_candidate(looks[turn], strategy, settings) for turn in turns for looks in parts if turn < len(looks)
    )
