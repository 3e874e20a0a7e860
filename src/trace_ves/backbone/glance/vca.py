"""The rules of VCA's stages: rate segments by the frames at their borders, explore the best, or answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.glance.judgement import guess, judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.backbone.glance.call_context import CallContext
    from trace_ves.backbone.glance.sightings import View

TOO_SHORT_SECONDS: Final = 8.0
"""A segment that is no longer holds nothing that its borders do not show."""
BORDER_SECONDS: Final = 0.1
SIGHT, HOME, ELSEWHERE, NOTHING = 80, 50, 20, 5
"""Relevance of a segment with a wanted thing at a border, with a scene where one is at home, and of the others."""


def rate(context: CallContext) -> dict[str, Any]:
    """The relevance of each segment by the frames at its borders; a longer one a little more, up to 9 points."""
    return {"scores": [_score(context, segment) for segment in context.variables["segments"]]}


def _score(context: CallContext, segment: Mapping[str, Any]) -> dict[str, Any]:
    start, end = float(segment["start"]), float(segment["end"])
    base, why = _judged(context, _borders(context, segment))
    if base < SIGHT and end - start <= TOO_SHORT_SECONDS:
        base, why = NOTHING, "too short to hold anything new"
    bonus = min(9, int((end - start) / 10)) if base > NOTHING else 0
    return {"segment": segment["segment"], "explanation": why, "relevance": base + bonus}


def _judged(context: CallContext, borders: list[View]) -> tuple[int, str]:
    shown = [name for name in context.asked.wanted if any(view.shows(name) for view in borders)]
    if shown:
        return SIGHT, f"{', '.join(shown)} at its border"
    things = context.lexicon.things
    scenes = {view.scene for view in borders if view.scene}
    expected = [name for name in context.asked.wanted if name in things and scenes & set(things[name].homes)]
    if expected:
        return HOME, f"{', '.join(expected)} may be found in such a scene"
    return ELSEWHERE, "nothing at its borders"


def explore(context: CallContext) -> dict[str, Any]:
    """Answer where the memory settles it, or where nothing promising is left; else explore the most promising."""
    promise = {int(segment["segment"]): _promise(context, segment) for segment in context.variables["segments"]}
    best = max(promise, key=lambda number: (promise[number], -number), default=None)
    if best is None or promise[best] < HOME or judge(context.asked, context.visits).certain:
        return {"action": "answer", "answer": guess(context.asked, context.visits, sample=context.sample)}
    return {"action": "explore", "segment": best}


def _promise(context: CallContext, segment: Mapping[str, Any]) -> int:
    """Its relevance; but what was seen at a border is known already, and what is missing must be elsewhere.

    A sighting of something whose act is asked for says nothing yet.
    """
    names = [name for name in context.asked.wanted if name not in context.asked.acts]
    known = any(view.shows(name) for view in _borders(context, segment) for name in names)
    return min(int(segment["relevance"]), ELSEWHERE) if known else int(segment["relevance"])


def _borders(context: CallContext, segment: Mapping[str, Any]) -> list[View]:
    """The views at the segment's start and end, as far as this call has them."""
    ends = (float(segment["start"]), float(segment["end"]))
    return [m.view for m in context.moments if min(abs(m.seconds - end) for end in ends) <= BORDER_SECONDS]
