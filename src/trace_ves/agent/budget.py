"""Planning a round before it starts, so that the whole trajectory of what it finds can be read and replayed.

Counts supplied frames only. A round reserves its looks, the growing bundles that its candidates are likely to bring,
and a replay; later the largest bundle and its replay; and always one call over everything that was found.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.agent.anchors import PrefixBundle, frames_in
from trace_ves.core import Interval

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.records.search import Candidate

TIERS: Final = 3  # The reserves of a round: a whole trajectory, its largest bundle, one call over everything


def affordable(
    candidates: Sequence[Candidate], anchors: PrefixBundle, remaining: int, reading: int, settings: TraceSettings
) -> tuple[Candidate, ...]:
    """The first candidates that can be paid for beside the largest reserve that leaves a look; else one smaller look.

    `reading` is the largest reserve: the frames that earn a stop with a whole trajectory.
    """
    counts = range(len(candidates), 0, -1)
    for tier, count in itertools.product(range(TIERS), counts):
        chosen = tuple(candidates[:count])
        if count > 1 and looking_frames(chosen) > settings.look_frames_per_round:
            continue
        if looking_frames(chosen) + _reserves(anchors, count, reading, settings)[tier] <= remaining:
            return chosen
    return last_look(candidates[0], anchors, remaining, settings) if candidates else ()


def affordable_looks(anchors: PrefixBundle, remaining: int, reading: int, settings: TraceSettings) -> int:
    """How many looks of the usual size can be paid for now, beside the largest reserve that leaves one."""
    for reserve in _reserves(anchors, 1, reading, settings):
        left = min(remaining - reserve, settings.look_frames_per_round)
        if left >= settings.candidate_frames:
            return min(settings.candidates_per_round, left // settings.candidate_frames)
    return 0


def _reserves(anchors: PrefixBundle, looks: int, reading: int, settings: TraceSettings) -> tuple[int, ...]:
    """What looks leave, in order of preference.

    The whole trajectory with one new anchor more and its replay; the largest bundle of it and its replay, which can
    still earn a stop; one call over everything if every look finds something.
    """
    last_resort = _last_resort(anchors, looks, settings)
    largest = frames_in(anchors) + settings.least_anchor_frames
    return max(reading, last_resort), max(2 * largest, last_resort), last_resort


def looking_frames(candidates: Sequence[Candidate]) -> int:
    """Frames of the looks at these candidates."""
    return sum(candidate.frames or 0 for candidate in candidates)


def frames_that_fit(kept: int, found: int, remaining: int, settings: TraceSettings) -> int:
    """Frames for each new anchor: the most with which the whole trajectory and a replay can be read, else the least.

    Where not even the least can be read all together, fewer.
    """
    for each in range(settings.most_anchor_frames, settings.least_anchor_frames, -1):
        sizes = [kept + number * each for number in range(1, found + 1)]
        if sum(sizes) + kept + found * each <= remaining:  # the last is the replay of the largest
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
