"""The rules of VCA's stages: rate segments by the frames at their borders, explore the best, or answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.glance.judgement import guess, judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.backbone.glance.case import Case
    from trace_ves.backbone.glance.sightings import View

TOO_SHORT_SECONDS: Final = 8.0
"""A segment that is no longer holds nothing that its borders do not show."""
BORDER_SECONDS: Final = 0.1
SIGHT, HOME, ELSEWHERE, NOTHING = 80, 50, 20, 5
"""Relevance of a segment with a wanted thing at a border, with a scene where one is at home, and of the others."""


def rate(case: Case) -> dict[str, Any]:
    """The relevance of each segment by the frames at its borders; a longer one a little more, up to 9 points."""
    return {"scores": [_score(case, segment) for segment in case.variables["segments"]]}


def _score(case: Case, segment: Mapping[str, Any]) -> dict[str, Any]:
    start, end = float(segment["start"]), float(segment["end"])
    base, why = _judged(case, _borders(case, segment))
    if base < SIGHT and end - start <= TOO_SHORT_SECONDS:
        base, why = NOTHING, "too short to hold anything new"
    bonus = min(9, int((end - start) / 10)) if base > NOTHING else 0
    return {"segment": segment["segment"], "explanation": why, "relevance": base + bonus}


def _judged(case: Case, borders: list[View]) -> tuple[int, str]:
    shown = [name for name in case.asked.wanted if any(view.shows(name) for view in borders)]
    if shown:
        return SIGHT, f"{', '.join(shown)} at its border"
    things = case.lexicon.things
    scenes = {view.scene for view in borders if view.scene}
    expected = [name for name in case.asked.wanted if name in things and scenes & set(things[name].homes)]
    if expected:
        return HOME, f"{', '.join(expected)} may be found in such a scene"
    return ELSEWHERE, "nothing at its borders"


def explore(case: Case) -> dict[str, Any]:
    """Answer where the memory settles it, or where nothing promising is left; else explore the most promising."""
    promise = {int(segment["segment"]): _promise(case, segment) for segment in case.variables["segments"]}
    best = max(promise, key=lambda number: (promise[number], -number), default=None)
    if best is None or promise[best] < HOME or judge(case.asked, case.visits).certain:
        return {"action": "answer", "answer": guess(case.asked, case.visits, sample=case.sample)}
    return {"action": "explore", "segment": best}


def _promise(case: Case, segment: Mapping[str, Any]) -> int:
    """Its relevance; but what was seen at a border is known already, and what is missing must be elsewhere."""
    known = any(view.shows(name) for view in _borders(case, segment) for name in case.asked.wanted)
    return min(int(segment["relevance"]), ELSEWHERE) if known else int(segment["relevance"])


def _borders(case: Case, segment: Mapping[str, Any]) -> list[View]:
    """The views at the segment's start and end, as far as this call has them."""
    ends = (float(segment["start"]), float(segment["end"]))
    return [m.view for m in case.moments if min(abs(m.seconds - end) for end in ends) <= BORDER_SECONDS]
