"""Planning a round before it starts, so that no round is begun that the budget cannot finish.

Counts supplied frames alone. A round that looks at candidates must also be able to assemble the bundles they make and
to replay the largest of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.agent.records import frames_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.records import PrefixBundle
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.records.trace import Candidate


def candidate_frames(candidate: Candidate, settings: TraceSettings) -> int:
    """At most this many frames are seen when a candidate is looked at; a closer look may take twice as many."""
    limit = settings.candidate_frames * (2 if candidate.replaces else 1)
    return min(limit, max(1, round(candidate.span.length * candidate.strategy.fps)))


def affordable(
    candidates: Sequence[Candidate], anchors: PrefixBundle, remaining: int, settings: TraceSettings
) -> tuple[Candidate, ...]:
    """As many of the first candidates as a whole round with them fits into what remains."""
    for count in range(len(candidates), 0, -1):
        if round_frames(candidates[:count], anchors, settings) <= remaining:
            return tuple(candidates[:count])
    return ()


def round_frames(candidates: Sequence[Candidate], anchors: PrefixBundle, settings: TraceSettings) -> int:
    """The most frames that a round with these candidates can cost if new anchors come last, replay included."""
    replaced = {candidate.replaces for candidate in candidates}
    first_new = next((n for n, anchor in enumerate(anchors) if anchor.id in replaced), len(anchors))
    sizes = [len(anchor.clip.frames) for anchor in anchors if anchor.id not in replaced]
    sizes += [settings.most_anchor_frames] * len(candidates)
    bundles = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    looking = sum(candidate_frames(candidate, settings) for candidate in candidates)
    return looking + sum(bundles[first_new:]) + bundles[-1]


def bundle_frames(bundles: Sequence[PrefixBundle]) -> int:
    """Frames that Evidence Assembly supplies for these bundles: the sum of their sizes."""
    return sum(frames_in(bundle) for bundle in bundles)


def reordering_frames(anchors: PrefixBundle) -> int:
    """The most that a new order can cost: a view of each anchor, every bundle in the dearest order, and replay."""
    sizes = sorted((len(anchor.clip.frames) for anchor in anchors), reverse=True)
    return len(sizes) + sum(sum(sizes[: n + 1]) for n in range(len(sizes))) + sum(sizes)
