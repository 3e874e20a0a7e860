"""The rules of `claims` and `evidence-assembly`: what has to be known, and which of it the clips settle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.glance.judgement import judge
from trace_ves.backbone.glance.parsed_question import Kind, Pick
from trace_ves.backbone.glance.visits import strongest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trace_ves.backbone.glance.call_context import CallContext
    from trace_ves.backbone.glance.judgement import Judgement

Claim = dict[str, str]


def make_claims(context: CallContext) -> dict[str, Any]:
    """A time for each thing of an order, a number for a count, one fact for a choice; else a claim that stays open."""
    asked = context.asked
    limit = int(context.variables["limit"])
    if asked.kind is Kind.ORDER or asked.pick is not Pick.ONLY:
        names = asked.wanted if asked.kind is Kind.ORDER else tuple(asked.choices.values())
        return {"claims": [{"claim": f"when this is seen: {name}", "kind": "time"} for name in names[:limit]]}
    if asked.kind is Kind.COUNT:
        return {"claims": [{"claim": f"how many times this is seen: {asked.wanted[0]}", "kind": "count"}]}
    if asked.kind is Kind.CHOICE:
        listed = "; ".join(asked.choices.values())
        return {"claims": [{"claim": f"which of these is seen: {listed}"[:200], "kind": "fact"}]}
    return {"claims": [{"claim": "what the picture shows that decides between the answers", "kind": "fact"}]}


def match_answer(context: CallContext) -> dict[str, Any]:  # noqa: ARG001  one signature for all stages
    """Glance chooses its own words, so two wordings of it are never the same answer."""
    return {"same_as": None}


def assemble(context: CallContext) -> dict[str, Any]:
    """Facts, open claims, status and answer, from the frames of these clips alone."""
    judgement = judge(context.asked, context.visits, complete=context.asked.kind is Kind.COUNT)  # of these clips alone
    claims: list[Claim] = list(context.variables["claims"])
    facts = [fact for claim in claims if (fact := _fact(context, claim, judgement))]
    settled = {fact["claim"] for fact in facts}
    status = "answerable" if judgement.certain else "conflicted" if judgement.conflicted else "insufficient"
    return {
        "facts_supported": facts,
        "unmet_needs": [claim["claim"] for claim in claims if claim["claim"] not in settled],
        "status": status,
        "answer": judgement.answer if judgement.certain or judgement.conflicted else None,
    }


def _fact(context: CallContext, claim: Claim, judgement: Judgement) -> dict[str, Any] | None:
    value = _VALUES[claim["kind"]](context, claim, judgement)
    return {"claim": claim["claim"], **value} if value else None


def _time(context: CallContext, claim: Claim, judgement: Judgement) -> Mapping[str, Any] | None:  # noqa: ARG001  one signature for all kinds
    names = context.names_in(claim["about"])
    visit = strongest(context.visits[names[0]]) if names else None
    return {"start": visit.start, "end": visit.end} if visit else None


def _count(context: CallContext, claim: Claim, judgement: Judgement) -> Mapping[str, Any] | None:  # noqa: ARG001  as above
    return {"value": str(judgement.count)} if judgement.count else None


def _word(context: CallContext, claim: Claim, judgement: Judgement) -> Mapping[str, Any] | None:  # noqa: ARG001  as above
    """Settled with the answer: that a count is complete, or which option is seen."""
    if not judgement.certain or judgement.answer is None:
        return None
    value = "yes" if context.asked.kind is Kind.COUNT else context.asked.options.get(judgement.answer, judgement.answer)
    return {"value": value[:200]}


_VALUES: Final[dict[str, Callable[[CallContext, Claim, Judgement], Mapping[str, Any] | None]]] = {
    "time": _time,
    "count": _count,
    "fact": _word,
}
