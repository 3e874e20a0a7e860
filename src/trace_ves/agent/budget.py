"""Plans the frames of a round, so that the budget covers reading and replaying what it finds.

A round reserves frames for its looks, for the growing bundles that its candidates may lead to, and for a replay. With
less budget, it reserves the largest bundle and its replay; with even less, one call with all anchors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.agent.anchors import PrefixBundle, count_frames
from trace_ves.core import Interval

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.records.search import Candidate

TIERS: Final = 3  # The reserves of a round: a whole trajectory, its largest bundle, one call with everything


def select_affordable(
    candidates: Sequence[Candidate], anchors: PrefixBundle, remaining: int, reading: int, settings: TraceSettings
) -> tuple[Candidate, ...]:
    """The first candidates that the budget covers besides the largest possible reserve; else one smaller look.

    `reading` is the largest reserve: the frames to read a whole trajectory.
    """
    counts = range(len(candidates), 0, -1)
    for tier, count in itertools.product(range(TIERS), counts):
        first = tuple(candidates[:count])
        if count > 1 and count_look_frames(first) > settings.look_frames_per_round:
            continue
        if count_look_frames(first) + _plan_reserves(anchors, count, reading, settings)[tier] <= remaining:
            return first
    return shrink_look(candidates[0], anchors, remaining, settings) if candidates else ()


def count_looks(anchors: PrefixBundle, remaining: int, reading: int, settings: TraceSettings) -> int:
    """The number of looks of the usual size that the budget covers besides the largest possible reserve."""
    for reserve in _plan_reserves(anchors, 1, reading, settings):
        available = min(remaining - reserve, settings.look_frames_per_round)
        if available >= settings.candidate_frames:
            return min(settings.candidates_per_round, available // settings.candidate_frames)
    return 0


def _plan_reserves(anchors: PrefixBundle, looks: int, reading: int, settings: TraceSettings) -> tuple[int, ...]:
    """The frames to reserve, in order of preference.

    First the whole trajectory with one new anchor and its replay; then its largest bundle and its replay, which also
    allow a stop; then one call with all anchors, if every look finds one.
    """
    last_resort = _count_last_resort(anchors, looks, settings)
    largest = count_frames(anchors) + settings.least_anchor_frames
    return max(reading, last_resort), max(2 * largest, last_resort), last_resort


def count_look_frames(candidates: Sequence[Candidate]) -> int:
    """The frames of the looks at these candidates."""
    return sum(candidate.frames or 0 for candidate in candidates)


def choose_anchor_frames(old_frames: int, new_anchors: int, remaining: int, settings: TraceSettings) -> int:
    """Frames for each new anchor: the most with which the budget covers the whole trajectory and a replay.

    If it does not, the least; fewer if the budget does not even cover one call with all anchors.
    """
    for each in range(settings.most_anchor_frames, settings.least_anchor_frames, -1):
        sizes = [old_frames + number * each for number in range(1, new_anchors + 1)]
        if sum(sizes) + old_frames + new_anchors * each <= remaining:  # the last is the replay of the largest
            return each
    return max(1, min(settings.least_anchor_frames, (remaining - old_frames) // max(1, new_anchors)))


def shrink_look(
    candidate: Candidate, anchors: PrefixBundle, remaining: int, settings: TraceSettings
) -> tuple[Candidate, ...]:
    """A look at the middle of a candidate, with the frames that remain besides one call with all anchors."""
    available = remaining - _count_last_resort(anchors, 1, settings)
    frames = min(available, candidate.frames or available)
    if frames < settings.least_candidate_frames:
        return ()
    span, length = candidate.span, frames / candidate.strategy.fps
    if span.length > length:
        centre = candidate.moment if candidate.moment is not None else span.centre
        start = min(max(centre - length / 2, span.start), span.end - length)
        span = Interval(start, start + length)
    return (replace(candidate, span=span, frames=frames),)


def _count_last_resort(anchors: PrefixBundle, looks: int, settings: TraceSettings) -> int:
    """The frames of one call with all anchors, if every look finds one; without anchors, with half the storyboard."""
    everything = count_frames(anchors) + looks * settings.least_anchor_frames
    return everything if anchors else max(everything, settings.storyboard_frames // 2)


def estimate_action_costs(anchors: PrefixBundle, settings: TraceSettings) -> dict[str, int]:
    """The least frames that each action costs: for its look, and for reading the bundle after it."""
    bundle = count_frames(anchors)
    look = settings.least_candidate_frames + settings.least_anchor_frames
    return {"DROP": bundle, "REFINE": look + bundle, "EXPAND": look + bundle}


def sum_frames(bundles: Sequence[PrefixBundle]) -> int:
    """The frames that Evidence Assembly supplies for these bundles."""
    return sum(count_frames(bundle) for bundle in bundles)
