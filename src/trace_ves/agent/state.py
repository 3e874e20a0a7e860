"""What Algorithm 1 carries from round to round, and how each action changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trace_ves.agent.records import key
from trace_ves.agent.refinement import refine
from trace_ves.core.interval import subtract
from trace_ves.records.trace import Drop, Expand, Refine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.records import BundleKey, PrefixBundle, VisualAnchor
    from trace_ves.core import Interval
    from trace_ves.records.trace import Action, Candidate, SegmentNote


@dataclass(frozen=True, slots=True)
class State:
    """A, R and U of the paper, and what the last action left to do."""

    whole: Interval
    anchors: PrefixBundle = ()
    """A_t, in order of priority."""
    observed: tuple[Interval, ...] = ()
    """Every span that was looked at closely; R_t is the rest of the video."""
    needs: frozenset[str] = frozenset()
    """U_t."""
    refuted: frozenset[BundleKey] = frozenset()
    """Bundles whose replay disagreed: never proposed for STOP again."""
    notes: tuple[SegmentNote, ...] | None = None
    """What the storyboard showed; None before it has been seen."""
    proposing: bool = True
    """Whether the next round asks for new candidates; not after DROP and REFINE."""
    focus: tuple[Interval, ...] | None = None
    """The spans that EXPAND chose; None leaves all of R_t open."""
    pending: tuple[Candidate, ...] = ()
    """The closer look that REFINE asked for."""

    def unexplored(self, shortest: float) -> tuple[Interval, ...]:
        """R_t: the timeline without everything looked at, slivers dropped."""
        return subtract(self.whole, self.observed, shortest=shortest)

    def with_found(self, candidates: Sequence[Candidate], found: Sequence[VisualAnchor | None]) -> State:
        """The state after candidates were looked at: new anchors come last, a refined one takes the old one's place."""
        fresh = [anchor for anchor in found if anchor is not None]
        replaced = {anchor.candidate.replaces for anchor in fresh}
        return replace(
            self,
            anchors=tuple(anchor for anchor in self.anchors if anchor.id not in replaced) + tuple(fresh),
            observed=self.observed + tuple(candidate.span for candidate in candidates),
            pending=(),
        )

    def with_refuted(self, bundle: PrefixBundle) -> State:
        """The state after a replay over this bundle disagreed."""
        return replace(self, refuted=self.refuted | {key(bundle)})

    def after(self, action: Action) -> State:
        """The state that DROP, REFINE or EXPAND leaves."""
        match action:
            case Drop(anchors=dropped):
                kept = tuple(anchor for anchor in self.anchors if anchor.id not in dropped)
                return replace(self, anchors=kept, proposing=not kept, focus=None)
            case Refine(anchor=name, refinement=refinement):
                marked = tuple(
                    replace(a, refined=a.refined | {refinement}) if a.id == name else a for a in self.anchors
                )
                again = tuple(refine(a, refinement, self.whole) for a in marked if a.id == name)
                return replace(self, anchors=marked, proposing=False, pending=again)
            case Expand(intervals=intervals):
                return replace(self, proposing=True, focus=intervals)
            case _:
                raise ValueError(f"{action} leaves no state behind")
