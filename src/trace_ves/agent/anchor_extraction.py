"""Anchor Extraction: look at each candidate, and keep the part that shows evidence as a short raw clip.

An anchor keeps the look's own frames. A look that shows no evidence gives no anchor and stays on record.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel

from trace_ves.agent.anchors import Look, SeenEvent, VisualAnchor
from trace_ves.agent.exploration import overlap_mostly, spread
from trace_ves.agent.reply_fields import LISTED, AnyRelevance, Words
from trace_ves.agent.settings import STRATEGIES
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import up_to
from trace_ves.core import Clip, Interval, ObservationStrategy
from trace_ves.core.interval import iou
from trace_ves.records.search import Candidate, Relevance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.anchors import Inquiry
    from trace_ves.agent.settings import TraceSettings

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "anchor-extraction")
AROUND_SECONDS: Final = 2.5  # A look has frames so far before and after the moment that suggested it
SHORTEST_ANCHOR_SECONDS: Final = 2.0
"""The shortest time that the frames of an anchor cover; closer frames look the same."""
SAME_FRAME_SECONDS: Final = 0.4  # Two moments so close to each other are one frame of a look


class SpanReply(BaseModel):
    """One event in a look."""

    start: float
    end: float
    claims: Annotated[list[Words], LISTED, up_to(64)]


class ExtractionReply(BaseModel):
    """What the look shows, whether it is evidence, and where."""

    seen: Annotated[Words, up_to(1000)]
    relevant: AnyRelevance
    spans: Annotated[list[SpanReply], LISTED, up_to(8)]
    look_between: Annotated[list[float], LISTED, up_to(8)]


def extract(
    inquiry: Inquiry,
    candidates: Sequence[Candidate],
    anchors: Sequence[VisualAnchor],
    shown: Sequence[float],
    seen: Sequence[float],
) -> tuple[Look, ...]:
    """Look at all these candidates in one batch.

    `shown` are the moments of the storyboard and the scan, which a look repeats; `seen` those of earlier looks, between
    which it lies.
    """
    clips = [look_clip(inquiry, candidate, shown, seen) for candidate in candidates]
    found = [
        {"start": round(anchor.clip.span.start, 1), "end": round(anchor.clip.span.end, 1), "seen": anchor.seen}
        for anchor in sorted(anchors, key=lambda anchor: anchor.clip.span)
    ]
    variables = inquiry.variables(claims=inquiry.claim_variables(), found=found)
    replies = inquiry.observer.ask([Request(PROMPT, variables, ExtractionReply, clips=(clip,)) for clip in clips])
    return tuple(_look(*entry, known=bool(found)) for entry in zip(candidates, clips, replies, strict=True))


def look_clip(inquiry: Inquiry, candidate: Candidate, shown: Sequence[float], seen: Sequence[float]) -> Clip:
    """The frames of a look: around its moment with what was shown there already, and in the widest gaps of its span."""
    span, frames, moment = candidate.span, candidate.frames or 1, candidate.moment
    moments: list[float] = []
    if moment is not None:
        inside = sorted((time for time in shown if time in span), key=lambda time: abs(time - moment))
        around = [moment, moment - AROUND_SECONDS, moment + AROUND_SECONDS]
        for time in [*inside[: frames - 2], *around]:
            is_new = all(abs(time - other) > SAME_FRAME_SECONDS for other in moments)
            if len(moments) < frames and time in span and is_new:
                moments.append(time)
    moments += spread(span, {*moments, *seen}, frames - len(moments))
    strategy = ObservationStrategy(frames / max(span.length, 0.1), candidate.strategy.height)
    return Clip(span, strategy, inquiry.observer.frames_at(sorted(moments), height=strategy.height))


def _look(candidate: Candidate, clip: Clip, reply: ExtractionReply | ModelFault, *, known: bool) -> Look:
    if isinstance(reply, ModelFault):
        return Look(candidate, clip)
    events = [event for entry in reply.spans if (event := _inside(entry, clip.span))]
    if not reply.spans and reply.relevant is Relevance.YES and not known:  # else it continues what is known
        events = [SeenEvent(clip.span, frozenset(candidate.claims))]
    relevant = Relevance.NO if reply.spans and not events else reply.relevant
    between = tuple(moment for moment in reply.look_between if moment in clip.span)
    return Look(candidate, clip, relevant, reply.seen, tuple(events), between)


def _inside(entry: SpanReply, whole: Interval) -> SeenEvent | None:
    """The model's span, cut to the look; None where it lies outside or makes no sense."""
    start, end = max(entry.start, whole.start), min(entry.end, whole.end)
    return SeenEvent(Interval(start, end), frozenset(entry.claims)) if start <= end else None


def closer_looks(looks: Sequence[Look], settings: TraceSettings) -> tuple[Candidate, ...]:
    """A close look at each place that the model was not sure of: what it named, else the middle of its span."""
    strategy = STRATEGIES["fast-motion"]
    frames = settings.least_candidate_frames
    candidates: list[Candidate] = []
    for look in looks:
        middles = [event.span.centre for event in look.events] if look.relevant is Relevance.PERHAPS else []
        for moment in look.between or middles:
            half = frames / strategy.fps / 2
            span = Interval(max(look.clip.span.start, moment - half), min(look.clip.span.end, moment + half))
            if look.relevant is not Relevance.YES and not any(moment in other.span for other in candidates):
                candidates.append(
                    Candidate(span, replace(strategy, height=look.clip.strategy.height), frames, moment=moment)
                )
    return tuple(candidates)


def without_repeats(
    events: Sequence[tuple[Look, SeenEvent]], anchors: Sequence[VisualAnchor], seen: Sequence[float], longest_gap: float
) -> list[tuple[Look, SeenEvent]]:
    """The events, without those that show the same as a longer one or as an anchor.

    Two events on the same claims are one if they mostly overlap, or if they are no farther apart than `longest_gap` and
    no frame between them shows anything else. Two events of one look are two, unless they are almost the same.
    """
    known = [SeenEvent(anchor.clip.span, anchor.claims) for anchor in anchors]
    evidence = [event.span for event in (*known, *(event for _, event in events))]
    apart = [moment for moment in seen if not any(moment in span for span in evidence)]

    def repeats(one: SeenEvent, other: SeenEvent) -> bool:
        if one.claims and other.claims and one.claims.isdisjoint(other.claims):
            return False
        first, second = sorted((one.span, other.span))
        adjoin = second.start - first.end <= longest_gap
        return overlap_mostly(first, second) or (adjoin and not any(first.end < t < second.start for t in apart))

    chosen: list[tuple[Look, SeenEvent]] = []
    for look, event in sorted(events, key=lambda entry: -entry[1].span.length):
        same_look = [other.span for its, other in chosen if its is look]
        others = [*known, *(other for its, other in chosen if its is not look)]
        if look.candidate.replaces is not None:
            others = []
        if not any(iou(event.span, span) > 0.5 for span in same_look) and not any(repeats(event, o) for o in others):
            chosen.append((look, event))
    return [entry for entry in events if entry in chosen]


def make_anchor(
    inquiry: Inquiry, name: str, evidence: tuple[Look, SeenEvent], frames: int, settings: TraceSettings
) -> VisualAnchor:
    """An anchor of at most so many frames: the look's own frames of the event, and more between them if too few."""
    look, event = evidence
    span = event.span
    moments = [frame.seconds for frame in look.clip.frames if frame.seconds in span]
    if not moments:
        moments = [min((f.seconds for f in look.clip.frames), key=lambda seconds: abs(seconds - span.centre))]
    if len(moments) > frames:
        spare = (len(moments) - frames) // 2
        moments = moments[spare : spare + frames]
        span = Interval(moments[0], moments[-1])
    missing = min(settings.least_anchor_frames, frames) - len(moments)
    if missing > 0:
        if len(moments) == 1:  # what one frame shows may be brief
            half = SHORTEST_ANCHOR_SECONDS / 2
            near = Interval(max(0.0, moments[0] - half), moments[0] + half)
            span = span.intersection(near) or near
        span = _at_least(span, moments, inquiry.observer.whole)
        moments = sorted(moments + spread(span, moments, missing))
    kept = inquiry.observer.frames_at(moments, height=look.clip.strategy.height)
    strategy = ObservationStrategy(len(kept) / max(span.length, 0.1), look.clip.strategy.height)
    claims = event.claims or frozenset(look.candidate.claims)
    return VisualAnchor(name, look.candidate, Clip(span, strategy, kept), seen=look.seen, claims=claims)


def _at_least(span: Interval, moments: Sequence[float], whole: Interval) -> Interval:
    """The span with its frames, made long enough for frames that differ."""
    start, end = min(span.start, *moments), max(span.end, *moments)
    wider = max(0.0, SHORTEST_ANCHOR_SECONDS - (end - start)) / 2
    return Interval(max(whole.start, start - wider), min(whole.end, end + wider))
