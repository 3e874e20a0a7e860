"""REFINE's fixed set: four ways to look at the candidate of an anchor again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.core import Interval
from trace_ves.records.search import Candidate, Refinement

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.agent.anchors import VisualAnchor
    from trace_ves.agent.settings import TraceSettings


def refine(anchor: VisualAnchor, refinement: Refinement, whole: Interval, settings: TraceSettings) -> Candidate:
    """The candidate that looks at this anchor again; a closer look may take twice the frames of a first one."""
    again = _REFINEMENTS[refinement](anchor, whole)
    wanted = max(settings.least_candidate_frames, round(again.span.length * again.strategy.fps))
    return replace(again, frames=min(wanted, 2 * settings.candidate_frames), replaces=anchor.id)


def _raise_frame_rate(anchor: VisualAnchor, _: Interval) -> Candidate:
    strategy = anchor.candidate.strategy
    return replace(anchor.candidate, strategy=replace(strategy, fps=2 * strategy.fps))


def _raise_resolution(anchor: VisualAnchor, _: Interval) -> Candidate:
    strategy = anchor.candidate.strategy
    return replace(anchor.candidate, strategy=replace(strategy, height=2 * strategy.height))


def _narrow_span(anchor: VisualAnchor, whole: Interval) -> Candidate:
    """Half the span around what was found, in as many frames as before."""
    candidate = anchor.candidate
    span = _placed(anchor.clip.span.centre, candidate.span.length / 2, whole)
    return replace(candidate, span=span, strategy=replace(candidate.strategy, fps=2 * candidate.strategy.fps))


def _shift_centre(anchor: VisualAnchor, whole: Interval) -> Candidate:
    """Half a span towards the side on which the anchor lies, where what was found may go on."""
    span = anchor.candidate.span
    direction = 1 if anchor.clip.span.centre >= span.centre else -1
    return replace(anchor.candidate, span=_placed(span.centre + direction * span.length / 2, span.length, whole))


def _placed(centre: float, length: float, whole: Interval) -> Interval:
    """A span of this length around a moment, moved into the video where it would leave it."""
    start = min(max(centre - length / 2, whole.start), max(whole.end - length, whole.start))
    return Interval(start, min(start + length, whole.end))


_REFINEMENTS: Final[dict[Refinement, Callable[[VisualAnchor, Interval], Candidate]]] = {
    Refinement.RAISE_FRAME_RATE: _raise_frame_rate,
    Refinement.RAISE_RESOLUTION: _raise_resolution,
    Refinement.NARROW_SPAN: _narrow_span,
    Refinement.SHIFT_CENTRE: _shift_centre,
}
