"""Planning a round before it starts, so that every anchor it finds can still be read.

Counts supplied frames alone. A round reserves what is likely: its looks, the growth that a part of them brings, and a
replay. Whatever happens, one call over everything that was found stays payable.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from trace_ves.agent.anchors import frames_in
from trace_ves.core import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.anchors import PrefixBundle
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.records.search import Candidate


def affordable(
    candidates: Sequence[Candidate], anchors: PrefixBundle, remaining: int, settings: TraceSettings
) -> tuple[Candidate, ...]:
    """The first candidates, as many as a likely round with them fits into what remains; else one last, smaller look."""
    for count in range(len(candidates), 0, -1):
        chosen = tuple(candidates[:count])
        if round_frames(chosen, anchors, settings) <= remaining:
            return chosen
    return last_look(candidates[0], anchors, remaining, settings) if candidates else ()


def round_frames(candidates: Sequence[Candidate], anchors: PrefixBundle, settings: TraceSettings) -> int:
    """Frames that a round with these candidates is likely to need, or what its worst case cannot do without if more."""
    looking = sum(each.frames or settings.look_frames(each.span, each.strategy) for each in candidates)
    kept = frames_in(anchors)
    likely = math.ceil(settings.likely_anchors * len(candidates))
    bundles = [kept + number * settings.most_anchor_frames for number in range(1, likely + 1)]
    grown_and_replayed = sum(bundles) + bundles[-1]
    return looking + max(grown_and_replayed, _last_resort(anchors, len(candidates), settings))


def last_look(
    candidate: Candidate, anchors: PrefixBundle, remaining: int, settings: TraceSettings
) -> tuple[Candidate, ...]:
    """A look at the middle of a candidate with the frames that are left beside one call over all anchors."""
    left = remaining - _last_resort(anchors, 1, settings)
    frames = min(left, candidate.frames or left)
    if frames < settings.least_candidate_frames:
        return ()
    span, length = candidate.span, frames * settings.look_spacing(candidate.strategy)
    if span.length > length:
        span = Interval(span.centre - length / 2, span.centre + length / 2)
    return (replace(candidate, span=span, frames=frames),)


def _last_resort(anchors: PrefixBundle, looks: int, settings: TraceSettings) -> int:
    """Frames of one call over all anchors if every look finds one; over the storyboard if there are none at all."""
    everything = frames_in(anchors) + looks * settings.least_anchor_frames
    return everything if anchors else max(everything, settings.storyboard_frames)


def action_costs(anchors: PrefixBundle, settings: TraceSettings) -> dict[str, int]:
    """Frames that each action is likely to cost: its look, and reading the bundle that it leaves."""
    bundle = frames_in(anchors)
    return {
        "DROP": bundle,
        "REFINE": 2 * settings.candidate_frames + bundle,
        "EXPAND": settings.candidate_frames + bundle + settings.least_anchor_frames,
    }


def bundle_frames(bundles: Sequence[PrefixBundle]) -> int:
    """Frames that Evidence Assembly supplies for these bundles: the sum of their sizes."""
    return sum(frames_in(bundle) for bundle in bundles)
