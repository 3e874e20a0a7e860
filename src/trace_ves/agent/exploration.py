"""What has been seen well enough: the timeline without the gaps between frames in which an event could hide.

A coarse look removes nothing: what its spacing could not have shown stays unexplored. Whether a count is complete
follows from the same rule.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from trace_ves.core import Interval
from trace_ves.core.interval import union

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.agent.anchors import VisualAnchor
    from trace_ves.agent.settings import TraceSettings


def unexplored(whole: Interval, moments: Iterable[float], spacing_seconds: float) -> tuple[Interval, ...]:
    """R: the gaps between neighbouring frames that are wider than this; gaps that share a frame are one segment."""
    borders = sorted({whole.start, whole.end, *(moment for moment in moments if moment in whole)})
    return union(Interval(before, after) for before, after in pairwise(borders) if after - before > spacing_seconds)


def counting_spacing(anchors: Iterable[VisualAnchor], settings: TraceSettings) -> float:
    """The spacing through which no occurrence slips that is like those found: a part of the shortest of them."""
    shortest = min((anchor.clip.span.length for anchor in anchors), default=0.0)
    return max(settings.seen_spacing_seconds, settings.occurrence_share * shortest)
