"""Which frames are masked and what stands in for them. Rules over timestamps; knows no video and no model.

An evidence mask covers the frames of one annotated interval. Its control covers as many frames in a row that lie
outside all evidence. Stand-ins come from the nearest moments outside all evidence, before and after the span in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, count, takewhile
from typing import TYPE_CHECKING, Final

from trace_ves.core import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

WIDEST_STEP_SECONDS: Final = 1.0
NARROWEST_STEP_SECONDS: Final = 0.04


@dataclass(frozen=True, slots=True)
class Mask:
    """Frames to be taken away, and the span they are taken from."""

    span: Interval
    timestamps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Masks:
    """One question's masks; None where the frames do not allow one."""

    evidence: Mask | None
    control: Mask | None


def is_evidence(seconds: float, evidence: Sequence[Interval]) -> bool:
    """Whether a moment lies inside any interval."""
    return any(seconds in interval for interval in evidence)


def evidence_masks(seen: Sequence[float], evidence: Sequence[Interval]) -> list[Mask]:
    """One mask for each interval that any frame lies in."""
    inside = [(interval, tuple(seconds for seconds in seen if seconds in interval)) for interval in evidence]
    return [Mask(interval, frames) for interval, frames in inside if frames]


def control_masks(seen: Sequence[float], evidence: Sequence[Interval], size: int) -> list[Mask]:
    """Every row of `size` frames, one after the other in `seen`, that has no evidence in it."""
    rows = (tuple(seen[at : at + size]) for at in range(len(seen) - size + 1))
    return [
        Mask(Interval(row[0], row[-1]), row)
        for row in rows
        if not any(is_evidence(seconds, evidence) for seconds in row)
        and not any(row[0] <= interval.end and interval.start <= row[-1] for interval in evidence)
    ]


def choose(seen: Sequence[float], evidence: Sequence[Interval], draw: Random) -> Masks:
    """An interval at random, among those that have a control if any has; and a control at random."""
    pairs = [(mask, control_masks(seen, evidence, len(mask.timestamps))) for mask in evidence_masks(seen, evidence)]
    usable = [pair for pair in pairs if pair[1]] or pairs
    if not usable:
        return Masks(None, None)
    mask, controls = draw.choice(usable)
    return Masks(mask, draw.choice(controls) if controls else None)


def outward(mask: Mask, whole: Interval) -> Iterator[float]:
    """Moments around the masked span, nearest first, as far apart as the masked frames are but a second at most."""
    gaps = max(1, len(mask.timestamps) - 1)
    step = min(max(mask.span.length / gaps, NARROWEST_STEP_SECONDS), WIDEST_STEP_SECONDS)
    before = takewhile(lambda moment: moment >= whole.start, (mask.span.start - step * n for n in count(1)))
    after = takewhile(lambda moment: moment <= whole.end, (mask.span.end + step * n for n in count(1)))
    return _in_turn(before, after)


def _in_turn(one: Iterator[float], other: Iterator[float]) -> Iterator[float]:
    for first in one:
        yield first
        second = next(other, None)
        if second is None:
            break
        yield second
    yield from chain(one, other)
