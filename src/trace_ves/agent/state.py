"""What Algorithm 1 carries from round to round, and how each action changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trace_ves.agent.anchors import key
from trace_ves.agent.refinement import refine
from trace_ves.records.search import Drop, Expand, Refine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.anchors import BundleKey, PrefixBundle, VisualAnchor
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.core import Interval
    from trace_ves.records.search import Action, Candidate, SegmentNote


@dataclass(frozen=True, slots=True)
class State:
    """A, R and U of the paper, and what the last action left to do."""

    whole: Interval
    anchors: PrefixBundle = ()
    """A_t, in order of priority."""
    needs: frozenset[str] = frozenset()
    """U_t."""
    refuted: frozenset[BundleKey] = frozenset()
    """Bundles whose replay disagreed: never proposed for STOP again."""
    notes: tuple[SegmentNote, ...] | None = None
    """What the storyboard showed; None before it has been seen."""
    focus: tuple[Interval, ...] = ()
    """The unexplored spans that EXPAND put first."""
    pending: tuple[Candidate, ...] = ()
    """The closer look that REFINE asked for."""
    rebuild: bool = False
    """Whether DROP has left a trajectory that has to be read again, even if nothing new is looked at."""

    def with_found(self, found: Sequence[VisualAnchor | None]) -> State:
        """The state after candidates were looked at: new anchors come last, a refined one takes the old one's place."""
        fresh = [anchor for anchor in found if anchor is not None]
        replaced = {anchor.candidate.replaces for anchor in fresh}
        return replace(
            self,
            anchors=tuple(anchor for anchor in self.anchors if anchor.id not in replaced) + tuple(fresh),
            pending=(),
            rebuild=False,
        )

    def with_refuted(self, bundle: PrefixBundle) -> State:
        """The state after a replay over this bundle disagreed."""
        return replace(self, refuted=self.refuted | {key(bundle)})

    def after(self, action: Action, settings: TraceSettings) -> State:
        """The state that DROP, REFINE or EXPAND leaves."""
        match action:
            case Drop(anchors=dropped):
                kept = tuple(anchor for anchor in self.anchors if anchor.id not in dropped)
                return replace(self, anchors=kept, focus=(), rebuild=True)
            case Refine(anchor=name, refinement=refinement):
                marked = tuple(
                    replace(a, refined=a.refined | {refinement}) if a.id == name else a for a in self.anchors
                )
                again = tuple(refine(a, refinement, self.whole, settings) for a in marked if a.id == name)
                return replace(self, anchors=marked, focus=(), pending=again)
            case Expand(intervals=intervals):
                return replace(self, focus=intervals)
            case _:
                raise ValueError(f"{action} leaves no state behind")
