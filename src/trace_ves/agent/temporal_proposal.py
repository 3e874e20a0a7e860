"""Temporal Proposal: where to look next, and how closely.

The first call sees the storyboard and also writes notes on its stretches; later calls get the notes as words. The notes
reach nobody else: Evidence Assembly and replay see raw clips alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field

from trace_ves.agent.settings import STRATEGIES, LookFor
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.core import Interval
from trace_ves.core.interval import clipped, subtract
from trace_ves.records.trace import Candidate, SegmentNote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.agent.records import Inquiry, VisualAnchor
    from trace_ves.agent.settings import TraceSettings
    from trace_ves.core import Clip

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "temporal-proposal")


class CandidateReply(BaseModel):
    """One span worth a closer look."""

    model_config = ConfigDict(extra="ignore")

    start: float
    end: float
    look_for: LookFor = "general"


class NoteReply(BaseModel):
    """What a stretch of the storyboard shows."""

    model_config = ConfigDict(extra="ignore")

    start: float
    end: float
    note: str = Field(max_length=300)


class ProposalReply(BaseModel):
    """Spans worth a closer look, the most promising first, and notes for later."""

    model_config = ConfigDict(extra="ignore")

    notes: list[NoteReply] = Field(default_factory=list, max_length=64)
    candidates: list[CandidateReply] = Field(default_factory=list, max_length=64)


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
    anchors: tuple[VisualAnchor, ...] = ()
    needs: frozenset[str] = frozenset()
    notes: tuple[SegmentNote, ...] | None = None
    """None before the storyboard has been seen."""


def propose(
    inquiry: Inquiry, storyboard: Clip, context: ProposalContext, settings: TraceSettings
) -> ProposedCandidates:
    """Ask for new candidates inside the unexplored segments."""
    supplied = context.notes is None or settings.resupply_storyboard
    open_claims = context.needs or {claim.id for claim in inquiry.claims}
    request = Request(
        PROMPT,
        inquiry.variables(
            duration=round(inquiry.observer.video.duration, 1),
            notes=[{"start": n.start, "end": n.end, "note": n.note} for n in context.notes or ()],
            anchors=[_span(anchor.clip.span) for anchor in context.anchors],
            unexplored_segments=[_span(piece) for piece in context.unexplored],
            claims=inquiry.claim_variables(),
            unmet_needs=[claim.id for claim in inquiry.claims if claim.id in open_claims],
            limit=settings.candidates_per_round,
        ),
        ProposalReply,
        clips=(storyboard,) if supplied else (),
    )
    (reply,) = inquiry.observer.ask([request])
    if isinstance(reply, ModelFault):
        return ProposedCandidates(notes=context.notes or (), refused=(f"the reply could not be read: {reply.reason}",))
    notes = tuple(SegmentNote(note.start, note.end, note.note) for note in reply.notes)
    candidates, refused = valid_candidates(reply.candidates, context.unexplored, settings)
    return ProposedCandidates(candidates, (context.notes or ()) + notes, refused)


def valid_candidates(
    wishes: Sequence[CandidateReply], unexplored: Sequence[Interval], settings: TraceSettings
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """The candidates that lie in unexplored segments, cut to them, none over another, and what was refused."""
    kept: list[Candidate] = []
    refused: list[str] = []
    for wish in wishes:
        taken = [candidate.span for candidate in kept]
        pieces = [rest for piece in clipped(wish.start, wish.end, unexplored) for rest in subtract(piece, taken)]
        span = max(pieces, key=lambda piece: piece.length, default=None)
        if span is None or span.length < settings.shortest_segment:
            refused.append(f"{wish.start:g}-{wish.end:g} s: not in an unexplored segment, or too short")
        elif len(kept) == settings.candidates_per_round:
            refused.append(f"{wish.start:g}-{wish.end:g} s: more than {settings.candidates_per_round} candidates")
        else:
            kept.append(Candidate(span, STRATEGIES[wish.look_for]))
    return tuple(kept), tuple(refused)


def unguided(unexplored: Sequence[Interval], settings: TraceSettings) -> tuple[Candidate, ...]:
    """Where to look when the model names nowhere: the middle of the longest segments, as wide as can be seen well."""
    strategy = STRATEGIES["general"]
    width = settings.candidate_frames / strategy.fps
    longest = sorted(unexplored, key=lambda piece: (-piece.length, piece.start))[: settings.candidates_per_round]
    return tuple(
        Candidate(
            Interval(max(piece.start, piece.centre - width / 2), min(piece.end, piece.centre + width / 2)), strategy
        )
        for piece in sorted(longest)
    )


def _span(interval: Interval) -> dict[str, float]:
    return {"start": round(interval.start, 1), "end": round(interval.end, 1)}
