"""The rules of VCA's stages: rate segments by the frames at their borders, explore the best, or answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.glance.asked import Kind
from trace_ves.backbone.glance.judgement import guess, judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.backbone.glance.case import Case
    from trace_ves.backbone.glance.sightings import View

TOO_SHORT_SECONDS: Final = 4.0
"""A segment that is no longer holds nothing that its borders do not show."""
BORDER_SECONDS: Final = 0.1
SIGHT, HOME, ELSEWHERE, NOTHING = 80, 50, 20, 5
"""Relevance of a segment with a wanted thing at a border, with a scene where one is at home, and of the others."""
PROMISING: Final = 60
"""Relevance from which a segment is worth exploring when an answer is already there."""


def rate(case: Case) -> dict[str, Any]:
    """The relevance of each segment by the frames at its borders; a longer one a little more, up to 9 points."""
    return {"scores": [_score(case, segment) for segment in case.variables["segments"]]}


def _score(case: Case, segment: Mapping[str, Any]) -> dict[str, Any]:
    start, end = float(segment["start"]), float(segment["end"])
    borders = [m.view for m in case.moments if min(abs(m.seconds - start), abs(m.seconds - end)) <= BORDER_SECONDS]
    base, why = _judged(case, borders)
    if end - start <= TOO_SHORT_SECONDS:
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
    """Answer where the memory settles it, or where it gives an answer and nothing promising is left; else go on."""
    best = max(case.variables["segments"], key=lambda entry: (entry["relevance"], -entry["start"]), default=None)
    judgement = judge(case.asked, case.visits)
    exhausted = best is None or best["relevance"] <= NOTHING
    content = case.asked.kind is Kind.COUNT and judgement.answer and best is not None and best["relevance"] < PROMISING
    if judgement.certain or content or exhausted:
        return {"action": "answer", "answer": guess(case.asked, case.visits, sample=case.sample)}
    return {"action": "explore", "segment": best["segment"] if best else None}
