"""Planning a round before it starts, so that the whole trajectory of what it finds can be read and replayed.

Counts supplied frames alone. A round reserves its looks, the growing bundles that its candidates are likely to bring,
and a replay. Whatever happens, one call over everything that was found stays payable.
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
        if count > 1 and looking_frames(chosen) > settings.look_frames_per_round:
            continue
        if round_frames(chosen, anchors, settings) <= remaining:
            return chosen
    return last_look(candidates[0], anchors, remaining, settings) if candidates else ()


def affordable_looks(anchors: PrefixBundle, remaining: int, settings: TraceSettings) -> int:
    """How many looks of the usual size can be paid for now."""
    growth = growth_frames(frames_in(anchors), 1, settings.least_anchor_frames)
    left = min(remaining - max(growth, _last_resort(anchors, 1, settings)), settings.look_frames_per_round)
    return min(settings.candidates_per_round, max(0, left) // settings.candidate_frames)


def round_frames(candidates: Sequence[Candidate], anchors: PrefixBundle, settings: TraceSettings) -> int:
    """Frames that a round with these candidates is likely to need, or what its worst case cannot do without if more."""
    reserve = growth_frames(frames_in(anchors), likely_anchors(candidates, settings), settings.least_anchor_frames)
    return looking_frames(candidates) + max(reserve, _last_resort(anchors, len(candidates), settings))


def likely_anchors(candidates: Sequence[Candidate], settings: TraceSettings) -> int:
    """How many of these candidates are likely to give an anchor: most that a frame pointed to, few of the others."""
    hinted = sum(candidate.moment is not None for candidate in candidates)
    return math.ceil(settings.likely_hints * hinted + settings.likely_anchors * (len(candidates) - hinted))


def looking_frames(candidates: Sequence[Candidate]) -> int:
    """Frames of the looks at these candidates."""
    return sum(candidate.frames or 0 for candidate in candidates)


def growth_frames(kept: int, found: int, each: int) -> int:
    """Frames of the bundles that so many new anchors form, each of so many frames, and of a replay of the largest."""
    return sum(kept + number * each for number in range(1, found + 1)) + kept + found * each


def frames_that_fit(kept: int, found: int, remaining: int, settings: TraceSettings) -> int:
    """Frames for each new anchor: the most with which the whole trajectory and a replay can be read, else the least.

    Where not even the least can be read all together, fewer.
    """
    for each in range(settings.most_anchor_frames, settings.least_anchor_frames, -1):
        if growth_frames(kept, found, each) <= remaining:
            return each
    return max(1, min(settings.least_anchor_frames, (remaining - kept) // max(1, found)))


def last_look(
    candidate: Candidate, anchors: PrefixBundle, remaining: int, settings: TraceSettings
) -> tuple[Candidate, ...]:
    """A look at the middle of a candidate with the frames that are left beside one call over all anchors."""
    left = remaining - _last_resort(anchors, 1, settings)
    frames = min(left, candidate.frames or left)
    if frames < settings.least_candidate_frames:
        return ()
    span, length = candidate.span, frames / candidate.strategy.fps
    if span.length > length:
        centre = candidate.moment if candidate.moment is not None else span.centre
        start = min(max(centre - length / 2, span.start), span.end - length)
        span = Interval(start, start + length)
    return (replace(candidate, span=span, frames=frames),)


def _last_resort(anchors: PrefixBundle, looks: int, settings: TraceSettings) -> int:
    """Frames of one call over all anchors if every look finds one; over half the storyboard if there are none."""
    everything = frames_in(anchors) + looks * settings.least_anchor_frames
    return everything if anchors else max(everything, settings.storyboard_frames // 2)


def action_costs(anchors: PrefixBundle, settings: TraceSettings) -> dict[str, int]:
    """Frames that each action costs at least: its look, and reading and replaying the bundle that it leaves."""
    bundle = frames_in(anchors)
    look = settings.least_candidate_frames + settings.least_anchor_frames
    return {"DROP": bundle, "REFINE": look + bundle, "EXPAND": look + bundle}


def bundle_frames(bundles: Sequence[PrefixBundle]) -> int:
    """Frames that Evidence Assembly supplies for these bundles: the sum of their sizes."""
    return sum(frames_in(bundle) for bundle in bundles)
