"""Temporal Proposal: where to look next, and how closely.

The first call sees the storyboard and also writes notes on its scenes; a scan sees frames between those; later calls
get the notes as words. Evidence Assembly and replay see only raw clips, never the notes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Final

from pydantic import BaseModel

from trace_ves.agent.anchors import Inquiry, Look, VisualAnchor, load_prompt, span_variables
from trace_ves.agent.exploration import unexplored
from trace_ves.agent.reply_fields import LISTED, Seconds, Words
from trace_ves.agent.settings import STRATEGIES, LookFor, TraceSettings
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import up_to
from trace_ves.core import Clip, Interval, ObservationStrategy
from trace_ves.core.interval import clipped, subtract
from trace_ves.records.search import Candidate, SegmentNote

PROMPT: Final = load_prompt("temporal-proposal")
REOPENED: Final = (1, 2, 4)
"""How many times the rate of a look a span is searched at: closer where it was looked at already."""

ADJOINING_SECONDS: Final = 2.0  # A span no farther from another for the same claims continues it

_PICTURES: Final = {
    "Storyboard": "Above is the storyboard: frames spread evenly over the whole video, each with its time. "
    "Many seconds lie between two of them.",
    "Scan": "Above is a scan: single frames between the frames of the storyboard, which the notes describe.",
    "": "You see no frames now; the notes describe what was seen before.",
}
_NOTES: Final = {
    "Storyboard": "one note for each scene, in at most 40 words: where it takes place and what happens. "
    "Set promising to true if something that the question asks about is or may be seen there, else to false",
    "Scan": "one note for each frame that shows something the notes do not say, in at most 40 words; "
    "promising is true if the question asks about it",
    "": "an empty list",
}


class CandidateReply(BaseModel):
    """One span worth a closer look."""

    start: float
    end: float
    moment: Seconds
    claims: Annotated[list[Words], LISTED, up_to(64)]
    look_for: LookFor


class NoteReply(BaseModel):
    """What a scene of the storyboard shows."""

    start: float
    end: float
    note: Annotated[Words, up_to(300)]
    promising: bool


class ProposalReply(BaseModel):
    """Spans worth a closer look, the most promising first, and notes for later."""

    notes: Annotated[list[NoteReply], LISTED, up_to(64)]
    candidates: Annotated[list[CandidateReply], LISTED, up_to(64)]
    one_frame: bool = True


@dataclass(frozen=True, slots=True)
class ProposedCandidates:
    """P_t: the candidates of a round, the notes that were made, and what the rules refused."""

    candidates: tuple[Candidate, ...] = ()
    notes: tuple[SegmentNote, ...] = ()
    refused: tuple[str, ...] = ()
    one_frame: bool = True  # Whether a single frame can show what is open, so that a scan may find it


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """What a proposal goes by: what is seen, known and needed."""

    whole: Interval
    seen: tuple[float, ...] = ()  # The moments that count as looked at
    spacing: float = 5.0  # The spacing at which segments count as explored
    focus: tuple[Interval, ...] = ()  # What EXPAND named: these parts of R come first
    anchors: tuple[VisualAnchor, ...] = ()
    looks: tuple[Look, ...] = ()  # Looks that found nothing
    needs: frozenset[str] = frozenset()
    notes: tuple[SegmentNote, ...] = ()
    chosen: tuple[Candidate, ...] = ()  # Candidates of this round that were proposed already
    limit: int = 5  # How many looks can be paid for, those at the chosen candidates included
    counts: bool = False  # Whether the question is a count, so that neighbouring spans can hold two occurrences

    @property
    def unexplored(self) -> tuple[Interval, ...]:
        """R, those segments first that EXPAND named."""
        segments = unexplored(self.whole, self.seen, self.spacing)
        taken = [*self.focus, *(candidate.span for candidate in self.chosen)]
        rest = (left for piece in segments for left in subtract(piece, taken, shortest=1.0))
        return (*self.focus, *rest)


def propose(
    inquiry: Inquiry, pictures: Clip | None, context: ProposalContext, settings: TraceSettings
) -> ProposedCandidates:
    """Ask for new candidates: with the storyboard, with a scan, or with only the notes."""
    title = pictures.title if pictures is not None else ""
    request = Request(
        PROMPT,
        inquiry.variables(
            duration=round(inquiry.observer.video.duration, 1),
            pictures=_PICTURES[title],
            notes=note_variables(context.notes),
            anchors=[span_variables(anchor.clip.span) | {"seen": anchor.seen} for anchor in context.anchors],
            looks=look_variables(context.looks),
            unexplored_segments=[span_variables(piece) for piece in context.unexplored],
            notes_wanted=_NOTES[title],
            claims=inquiry.claim_variables(),
            unmet_needs=inquiry.open_claims(context.needs),
            limit=context.limit - len(context.chosen),
            look_seconds=round(settings.longest_look(STRATEGIES["general"])),
            fast_seconds=round(settings.longest_look(STRATEGIES["fast-motion"])),
        ),
        ProposalReply,
        clips=(pictures,) if pictures is not None else (),
        subtitles=inquiry.subtitles((inquiry.observer.whole,), settings.proposal_subtitle_chars),
    )
    (reply,) = inquiry.observer.ask([request])
    if isinstance(reply, ModelFault):
        return ProposedCandidates(notes=context.notes, refused=(f"the reply could not be read: {reply.reason}",))
    notes = [
        SegmentNote(start, note.end, note.note, note.promising)
        for note in reply.notes
        if title and (start := max(0.0, note.start)) < note.end < math.inf
    ]
    candidates, refused = valid_candidates(reply.candidates, context, settings)
    return ProposedCandidates(candidates, corrected(context.notes, notes), refused, reply.one_frame)


def note_variables(notes: Iterable[SegmentNote]) -> list[dict[str, object]]:
    """The notes, as a prompt shows them."""
    return [span_variables(Interval(n.start, n.end)) | {"note": n.note, "promising": n.promising} for n in notes]


def look_variables(looks: Iterable[Look]) -> list[dict[str, object]]:
    """Looks that found nothing, as a prompt shows them."""
    return [
        {"look": look.id} | span_variables(look.clip.span) | {"frame_every": round(look.spacing, 1)} for look in looks
    ]


def corrected(notes: Iterable[SegmentNote], newer: Iterable[SegmentNote]) -> tuple[SegmentNote, ...]:
    """The notes with newer ones in their place: what was said before of a span that was seen again no longer counts."""
    merged = [note for note in notes if note.start < note.end]
    for new in newer:
        cut = Interval(new.start, new.end)
        merged = [
            replace(note, start=left.start, end=left.end)
            for note in merged
            for left in subtract(Interval(note.start, note.end), [cut], shortest=1.0)
        ]
        merged.append(new)
    return tuple(sorted(merged, key=lambda note: (note.start, note.end)))


def valid_candidates(
    wishes: Sequence[CandidateReply], context: ProposalContext, settings: TraceSettings
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """The chosen candidates and those in unexplored parts, none over another, and what was changed or refused."""
    kept: list[Candidate] = []
    refused: list[str] = []
    for wish in wishes:
        if not context.counts and any(_adjoins(wish, other) for other in (*context.chosen, *kept)):
            refused.append(f"{wish.start:g}-{wish.end:g} s: adjoins a span that is looked at for the same claims")
            continue
        taken = [candidate.span for candidate in (*context.chosen, *kept)]
        found = _open_part(wish, taken, context, settings)
        if found is None:
            refused.append(f"{wish.start:g}-{wish.end:g} s: explored as closely as a look can, or too short")
            continue
        span, strategy = found
        looks = split(span, settings.longest_look(strategy))
        if len(looks) > 1:
            refused.append(f"{span}: longer than one look can see, split into {len(looks)}")
        hinted = next((look for look in looks if wish.moment is not None and wish.moment in look), None)
        kept += [
            candidate(
                look, strategy, settings, moment=wish.moment if look is hinted else None, claims=tuple(wish.claims)
            )
            for look in looks
        ]
    # Every place that a frame pointed to comes before the neighbours of one.
    kept.sort(key=lambda each: each.moment is None)
    room = context.limit - len(context.chosen)
    refused += [f"{each.span}: more than {context.limit} candidates" for each in kept[room:]]
    return (*context.chosen, *kept[:room]), tuple(refused)


def _adjoins(wish: CandidateReply, other: Candidate) -> bool:
    """Whether a wish only continues another candidate."""
    gap = max(wish.start - other.span.end, other.span.start - wish.end)
    return bool(wish.claims) and set(wish.claims) <= set(other.claims) and gap <= ADJOINING_SECONDS


def _open_part(
    wish: CandidateReply, taken: Sequence[Interval], context: ProposalContext, settings: TraceSettings
) -> tuple[Interval, ObservationStrategy] | None:
    """The unexplored part of a wish, and how to look at it: more closely where it was looked at before."""
    strategy = STRATEGIES[wish.look_for]
    start, end = wish.start, wish.end
    if wish.moment is not None and start <= wish.moment <= end:
        start, end = min(start, wish.moment - 2), max(end, wish.moment + 2)
    for times in REOPENED:
        segments = unexplored(context.whole, context.seen, 1.05 / (times * strategy.fps))
        known = [*taken, *(anchor.clip.span for anchor in context.anchors if times > 1)]
        pieces = [rest for piece in clipped(start, end, segments) for rest in subtract(piece, known)]
        pieces.sort(key=lambda piece: (wish.moment is not None and wish.moment in piece, piece.length), reverse=True)
        if pieces and pieces[0].length >= settings.shortest_segment:
            return pieces[0], replace(strategy, fps=times * strategy.fps)
    return None


def candidate(
    span: Interval,
    strategy: ObservationStrategy,
    settings: TraceSettings,
    *,
    moment: float | None = None,
    claims: tuple[str, ...] = (),
) -> Candidate:
    """A candidate, with the frames that a look at it takes."""
    frames = settings.look_frames(span, strategy)
    if moment is not None:  # a place that a frame pointed to is worth a full look
        frames = settings.most_look_frames(strategy)
    return Candidate(span, strategy, frames, moment=moment, claims=claims)


def split(span: Interval, longest: float) -> tuple[Interval, ...]:
    """Equal parts of a span, none longer than this."""
    parts = max(1, math.ceil(span.length / longest - 1e-9))
    borders = [span.start + span.length * part / parts for part in range(parts)] + [span.end]
    return tuple(Interval(start, end) for start, end in pairwise(borders))


def unguided(context: ProposalContext, settings: TraceSettings) -> tuple[Candidate, ...]:
    """Where to look when the model names nowhere: the middle of the longest segments, as wide as one look can see."""
    strategy = STRATEGIES["general"]
    width = settings.longest_look(strategy)
    longest = sorted(context.unexplored, key=lambda piece: (-piece.length, piece.start))
    middles = (
        Interval(max(piece.start, piece.centre - width / 2), min(piece.end, piece.centre + width / 2))
        for piece in longest[: context.limit]
    )
    return tuple(candidate(span, strategy, settings) for span in sorted(middles))
