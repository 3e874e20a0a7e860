"""The rules of `anchor-extraction` and `anchor-prioritization`: is it there, from when to when, which comes first."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from trace_ves.twin.glance.judgement import guess, judge
from trace_ves.twin.glance.parsed_question import Kind, Pick
from trace_ves.twin.glance.sightings import GLIMPSED, SEEN, strongest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trace_ves.twin.glance.judgement import Judgement
    from trace_ves.twin.glance.prompt_reading import CallContext

GLIMPSES: Final = 2
"""So many glimpses of one name are worth a closer look, as one sighting is."""


def extract(context: CallContext) -> dict[str, Any]:
    """Relevant where a wanted name is seen once or glimpsed twice; from the first to the last time it is.

    Where an act is asked for: where it is seen, or where nothing tells what the thing does.
    """
    margin = context.clips[0].spacing_seconds / 2
    times: list[float] = []
    for name in context.asked.wanted:
        if name in context.asked.acts:
            seen = context.visits[name]
            times += [time for visit in seen for time in (visit.start + margin, visit.end - margin)]
            if not seen and not context.conduct[name].rests:
                times += [visit.start for visit in context.conduct[name].unsettled]
            continue
        scores = {moment.seconds: moment.view.score(name) for moment in context.moments}
        noticed = [seconds for seconds, score in scores.items() if score >= GLIMPSED]
        if len(noticed) >= GLIMPSES or max(scores.values(), default=0.0) >= SEEN:
            times += noticed
    if not times:
        return {"relevant": False}
    return {"relevant": True, "start": max(0.0, min(times) - margin), "end": max(times) + margin}


def prioritize(context: CallContext) -> dict[str, Any]:
    """The surest view first; a view that shows a name for the first time before one that repeats."""
    views = [(number, clip.moments[0].view) for number, clip in enumerate(context.clips, start=1) if clip.moments]
    order: list[int] = []
    shown: set[str] = set()
    while len(order) < len(views):
        rest = [(number, view) for number, view in views if number not in order]
        scores = {n: [(name not in shown, view.score(name)) for name in context.asked.wanted] for n, view in rest}
        best = max(rest, key=lambda entry: (max(scores[entry[0]], default=(False, 0.0)), -entry[0]))
        order.append(best[0])
        shown |= {name for name in context.asked.wanted if best[1].score(name) >= SEEN}
    return {"order": order}


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


CLOSER_LOOK: Final = "raise-frame-rate"
REFINE_FRAMES: Final = 40
"""A closer look needs so many frames of the budget: up to 16 to look, and as many again to read what it gives."""


def control(context: CallContext) -> dict[str, Any]:
    """The decision rules of the prompt, in their order."""
    trajectory = context.variables["trajectory"]
    idle = _idle_anchors(trajectory)
    if drop := [name for name in context.variables["conflict_set"] if name in idle]:
        return {"action": "DROP", "target_anchors": drop}
    if "EXPAND" not in str(context.variables["actions"]):
        again = idle or [str(anchor["anchor"]) for anchor in context.variables["anchors"]]
        return {"action": "REFINE", "target_anchors": again, "observation_strategy": CLOSER_LOOK}
    needs_look = context.asked.kind is Kind.ORDER and context.variables["unmet_needs"] and idle
    if needs_look and int(context.variables["budget_remaining"]) >= REFINE_FRAMES:
        return {"action": "REFINE", "target_anchors": idle, "observation_strategy": CLOSER_LOOK}
    segments = sorted(context.variables["unexplored_segments"], key=lambda piece: (-piece["seconds"], piece["start"]))
    spans = [[piece["start"], piece["end"]] for piece in segments[: int(context.variables["limit"])]]
    return {"action": "EXPAND", "target_intervals": sorted(spans)}


def _idle_anchors(trajectory: list[Mapping[str, Any]]) -> list[str]:
    """Anchors whose addition settled no claim and changed no count: no other anchor would miss their evidence."""
    before: Mapping[str, Any] = {"prefix_id": "", "facts_supported": {}}
    return [
        str(after["prefix_id"]).rpartition("+")[2]
        for earlier, after in pairwise([before, *trajectory])
        if _news(earlier["facts_supported"], after["facts_supported"]) == 0
    ]


def _news(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    """Claims newly settled, and counts that grew."""
    counted = (claim for claim in before if before[claim].startswith("at least") and after.get(claim) != before[claim])
    return len(after.keys() - before.keys()) + len(list(counted))


def forced(context: CallContext) -> dict[str, Any]:
    """The same, where the reply must be an option: a draw among all of them if the question is not understood."""
    return {"answer": guess(context.asked, context.visits, sample=context.sample, forced=True)}


def answer(context: CallContext) -> dict[str, Any]:
    """The option most compatible with what the frames show; where none was given, they show nothing."""
    return {"answer": guess(context.asked, context.visits, sample=context.sample)}
