"""Evidence Assembly: read the raw clips of each prefix bundle separately, and record what they support.

Every bundle is a separate request in one batch; no request sees the reply to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, create_model

from trace_ves.agent.anchors import Inquiry, PrefixBundle, load_prompt
from trace_ves.agent.comparison import match_value
from trace_ves.agent.exploration import overlaps_mostly
from trace_ves.agent.reply_fields import LISTED, Seconds, Words
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import AnswerReply, answer_reply, up_to
from trace_ves.core import Clip, Interval
from trace_ves.core.interval import union
from trace_ves.core.question import parse_count
from trace_ves.records.search import AtLeast, Claim, ClaimKind, FactValue, PrefixRecord, Status

if TYPE_CHECKING:
    from trace_ves.agent.settings import TraceSettings

PROMPT: Final = load_prompt("evidence-assembly")
SAME_OCCURRENCE_SECONDS: Final = 1.0  # Spans of a count at most this far apart are one occurrence


class FactSpan(BaseModel):
    """When something is seen."""

    start: Seconds
    end: Seconds


class FactReply(BaseModel):
    """How the clips settle one claim."""

    claim: str
    value: Annotated[Words, up_to(200)] = ""  # The word or number, for a claim of kind fact or count
    spans: Annotated[list[FactSpan], LISTED, up_to(64)] = Field(default_factory=list)
    """When it is seen: one span for a claim of kind time, one for each occurrence of a count."""


class AssemblyReply(BaseModel):
    """What the clips support; facts come before the answer they support."""

    seen: Annotated[Words, up_to(2000)]
    """What each clip shows, before anything is concluded from it. Goes nowhere: the record is made of the rest."""
    facts_supported: list[FactReply]
    unmet_needs: list[str]
    status: Status
    answer: str | None


def assemble(inquiry: Inquiry, bundles: Sequence[PrefixBundle], settings: TraceSettings) -> tuple[PrefixRecord, ...]:
    """One record for each bundle, from independent requests."""
    reply_type = make_assembly_reply(inquiry)
    replies = inquiry.observer.ask(
        [
            Request(
                PROMPT,
                inquiry.variables(claims=inquiry.claim_variables()),
                reply_type,
                clips=order_clips(bundle, settings),
                subtitles=inquiry.subtitles([a.clip.span for a in bundle], settings.assembly_subtitle_chars),
            )
            for bundle in bundles
        ]
    )
    return tuple(make_record(reply, inquiry.visible_claims) for reply in replies)


def order_clips(bundle: PrefixBundle, settings: TraceSettings) -> tuple[Clip, ...]:
    """The raw clips of a bundle, in the order of a call."""
    clips = (anchor.clip for anchor in bundle)
    return tuple(sorted(clips, key=lambda clip: clip.span)) if settings.layout == "chronological" else tuple(clips)


def make_assembly_reply(inquiry: Inquiry) -> type[AssemblyReply]:
    """The reply type, restricted to the letters and claims of this question."""
    return _narrow_reply(answer_reply(inquiry.question), tuple(claim.id for claim in inquiry.visible_claims))


@lru_cache(maxsize=64)
def _narrow_reply(answer: type[AnswerReply], claims: tuple[str, ...]) -> type[AssemblyReply]:
    claim: Any = Literal[claims]
    fact: Any = create_model("FactReply", __base__=FactReply, claim=(claim, ...))
    bases: Any = (answer, AssemblyReply)  # fields keep the order of the last base, so the answer comes after the facts
    narrowed: type[AssemblyReply] = create_model(
        "AssemblyReply",
        __base__=bases,
        facts_supported=(Annotated[list[fact], LISTED, up_to(64)], ...),
        unmet_needs=(Annotated[list[claim], LISTED, up_to(64)], ...),
    )
    return narrowed


def make_record(reply: AssemblyReply | ModelFault, claims: Sequence[Claim]) -> PrefixRecord:
    """The record of a reply. A claim listed as open is open, and a record without an answer is not answerable."""
    if isinstance(reply, ModelFault):
        return PrefixRecord(None, Status.INSUFFICIENT, {}, frozenset(claim.id for claim in claims))
    unmet = frozenset(reply.unmet_needs)
    by_id = {claim.id: claim for claim in claims}
    values = {fact.claim: _PARSERS[by_id[fact.claim].kind](fact, by_id[fact.claim]) for fact in reply.facts_supported}
    facts = {
        claim: value
        for claim, value in values.items()
        if value is not None and (claim not in unmet or isinstance(value, AtLeast))  # counted occurrences stay counted
    }
    status = Status.INSUFFICIENT if reply.answer is None and reply.status is Status.ANSWERABLE else reply.status
    return PrefixRecord(reply.answer, status, facts, unmet)


def _parse_spans(fact: FactReply) -> list[Interval]:
    spans = ((span.start, span.end) for span in fact.spans)
    return [Interval(a, b) for a, b in spans if a is not None and b is not None and 0 <= a <= b]


def _parse_time(fact: FactReply, _: Claim) -> FactValue | None:
    """The first span: the order of events depends on their first occurrence."""
    return min(_parse_spans(fact), default=None)


def _parse_count(fact: FactReply, _: Claim) -> FactValue | None:
    """The occurrences: adjoining ones are merged, simultaneous ones are not. Without spans, only the number."""
    if not (spans := _parse_spans(fact)):
        number = parse_count(fact.value)
        return None if number is None else AtLeast(number)
    apart = union(spans, gap=SAME_OCCURRENCE_SECONDS, differ=overlaps_mostly)
    return AtLeast(len(apart), apart)


def _parse_fact(fact: FactReply, claim: Claim) -> FactValue | None:
    text = " ".join(fact.value.casefold().split()).strip(" .")
    return match_value(text, claim.values) or text or None


_PARSERS: Final = {ClaimKind.TIME: _parse_time, ClaimKind.COUNT: _parse_count, ClaimKind.FACT: _parse_fact}
