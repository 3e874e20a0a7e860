"""The rules of `anchor-extraction` and `anchor-prioritization`: is it there, from when to when, which comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.glance.sightings import GLIMPSED, SEEN

if TYPE_CHECKING:
    from trace_ves.backbone.glance.call_context import CallContext

GLIMPSES: Final = 2
"""So many glimpses of one name are worth a closer look, as one sighting is."""


def extract(context: CallContext) -> dict[str, Any]:
    """Relevant where a wanted name is seen once or glimpsed twice; from the first to the last time it is.

    Where an act is asked for: where it is seen, or where nothing tells what the thing does.
    """
    margin = context.clips[0].spacing_seconds / 2
    times: list[float] = []
    for name in context.asked.wanted:
        if name in context.asked.acts:
            seen = context.visits[name]
            times += [time for visit in seen for time in (visit.start + margin, visit.end - margin)]
            if not seen and not context.conduct[name].rests:
                times += [visit.start for visit in context.conduct[name].unsettled]
            continue
        scores = {moment.seconds: moment.view.score(name) for moment in context.moments}
        noticed = [seconds for seconds, score in scores.items() if score >= GLIMPSED]
        if len(noticed) >= GLIMPSES or max(scores.values(), default=0.0) >= SEEN:
            times += noticed
    if not times:
        return {"relevant": False}
    return {"relevant": True, "start": max(0.0, min(times) - margin), "end": max(times) + margin}


def prioritize(context: CallContext) -> dict[str, Any]:
    """The surest view first; a view that shows a name for the first time before one that repeats."""
    views = [(number, clip.moments[0].view) for number, clip in enumerate(context.clips, start=1) if clip.moments]
    order: list[int] = []
    shown: set[str] = set()
    while len(order) < len(views):
        rest = [(number, view) for number, view in views if number not in order]
        scores = {n: [(name not in shown, view.score(name)) for name in context.asked.wanted] for n, view in rest}
        best = max(rest, key=lambda entry: (max(scores[entry[0]], default=(False, 0.0)), -entry[0]))
        order.append(best[0])
        shown |= {name for name in context.asked.wanted if best[1].score(name) >= SEEN}
    return {"order": order}
