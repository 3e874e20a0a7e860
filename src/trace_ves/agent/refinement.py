"""The four refinements of REFINE: other ways to look at a candidate, with or without an anchor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trace_ves.agent.anchors import Look, VisualAnchor
from trace_ves.core import Interval
from trace_ves.records.search import Candidate, Refinement

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings


def refine(target: VisualAnchor | Look, refinement: Refinement, whole: Interval, settings: TraceSettings) -> Candidate:
    """The candidate for another look; a closer look may take twice the frames."""
    before = target.candidate
    span, strategy, moment = before.span, before.strategy, before.moment
    frames = max(settings.least_candidate_frames, before.frames or 0)
    match refinement:
        case Refinement.RAISE_FRAME_RATE:
            strategy, frames = replace(strategy, fps=2 * strategy.fps), 2 * frames
        case Refinement.RAISE_RESOLUTION:
            strategy = replace(strategy, height=2 * strategy.height)
        case Refinement.NARROW_SPAN:  # half the span around the evidence, with the same number of frames
            span = _fit_span(_find_evidence(target), span.length / 2, whole)
            strategy = replace(strategy, fps=2 * strategy.fps)
        case Refinement.SHIFT_CENTRE:  # by half a span towards the evidence, which may continue there
            direction = 1 if _find_evidence(target) >= span.centre else -1
            span, moment = _fit_span(span.centre + direction * span.length / 2, span.length, whole), None
    replaces = target.id if isinstance(target, VisualAnchor) else None
    frames = min(frames, 2 * settings.candidate_frames)
    return replace(before, span=span, strategy=strategy, moment=moment, frames=frames, replaces=replaces, id=None)


def _find_evidence(target: VisualAnchor | Look) -> float:
    """The moment of the evidence: of the anchor, else one that the model named, else the middle of the look."""
    if isinstance(target, VisualAnchor):
        return target.clip.span.centre
    moments = [*target.between, *(event.span.centre for event in target.events)]
    return moments[0] if moments else target.clip.span.centre


def _fit_span(centre: float, length: float, whole: Interval) -> Interval:
    """A span of this length around a moment, moved into the video if needed."""
    start = min(max(centre - length / 2, whole.start), max(whole.end - length, whole.start))
    return Interval(start, min(start + length, whole.end))
