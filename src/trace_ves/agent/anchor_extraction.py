"""Anchor Extraction: look at each candidate, and turn the part that shows evidence into a short raw clip.

An anchor has frames of its look. A look without evidence gives no anchor, but is recorded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Final

from pydantic import BaseModel

from trace_ves.agent.anchors import Inquiry, Look, PrefixBundle, SeenEvent, VisualAnchor, format_span, load_prompt
from trace_ves.agent.exploration import fill_gaps, overlaps_mostly, pick_evenly
from trace_ves.agent.reply_fields import LISTED, AnyRelevance, Words
from trace_ves.agent.settings import STRATEGIES, TraceSettings
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import up_to
from trace_ves.core import Clip, Interval, ObservationStrategy
from trace_ves.core.interval import iou
from trace_ves.records.search import Candidate, Relevance

PROMPT: Final = load_prompt("anchor-extraction")
AROUND_SECONDS: Final = 2.5  # A look has frames this long before and after the moment that suggested it
BESIDE_SECONDS: Final = 10.0  # The model may request a closer look this long before or after a look
SHORTEST_ANCHOR_SECONDS: Final = 2.0
"""The shortest time that the frames of an anchor cover; frames closer together look the same."""
SAME_FRAME_SECONDS: Final = 0.4  # Two moments this close to each other are one frame of a look


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
    preview: Sequence[float],
    seen: Sequence[float],
) -> tuple[Look, ...]:
    """Look at all these candidates in one batch.

    A look repeats the moments of `preview`, those of the storyboard and the scan, and avoids the moments of `seen`.
    """
    clips = [make_look_clip(inquiry, candidate, preview, seen) for candidate in candidates]
    evidence = [
        format_span(anchor.clip.span) | {"seen": anchor.seen}
        for anchor in sorted(anchors, key=lambda anchor: anchor.clip.span)
    ]
    variables = inquiry.variables(claims=inquiry.claim_variables(), found=evidence)
    replies = inquiry.observer.ask([Request(PROMPT, variables, ExtractionReply, clips=(clip,)) for clip in clips])
    return tuple(
        _make_look(*entry, has_evidence=bool(evidence)) for entry in zip(candidates, clips, replies, strict=True)
    )


def make_look_clip(inquiry: Inquiry, candidate: Candidate, preview: Sequence[float], seen: Sequence[float]) -> Clip:
    """The frames of a look: those of the preview near its moment, around its moment, and in the widest gaps."""
    span, frames, moment = candidate.span, candidate.frames or 1, candidate.moment
    moments: list[float] = []
    if moment is not None:
        inside = sorted((time for time in preview if time in span), key=lambda time: abs(time - moment))
        around = [moment, moment - AROUND_SECONDS, moment + AROUND_SECONDS]
        for time in [*inside[: frames - 2], *around]:
            is_new = all(abs(time - other) > SAME_FRAME_SECONDS for other in moments)
            if len(moments) < frames and time in span and is_new:
                moments.append(time)
    moments += fill_gaps(span, {*moments, *seen}, frames - len(moments))
    strategy = ObservationStrategy(frames / max(span.length, 0.1), candidate.strategy.height)
    return Clip(span, strategy, inquiry.observer.frames_at(sorted(moments), height=strategy.height))


def _make_look(candidate: Candidate, clip: Clip, reply: ExtractionReply | ModelFault, *, has_evidence: bool) -> Look:
    if isinstance(reply, ModelFault):
        return Look(candidate, clip)
    events = [event for entry in reply.spans if (event := _clip_event(entry, clip.span))]
    # a relevant look without spans is one event, unless it may continue earlier evidence
    if not reply.spans and reply.relevant is Relevance.YES and not has_evidence:
        events = [SeenEvent(clip.span, frozenset(candidate.claims))]
    relevant = Relevance.NO if reply.spans and not events else reply.relevant
    near = Interval(max(0.0, clip.span.start - BESIDE_SECONDS), clip.span.end + BESIDE_SECONDS)
    between = tuple(moment for moment in reply.look_between if moment in near)
    return Look(candidate, clip, relevant, reply.seen, tuple(events), between)


def _clip_event(entry: SpanReply, whole: Interval) -> SeenEvent | None:
    """The model's span, clipped to the look; None if it is outside or reversed."""
    start, end = max(entry.start, whole.start), min(entry.end, whole.end)
    return SeenEvent(Interval(start, end), frozenset(entry.claims)) if start <= end else None


def plan_closer_looks(looks: Sequence[Look], whole: Interval, settings: TraceSettings) -> tuple[Candidate, ...]:
    """Closer looks where the model was not sure: at the moments it named, else in the middle of its spans.

    Moments close together become one look, with a frame for each.
    """
    fast = STRATEGIES["fast-motion"]
    candidates: list[Candidate] = []
    for look in looks:
        if look.relevant is Relevance.YES:
            continue
        middles = [event.span.centre for event in look.events] if look.relevant is Relevance.PERHAPS else []
        moments = [moment for moment in look.between or middles if moment in whole]
        for group in _group_neighbours(moments):
            if any(group[0] in other.span and group[-1] in other.span for other in candidates):
                continue
            frames = min(max(len(group), settings.least_candidate_frames), settings.candidate_frames)
            half = max(frames / fast.fps, group[-1] - group[0] + 1) / 2
            centre = (group[0] + group[-1]) / 2
            span = Interval(max(whole.start, centre - half), min(whole.end, centre + half))
            moment = centre if len(group) == 1 else None
            strategy = replace(fast, height=look.clip.strategy.height)
            candidates.append(Candidate(span, strategy, frames, moment=moment))
    return tuple(candidates)


def _group_neighbours(moments: Iterable[float]) -> list[list[float]]:
    """Group the moments; neighbours in a group are at most `AROUND_SECONDS` apart."""
    groups: list[list[float]] = []
    for moment in sorted(moments):
        if groups and moment - groups[-1][-1] <= AROUND_SECONDS:
            groups[-1].append(moment)
        else:
            groups.append([moment])
    return groups


def drop_repeats(
    events: Sequence[tuple[Look, SeenEvent]], anchors: Sequence[VisualAnchor], seen: Sequence[float], longest_gap: float
) -> list[tuple[Look, SeenEvent]]:
    """The events, without those that repeat an anchor, a surer event or a longer one.

    Two events on the same claims are one if they mostly overlap, or if they are at most `longest_gap` apart and no
    frame between them shows anything else. Two events of one look are distinct, unless they are almost the same.
    """
    earlier = [SeenEvent(anchor.clip.span, anchor.claims) for anchor in anchors]
    evidence = [event.span for event in (*earlier, *(event for _, event in events))]
    empty = [moment for moment in seen if not any(moment in span for span in evidence)]

    def repeats(one: SeenEvent, other: SeenEvent) -> bool:
        if one.claims and other.claims and one.claims.isdisjoint(other.claims):
            return False
        first, second = sorted((one.span, other.span))
        adjoin = second.start - first.end <= longest_gap
        return overlaps_mostly(first, second) or (adjoin and not any(first.end < t < second.start for t in empty))

    distinct: list[tuple[Look, SeenEvent]] = []
    for look, event in sorted(
        events, key=lambda entry: (entry[0].relevant is not Relevance.YES, -entry[1].span.length)
    ):
        same_look = [other.span for other_look, other in distinct if other_look is look]
        others = [*earlier, *(other for other_look, other in distinct if other_look is not look)]
        if look.candidate.replaces is not None:
            others = []
        if not any(iou(event.span, span) > 0.5 for span in same_look) and not any(repeats(event, o) for o in others):
            distinct.append((look, event))
    return [entry for entry in events if entry in distinct]


def make_anchor(
    inquiry: Inquiry,
    name: str,
    evidence: tuple[Look, SeenEvent],
    frames: int,
    settings: TraceSettings,
    *,
    seen: Sequence[float] = (),
) -> VisualAnchor:
    """An anchor of at most this many frames: those of the look that show the event, and more between them if too few.

    If the look saw only a part or the result, the anchor has one of its frames and moments that the model requested.
    """
    look, event = evidence
    span, is_sure = event.span, look.relevant is Relevance.YES
    requested = _find_requested(look, event, seen)
    moments = [frame.seconds for frame in look.clip.frames if frame.seconds in span]
    if not moments:
        moments = [min((f.seconds for f in look.clip.frames), key=lambda seconds: abs(seconds - span.centre))]
    if requested and frames > 1:
        picks = pick_evenly(requested, min(frames - 1, len(requested)))
        moments = sorted([*picks, min(moments, key=lambda seconds: abs(seconds - picks[-1]))])
        span = Interval(moments[0], moments[-1])
    if len(moments) > frames:
        spare = (len(moments) - frames) // 2
        moments = moments[spare : spare + frames]
        span = Interval(moments[0], moments[-1])
    missing = min(settings.least_anchor_frames, frames) - len(moments)
    if missing > 0:
        if len(moments) == 1:  # an event in one frame is brief; one seen only in part continues beside the frame
            half = SHORTEST_ANCHOR_SECONDS / 2 if is_sure else AROUND_SECONDS
            near = Interval(max(0.0, moments[0] - half), moments[0] + half)
            span = (span.intersection(near) if is_sure else None) or near
        span = _widen(span, moments, inquiry.observer.whole)
        moments = sorted(moments + fill_gaps(span, moments, missing))
    claims = event.claims or frozenset(look.candidate.claims)
    clip = _make_clip(inquiry, span, moments, look.clip.strategy.height)
    requests = tuple(moment for moment in requested if moment not in moments)
    return VisualAnchor(name, look.candidate, clip, seen=look.seen, claims=claims, is_sure=is_sure, requests=requests)


def _find_requested(look: Look, event: SeenEvent, seen: Sequence[float]) -> list[float]:
    """The largest group of unseen moments that the model requested near an event seen in part."""
    if look.relevant is not Relevance.PERHAPS:
        return []
    near = Interval(max(0.0, event.span.start - AROUND_SECONDS), event.span.end + AROUND_SECONDS)
    unseen = [m for m in look.between if m in near and all(abs(m - other) > SAME_FRAME_SECONDS for other in seen)]
    return max(_group_neighbours(unseen), key=len, default=[])


def add_frames(inquiry: Inquiry, bundle: PrefixBundle, spare: int) -> PrefixBundle:
    """The anchors with up to this many more frames: unseen moments that the model requested."""
    anchors: list[VisualAnchor] = []
    for anchor in bundle:
        extra, strategy = anchor.requests[: max(0, spare)], anchor.clip.strategy
        spare -= len(extra)
        moments = sorted([*(frame.seconds for frame in anchor.clip.frames), *extra])
        span = Interval(min(anchor.clip.span.start, *moments), max(anchor.clip.span.end, *moments))
        anchors.append(replace(anchor, clip=_make_clip(inquiry, span, moments, strategy.height)) if extra else anchor)
    return tuple(anchors)


def _make_clip(inquiry: Inquiry, span: Interval, moments: Sequence[float], height: int) -> Clip:
    frames = inquiry.observer.frames_at(moments, height=height)
    return Clip(span, ObservationStrategy(len(frames) / max(span.length, 0.1), height), frames)


def _widen(span: Interval, moments: Sequence[float], whole: Interval) -> Interval:
    """The span, extended to its frames and to the shortest length of an anchor."""
    start, end = min(span.start, *moments), max(span.end, *moments)
    wider = max(0.0, SHORTEST_ANCHOR_SECONDS - (end - start)) / 2
    return Interval(max(whole.start, start - wider), min(whole.end, end + wider))
