"""Which frames are masked and what stands in for them. Rules over timestamps; knows no video and no model.

An evidence mask covers one annotated interval. Its control covers a span outside all evidence in which as many frames
were supplied over the whole search. Stand-ins come from the nearest moments outside all evidence, before and after the
span in turn.
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
    """A span, and the frames of the answer's clips that are taken away because they lie in it."""

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


def mask_of(span: Interval, clip_frames: Sequence[float]) -> Mask:
    """The mask of a span: what the clips have in it."""
    return Mask(span, tuple(seconds for seconds in clip_frames if seconds in span))


def evidence_masks(clip_frames: Sequence[float], evidence: Sequence[Interval]) -> list[Mask]:
    """One mask for each interval that any frame of the clips lies in."""
    masks = (mask_of(interval, clip_frames) for interval in evidence)
    return [mask for mask in masks if mask.timestamps]


def control_spans(supplied: Sequence[float], evidence: Sequence[Interval], size: int) -> list[Interval]:
    """Every span from one supplied frame to another that holds `size` supplied frames and touches no evidence."""
    rows = ((supplied[at], supplied[at + size - 1]) for at in range(len(supplied) - size + 1))
    spans = (Interval(first, last) for first, last in rows)
    return [span for span in spans if all(span.intersection(interval) is None for interval in evidence)]


def choose(
    clip_frames: Sequence[float], supplied: Sequence[float], evidence: Sequence[Interval], draw: Random
) -> Masks:
    """An interval at random, among those that have a control if any has; and a control at random.

    `supplied` are the timestamps of the whole log, in order of time: the control's span holds as many of them as the
    interval does. It may hold none of the clips' own frames; then nothing is taken away.
    """
    pairs = [
        (mask, control_spans(supplied, evidence, sum(seconds in mask.span for seconds in supplied)))
        for mask in evidence_masks(clip_frames, evidence)
    ]
    usable = [pair for pair in pairs if pair[1]] or pairs
    if not usable:
        return Masks(None, None)
    mask, spans = draw.choice(usable)
    return Masks(mask, mask_of(draw.choice(spans), clip_frames) if spans else None)


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
