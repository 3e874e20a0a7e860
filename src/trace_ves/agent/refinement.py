"""REFINE's fixed set: four ways to look again at a candidate, with or without an anchor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.agent.anchors import Look, VisualAnchor
from trace_ves.core import Interval
from trace_ves.records.search import Candidate, Refinement

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings


def refine(target: VisualAnchor | Look, refinement: Refinement, whole: Interval, settings: TraceSettings) -> Candidate:
    """The candidate for another look; a closer look may take twice the frames."""
    again = _REFINEMENTS[refinement](target.candidate, _point(target), whole)
    before = max(settings.least_candidate_frames, target.candidate.frames or 0)
    wanted = 2 * before if refinement is Refinement.RAISE_FRAME_RATE else before
    replaces = target.id if isinstance(target, VisualAnchor) else None
    return replace(again, frames=min(wanted, 2 * settings.candidate_frames), replaces=replaces, id=None)


def _point(target: VisualAnchor | Look) -> float:
    """Where the evidence may be: the anchor, else what the model named, else the middle of the look."""
    if isinstance(target, VisualAnchor):
        return target.clip.span.centre
    named = [*target.between, *(event.span.centre for event in target.events)]
    return named[0] if named else target.clip.span.centre


def _raise_frame_rate(candidate: Candidate, _point: float, _whole: Interval) -> Candidate:
    strategy = candidate.strategy
    return replace(candidate, strategy=replace(strategy, fps=2 * strategy.fps))


def _raise_resolution(candidate: Candidate, _point: float, _whole: Interval) -> Candidate:
    strategy = candidate.strategy
    return replace(candidate, strategy=replace(strategy, height=2 * strategy.height))


def _narrow_span(candidate: Candidate, point: float, whole: Interval) -> Candidate:
    """Half the span around the evidence, with the same number of frames."""
    span = _placed(point, candidate.span.length / 2, whole)
    return replace(candidate, span=span, strategy=replace(candidate.strategy, fps=2 * candidate.strategy.fps))


def _shift_centre(candidate: Candidate, point: float, whole: Interval) -> Candidate:
    """Half a span further on the side of the evidence, where it may continue."""
    span = candidate.span
    direction = 1 if point >= span.centre else -1
    return replace(candidate, span=_placed(span.centre + direction * span.length / 2, span.length, whole), moment=None)


def _placed(centre: float, length: float, whole: Interval) -> Interval:
    """A span of this length around a moment, moved into the video if needed."""
    start = min(max(centre - length / 2, whole.start), max(whole.end - length, whole.start))
    return Interval(start, min(start + length, whole.end))


_REFINEMENTS: Final[dict[Refinement, Callable[[Candidate, float, Interval], Candidate]]] = {
    Refinement.RAISE_FRAME_RATE: _raise_frame_rate,
    Refinement.RAISE_RESOLUTION: _raise_resolution,
    Refinement.NARROW_SPAN: _narrow_span,
    Refinement.SHIFT_CENTRE: _shift_centre,
}
