"""Temporal Proposal: where to look next, and how closely.

The first call sees the storyboard and also writes notes on its scenes; a scan sees frames between those; later calls
see only the notes. Evidence Assembly and replay see only raw clips, never the notes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Final

from pydantic import BaseModel

from trace_ves.agent.anchors import Inquiry, Look, VisualAnchor, format_span, load_prompt
from trace_ves.agent.exploration import find_unexplored
from trace_ves.agent.reply_fields import LISTED, Seconds, Words
from trace_ves.agent.settings import STRATEGIES, LookFor, TraceSettings
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import up_to
from trace_ves.core import Clip, Interval, ObservationStrategy
from trace_ves.core.interval import clip_to_segments, subtract
from trace_ves.records.search import Candidate, SegmentNote

PROMPT: Final = load_prompt("temporal-proposal")
RATE_FACTORS: Final = (1, 2, 4)
"""Factors of a look's frame rate; spans that were looked at before get a higher one."""

ADJOINING_SECONDS: Final = 2.0  # A span at most this far from another for the same claims continues it

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
    """P_t: the candidates of a round, the model's notes, and the refused candidates."""

    candidates: tuple[Candidate, ...] = ()
    notes: tuple[SegmentNote, ...] = ()
    refused: tuple[str, ...] = ()
    one_frame: bool = True  # Whether a single frame can show what is open, so that a scan makes sense


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """The state of the search that a proposal depends on."""

    whole: Interval
    seen: tuple[float, ...] = ()  # The moments that count as seen
    spacing: float = 5.0  # The spacing at which segments count as explored
    focus: tuple[Interval, ...] = ()  # The parts of R that EXPAND named; they come first
    anchors: tuple[VisualAnchor, ...] = ()
    looks: tuple[Look, ...] = ()  # Looks that found nothing
    needs: frozenset[str] = frozenset()
    notes: tuple[SegmentNote, ...] = ()
    chosen: tuple[Candidate, ...] = ()  # Candidates already proposed in this round
    limit: int = 5  # How many looks the budget covers, including those at the chosen candidates
    counts: bool = False  # Whether the question is a count, so that adjoining spans can be two occurrences

    @property
    def unexplored(self) -> tuple[Interval, ...]:
        """R; the segments that EXPAND named come first."""
        segments = find_unexplored(self.whole, self.seen, self.spacing)
        excluded = [*self.focus, *(candidate.span for candidate in self.chosen)]
        rest = (part for piece in segments for part in subtract(piece, excluded, shortest=1.0))
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
            notes=format_notes(context.notes),
            anchors=[format_span(anchor.clip.span) | {"seen": anchor.seen} for anchor in context.anchors],
            looks=format_looks(context.looks),
            unexplored_segments=[format_span(piece) for piece in context.unexplored],
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
    candidates, refused = select_candidates(reply.candidates, context, settings)
    return ProposedCandidates(candidates, update_notes(context.notes, notes), refused, reply.one_frame)


def format_notes(notes: Iterable[SegmentNote]) -> list[dict[str, object]]:
    """The notes in the form that prompts show."""
    return [format_span(Interval(n.start, n.end)) | {"note": n.note, "promising": n.promising} for n in notes]


def format_looks(looks: Iterable[Look]) -> list[dict[str, object]]:
    """Looks that found nothing, in the form that prompts show."""
    return [{"look": look.id} | format_span(look.clip.span) | {"frame_every": round(look.spacing, 1)} for look in looks]


def update_notes(notes: Iterable[SegmentNote], newer: Iterable[SegmentNote]) -> tuple[SegmentNote, ...]:
    """Replace the parts of notes that newer notes cover."""
    merged = [note for note in notes if note.start < note.end]
    for new in newer:
        cut = Interval(new.start, new.end)
        merged = [
            replace(note, start=part.start, end=part.end)
            for note in merged
            for part in subtract(Interval(note.start, note.end), [cut], shortest=1.0)
        ]
        merged.append(new)
    return tuple(sorted(merged, key=lambda note: (note.start, note.end)))


def select_candidates(
    proposals: Sequence[CandidateReply], context: ProposalContext, settings: TraceSettings
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """The chosen candidates and new ones in unexplored parts, without overlaps, and sentences about refused ones."""
    new: list[Candidate] = []
    refused: list[str] = []
    for proposal in proposals:
        start, end, moment = proposal.start, proposal.end, proposal.moment
        if not context.counts and any(_adjoins(proposal, other) for other in (*context.chosen, *new)):
            refused.append(f"{start:g}-{end:g} s: adjoins a span that is looked at for the same claims")
            continue
        excluded = [candidate.span for candidate in (*context.chosen, *new)]
        open_part = _find_open_part(proposal, excluded, context, settings)
        if open_part is None:
            refused.append(f"{start:g}-{end:g} s: explored as closely as a look can, or too short")
            continue
        span, strategy = open_part
        looks = split_span(span, settings.longest_look(strategy))
        if len(looks) > 1:
            refused.append(f"{span}: longer than one look can see, split into {len(looks)}")
        hinted = next((look for look in looks if moment is not None and moment in look), None)
        new += [
            make_candidate(
                look, strategy, settings, moment=moment if look is hinted else None, claims=tuple(proposal.claims)
            )
            for look in looks
        ]
    new.sort(key=lambda each: each.moment is None)  # candidates with a moment come first
    room = max(0, context.limit - len(context.chosen))
    refused += [f"{each.span}: more than {context.limit} candidates" for each in new[room:]]
    return (*context.chosen, *new[:room]), tuple(refused)


def _adjoins(proposal: CandidateReply, other: Candidate) -> bool:
    """Whether a proposal only continues another candidate."""
    gap = max(proposal.start - other.span.end, other.span.start - proposal.end)
    return bool(proposal.claims) and set(proposal.claims) <= set(other.claims) and gap <= ADJOINING_SECONDS


def _find_open_part(
    proposal: CandidateReply, excluded: Sequence[Interval], context: ProposalContext, settings: TraceSettings
) -> tuple[Interval, ObservationStrategy] | None:
    """The unexplored part of a proposal, and how to look at it: more closely if it was looked at before."""
    strategy, moment = STRATEGIES[proposal.look_for], proposal.moment
    start, end = proposal.start, proposal.end
    if moment is not None and start <= moment <= end:
        start, end = min(start, moment - 2), max(end, moment + 2)
    for times in RATE_FACTORS:
        segments = find_unexplored(context.whole, context.seen, 1.05 / (times * strategy.fps))
        covered = [*excluded, *(anchor.clip.span for anchor in context.anchors if times > 1)]
        pieces = [rest for piece in clip_to_segments(start, end, segments) for rest in subtract(piece, covered)]
        pieces.sort(key=lambda piece: (moment is not None and moment in piece, piece.length), reverse=True)
        if pieces and pieces[0].length >= settings.shortest_segment:
            return pieces[0], replace(strategy, fps=times * strategy.fps)
    return None


def make_candidate(
    span: Interval,
    strategy: ObservationStrategy,
    settings: TraceSettings,
    *,
    moment: float | None = None,
    claims: tuple[str, ...] = (),
) -> Candidate:
    """A candidate, with the number of frames for a look at it."""
    frames = settings.look_frames(span, strategy)
    if moment is not None:  # suggested by a frame, so worth a full look
        frames = settings.most_look_frames(strategy)
    return Candidate(span, strategy, frames, moment=moment, claims=claims)


def split_span(span: Interval, longest: float) -> tuple[Interval, ...]:
    """Split a span into equal parts, none longer than this."""
    parts = max(1, math.ceil(span.length / longest - 1e-9))
    borders = [span.start + span.length * part / parts for part in range(parts)] + [span.end]
    return tuple(Interval(start, end) for start, end in pairwise(borders))


def propose_unguided(context: ProposalContext, settings: TraceSettings) -> tuple[Candidate, ...]:
    """Candidates for a reply without any: one look in the middle of each of the longest unexplored segments."""
    strategy = STRATEGIES["general"]
    width = settings.longest_look(strategy)
    longest = sorted(context.unexplored, key=lambda piece: (-piece.length, piece.start))
    middles = (
        Interval(max(piece.start, piece.centre - width / 2), min(piece.end, piece.centre + width / 2))
        for piece in longest[: context.limit]
    )
    return tuple(make_candidate(span, strategy, settings) for span in sorted(middles))
