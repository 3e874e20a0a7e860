"""Anchor Extraction: look at each candidate, and keep a shorter raw clip of it, or nothing where it is irrelevant."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, Field

from trace_ves.agent.anchors import VisualAnchor
from trace_ves.agent.settings import STRATEGIES
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import up_to
from trace_ves.core import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.anchors import Inquiry
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.core import Clip, ObservationStrategy
    from trace_ves.records.search import Candidate

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "anchor-extraction")


class ExtractionReply(BaseModel):
    """Whether the clip matters to the question, and which part of it."""

    seen: Annotated[str, up_to(1000)] = ""
    """What the frames show, before it is judged."""
    claims: Annotated[list[str], up_to(64)] = Field(default_factory=list)
    """The claims that it bears on."""
    relevant: bool
    start: float | None = None
    end: float | None = None


def extract(
    inquiry: Inquiry, candidates: Sequence[Candidate], names: Sequence[str], kept: int, settings: TraceSettings
) -> tuple[VisualAnchor | None, ...]:
    """Look at all candidates of a round in one batch; one anchor, or None, for each.

    New anchors have no more frames than can be read together with the `kept` frames of the old ones.
    """
    clips = [_look(inquiry, candidate, settings) for candidate in candidates]
    replies = inquiry.observer.ask(
        [
            Request(PROMPT, inquiry.variables(claims=inquiry.claim_variables()), ExtractionReply, clips=(clip,))
            for clip in clips
        ]
    )
    found = sum(not isinstance(reply, ModelFault) and reply.relevant for reply in replies)
    most = min(settings.most_anchor_frames, (inquiry.observer.remaining - kept) // max(1, found))
    return tuple(
        _anchor(inquiry, name, candidate, reply, replace(settings, most_anchor_frames=most))
        for name, candidate, reply in zip(names, candidates, replies, strict=True)
    )


def _anchor(
    inquiry: Inquiry, name: str, candidate: Candidate, reply: ExtractionReply | ModelFault, settings: TraceSettings
) -> VisualAnchor | None:
    if isinstance(reply, ModelFault) or not reply.relevant:
        return None
    frames = anchor_frames(candidate.strategy, settings)
    span = _middle(_inside(reply, candidate.span), frames * settings.look_spacing(candidate.strategy))
    clip = inquiry.observer.survey(span, frames, height=candidate.strategy.height)
    inside = tuple(frame for frame in clip.frames if frame.seconds in span)
    return VisualAnchor(name, candidate, replace(clip, frames=inside or clip.frames))


def _look(inquiry: Inquiry, candidate: Candidate, settings: TraceSettings) -> Clip:
    frames = candidate.frames or settings.look_frames(candidate.span, candidate.strategy)
    return inquiry.observer.survey(candidate.span, frames, height=candidate.strategy.height)


def anchor_frames(strategy: ObservationStrategy, settings: TraceSettings) -> int:
    """A handful: the least at the general rate, and one more for each doubling of it, up to the most."""
    doublings = round(math.log2(strategy.fps / STRATEGIES["general"].fps))
    return min(max(settings.least_anchor_frames + doublings, settings.least_anchor_frames), settings.most_anchor_frames)


def _middle(span: Interval, longest: float) -> Interval:
    """The middle of a span that is longer than its frames can show: frames far apart show no change."""
    if span.length <= longest:
        return span
    return Interval(span.centre - longest / 2, span.centre + longest / 2)


def _inside(reply: ExtractionReply, whole: Interval) -> Interval:
    """The model's span, cut to the candidate; the whole candidate where it makes no sense."""
    start = whole.start if reply.start is None else max(reply.start, whole.start)
    end = whole.end if reply.end is None else min(reply.end, whole.end)
    return Interval(start, end) if whole.start <= start <= end <= whole.end else whole
