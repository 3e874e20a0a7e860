"""Anchor Extraction: look at each candidate, and keep a shorter raw clip of it, or nothing where it is irrelevant."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from trace_ves.agent.records import VisualAnchor
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.core import Clip, Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.records import Inquiry
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.core import Frame
    from trace_ves.records.trace import Candidate

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "anchor-extraction")


class ExtractionReply(BaseModel):
    """Whether the clip matters to the question, and which part of it."""

    model_config = ConfigDict(extra="ignore")

    relevant: bool
    start: float | None = None
    end: float | None = None


def watch(inquiry: Inquiry, candidate: Candidate, settings: TraceSettings) -> Clip:
    """Decode a candidate under its strategy; a closer look at an anchor may take twice the frames."""
    limit = settings.candidate_frames * (2 if candidate.replaces else 1)
    return inquiry.observer.watch(candidate.span, candidate.strategy, limit=limit)


def extract(
    inquiry: Inquiry, candidates: Sequence[Candidate], names: Sequence[str], settings: TraceSettings
) -> tuple[VisualAnchor | None, ...]:
    """Look at all candidates of a round in one batch; one anchor, or None, for each."""
    clips = [watch(inquiry, candidate, settings) for candidate in candidates]
    replies = inquiry.observer.ask(
        [
            Request(PROMPT, inquiry.variables(claims=inquiry.claim_variables()), ExtractionReply, clips=(clip,))
            for clip in clips
        ]
    )
    return tuple(
        _anchor(name, candidate, clip, reply, settings)
        for name, candidate, clip, reply in zip(names, candidates, clips, replies, strict=True)
    )


def _anchor(
    name: str, candidate: Candidate, clip: Clip, reply: ExtractionReply | ModelFault, settings: TraceSettings
) -> VisualAnchor | None:
    if isinstance(reply, ModelFault) or not reply.relevant:
        return None
    span = _inside(reply, clip.span)
    frames = keep_frames(clip.frames, span, least=settings.least_anchor_frames, most=settings.most_anchor_frames)
    seen = Interval(min(span.start, frames[0].seconds), max(span.end, frames[-1].seconds))
    return VisualAnchor(name, candidate, Clip(seen, clip.strategy, frames))


def _inside(reply: ExtractionReply, whole: Interval) -> Interval:
    """The model's span, cut to the candidate; the whole candidate where it makes no sense."""
    start = whole.start if reply.start is None else max(reply.start, whole.start)
    end = whole.end if reply.end is None else min(reply.end, whole.end)
    return Interval(start, end) if whole.start <= start <= end <= whole.end else whole


def keep_frames(frames: Sequence[Frame], span: Interval, *, least: int, most: int) -> tuple[Frame, ...]:
    """A handful of the frames already seen: those in the span, thinned evenly, or filled up from its neighbourhood."""
    inside = [frame for frame in frames if frame.seconds in span]
    if len(inside) > most:
        step = (len(inside) - 1) / (most - 1)
        return tuple(inside[round(index * step)] for index in range(most))
    nearest = sorted(frames, key=lambda frame: (frame.seconds not in span, abs(frame.seconds - span.centre)))
    return tuple(sorted(nearest[: max(least, len(inside))], key=lambda frame: frame.seconds))
