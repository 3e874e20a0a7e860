"""Temporal Proposal: where to look next, and how closely.

The first call sees the storyboard and also writes notes on its stretches; later calls get the notes as words. The notes
reach nobody else: Evidence Assembly and replay see raw clips alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, Field

from trace_ves.agent.settings import STRATEGIES, LookFor
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import up_to
from trace_ves.core import Interval
from trace_ves.core.interval import clipped, subtract
from trace_ves.records.search import Candidate, SegmentNote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.anchors import Inquiry, VisualAnchor
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.core import Clip, ObservationStrategy

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "temporal-proposal")


class CandidateReply(BaseModel):
    """One span worth a closer look."""

    start: float
    end: float
    look_for: LookFor = "general"


class NoteReply(BaseModel):
    """What a stretch of the storyboard shows."""

    start: float
    end: float
    note: Annotated[str, up_to(300)]
    promising: bool = True


class ProposalReply(BaseModel):
    """Spans worth a closer look, the most promising first, and notes for later."""

    notes: Annotated[list[NoteReply], up_to(64)] = Field(default_factory=list)
    candidates: Annotated[list[CandidateReply], up_to(64)] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProposedCandidates:
    """P_t: the candidates of a round, the notes that were made, and what the rules refused."""

    candidates: tuple[Candidate, ...] = ()
    notes: tuple[SegmentNote, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """What a proposal goes by: what is unexplored, known and needed."""

    unexplored: tuple[Interval, ...]
    """R: where candidates may lie."""
    focus: tuple[Interval, ...] = ()
    """What EXPAND named: these parts of R come first."""
    anchors: tuple[VisualAnchor, ...] = ()
    needs: frozenset[str] = frozenset()
    notes: tuple[SegmentNote, ...] | None = None
    """None before the storyboard has been seen."""


def propose(
    inquiry: Inquiry, storyboard: Clip, context: ProposalContext, settings: TraceSettings
) -> ProposedCandidates:
    """Ask for new candidates inside the unexplored segments."""
    supplied = context.notes is None or settings.resupply_storyboard
    request = Request(
        PROMPT,
        inquiry.variables(
            duration=round(inquiry.observer.video.duration, 1),
            notes=[{"start": n.start, "end": n.end, "note": n.note} for n in context.notes or ()],
            anchors=[_span(anchor.clip.span) for anchor in context.anchors],
            unexplored_segments=[_span(piece) for piece in in_order(context)],
            look_frames=settings.candidate_frames,
            look_seconds=round(settings.look_seconds, 1),
            claims=inquiry.claim_variables(),
            unmet_needs=inquiry.open_claims(context.needs),
            limit=settings.candidates_per_round,
        ),
        ProposalReply,
        clips=(storyboard,) if supplied else (),
        subtitles=inquiry.subtitles((inquiry.observer.whole,), settings.proposal_subtitle_chars),
    )
    (reply,) = inquiry.observer.ask([request])
    if isinstance(reply, ModelFault):
        return ProposedCandidates(notes=context.notes or (), refused=(f"the reply could not be read: {reply.reason}",))
    notes = tuple(SegmentNote(note.start, note.end, note.note, note.promising) for note in reply.notes)
    candidates, refused = valid_candidates(reply.candidates, context, settings)
    return ProposedCandidates(candidates, (context.notes or ()) + notes, refused)


def in_order(context: ProposalContext) -> tuple[Interval, ...]:
    """The unexplored segments, those that EXPAND named first."""
    rest = (left for piece in context.unexplored for left in subtract(piece, context.focus))
    return (*context.focus, *rest)


def valid_candidates(
    wishes: Sequence[CandidateReply], context: ProposalContext, settings: TraceSettings
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """The candidates in unexplored segments, cut to them, none over another, and what was changed or refused."""
    kept: list[Candidate] = []
    refused: list[str] = []
    for wish in wishes:
        taken = [candidate.span for candidate in kept]
        inside = clipped(wish.start, wish.end, context.unexplored)
        pieces = [rest for piece in inside for rest in subtract(piece, taken)]
        span = max(pieces, key=lambda piece: piece.length, default=None)
        if span is None or span.length < settings.shortest_segment:
            refused.append(f"{wish.start:g}-{wish.end:g} s: not in an unexplored segment, or too short")
            continue
        looks = split(span, settings.longest_look(STRATEGIES[wish.look_for]))
        if len(looks) > 1:
            refused.append(f"{span}: longer than one look can see, split into {len(looks)}")
        room = settings.candidates_per_round - len(kept)
        refused += [f"{look}: more than {settings.candidates_per_round} candidates" for look in looks[room:]]
        kept += [candidate(look, STRATEGIES[wish.look_for], settings) for look in looks[:room]]
    return tuple(kept), tuple(refused)


def candidate(span: Interval, strategy: ObservationStrategy, settings: TraceSettings) -> Candidate:
    """A candidate, with the frames that a look at it takes."""
    return Candidate(span, strategy, settings.look_frames(span, strategy))


def split(span: Interval, longest: float) -> tuple[Interval, ...]:
    """Equal parts of a span, none longer than this."""
    parts = max(1, math.ceil(span.length / longest - 1e-9))
    borders = [span.start + span.length * part / parts for part in range(parts)] + [span.end]
    return tuple(Interval(start, end) for start, end in pairwise(borders))


def unguided(context: ProposalContext, settings: TraceSettings) -> tuple[Candidate, ...]:
    """Where to look when the model names nowhere: the middle of the longest segments, as wide as one look can see."""
    width = settings.look_seconds
    longest = sorted(context.unexplored, key=lambda piece: (-piece.length, piece.start))
    middles = (
        Interval(max(piece.start, piece.centre - width / 2), min(piece.end, piece.centre + width / 2))
        for piece in longest[: settings.candidates_per_round]
    )
    return tuple(candidate(span, STRATEGIES["general"], settings) for span in sorted(middles))


def _span(interval: Interval) -> dict[str, float]:
    return {"start": round(interval.start, 1), "end": round(interval.end, 1)}
