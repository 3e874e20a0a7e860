"""The rules of TRACE's stages, except Temporal Proposal (`proposal`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from trace_ves.twin.glance.judgement import Judgement, force, guess, judge
from trace_ves.twin.glance.parsed_question import Kind, Pick
from trace_ves.twin.glance.proposal import describe_stretch, expansion, storyboard_frames
from trace_ves.twin.glance.sightings import GLIMPSED, SEEN, Visit, strongest

if TYPE_CHECKING:
    from trace_ves.twin.glance.prompt_reading import CallContext

GLIMPSES: Final = 2  # This many glimpses of one name count like one sighting
PAUSE_SECONDS: Final = 15.0  # Within one look, a longer pause separates two acts


def extract(context: CallContext) -> dict[str, Any]:
    """Relevant if a wanted name is seen once or glimpsed twice, with one span for each run; perhaps for one glimpse.

    If an act is asked for: relevant if the act is seen, perhaps if it is unclear what the thing does.
    """
    margin = context.clips[0].spacing_seconds / 2
    spans: list[tuple[float, float, str]] = []
    doubtful: list[float] = []
    for name in context.asked.wanted:
        if name in context.asked.acts:
            seen = context.visits[name]
            spans += [(visit.start, visit.end, name) for visit in seen]
            if not seen and not context.conduct[name].rests:
                doubtful += [visit.start for visit in context.conduct[name].unsettled]
            continue
        scores = {moment.seconds: moment.view.score(name) for moment in context.moments}
        noticed = [seconds for seconds, score in scores.items() if score >= GLIMPSED]
        if len(noticed) >= GLIMPSES or max(scores.values(), default=0.0) >= SEEN:
            spans.append((min(noticed) - margin, max(noticed) + margin, name))
        else:
            doubtful += noticed
    ids = {name: claim["id"] for claim in context.variables["claims"] for name in context.names_in(claim["claim"])}
    named = [
        {"start": max(0.0, start), "end": end, "claims": [ids[name]] if name in ids else []}
        for start, end, name in _apart(spans, PAUSE_SECONDS if context.asked.kind is Kind.COUNT else 0.0)
    ]
    return {
        "seen": describe_stretch(storyboard_frames(context.moments, context.asked.wanted)),
        "relevant": "yes" if named else "perhaps" if doubtful else "no",
        "spans": named,
        "look_between": doubtful if not named else [],
    }


def _apart(spans: list[tuple[float, float, str]], pause: float) -> list[tuple[float, float, str]]:
    """The spans in order of time; those that overlap or are at most `pause` apart become one."""
    merged: list[tuple[float, float, str]] = []
    for start, end, name in sorted(spans):
        if merged and start <= merged[-1][1] + pause:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((start, end, name))
    return merged


def prioritize(context: CallContext) -> dict[str, Any]:
    """Views that show a new name first, then the surest."""
    views = [(number, clip.moments[0].view) for number, clip in enumerate(context.clips, start=1) if clip.moments]
    order: list[int] = []
    shown: set[str] = set()
    while len(order) < len(views):
        rest = [(number, view) for number, view in views if number not in order]
        scores = {n: [(name not in shown, view.score(name)) for name in context.asked.wanted] for n, view in rest}
        best = max(rest, key=lambda entry: (max(scores[entry[0]], default=(False, 0.0)), -entry[0]))
        order.append(best[0])
        shown |= {name for name in context.asked.wanted if best[1].score(name) >= SEEN}
    return {"seen": [], "order": order}


Claim = dict[str, str]


def make_claims(context: CallContext) -> dict[str, Any]:
    """A time for each thing of an order, a number for a count, one fact for a choice; else a claim that stays open."""
    asked = context.asked
    kind = "fact"
    texts = ["what the picture shows that decides between the answers"]
    if asked.kind is Kind.ORDER or asked.pick is not Pick.ONLY:
        names = asked.wanted if asked.kind is Kind.ORDER else tuple(asked.choices.values())
        kind, texts = "time", [f"when this is seen: {name}" for name in names[: int(context.variables["limit"])]]
    elif asked.kind is Kind.COUNT:
        kind, texts = "count", [f"how many times this is seen: {asked.wanted[0]}"]
    elif asked.kind is Kind.CHOICE:
        texts = [f"which of these is seen: {'; '.join(asked.choices.values())}"[:200]]
    return {"claims": [{"claim": text, "kind": kind, "values": []} for text in texts]}


def assemble(context: CallContext) -> dict[str, Any]:
    """Facts, open claims, status and answer, from only the frames of these clips."""
    judgement = judge(context.asked, context.visits, complete=context.asked.kind is Kind.COUNT)
    claims: list[Claim] = list(context.variables["claims"])
    facts = [fact for claim in claims if (fact := _fact(context, claim, judgement))]
    settled = {fact["claim"] for fact in facts}
    status = "answerable" if judgement.certain else "conflicted" if judgement.conflicted else "insufficient"
    return {
        "seen": "",
        "facts_supported": facts,
        "unmet_needs": [claim["id"] for claim in claims if claim["id"] not in settled],
        "status": status,
        "answer": judgement.answer if judgement.certain or judgement.conflicted else None,
    }


def _fact(context: CallContext, claim: Claim, judgement: Judgement) -> dict[str, Any] | None:
    asked, fact = context.asked, {"claim": claim["id"]}
    if claim["kind"] == "time":
        names = context.names_in(claim["claim"])
        visit = strongest(context.visits[names[0]]) if names else None
        return fact | {"spans": _spans([visit])} if visit else None
    if claim["kind"] == "count":
        spans = _spans(context.visits[asked.wanted[0]])
        return fact | {"value": str(judgement.count), "spans": spans} if judgement.count else None
    if not judgement.certain or judgement.answer is None:
        return None
    # Settled with the answer: that a count is complete, or which option is seen.
    value = "yes" if asked.kind is Kind.COUNT else asked.options.get(judgement.answer, judgement.answer)
    return fact | {"value": value[:200]}


def _spans(visits: Sequence[Visit]) -> list[dict[str, float]]:
    return [{"start": visit.start, "end": visit.end} for visit in visits]


REFINE_FRAMES: Final = 40  # Frames for a closer look at an anchor: up to 16 to look, and as many to read it again


def control(context: CallContext) -> dict[str, Any]:
    """The decision rules of the prompt, in order."""
    offered = str(context.variables["actions"])
    idle = _idle_anchors(context.variables["trajectory"])
    nothing: dict[str, Any] = {"target_anchors": [], "target_intervals": [], "observation_strategy": None}
    drop = [name for name in context.variables["conflict_set"] if name in idle]
    if drop and "DROP" in offered:
        return nothing | {"action": "DROP", "target_anchors": drop}
    anchors = [str(anchor["anchor"]) for anchor in context.variables["anchors"]]
    looks = [str(look["look"]) for look in context.variables["looks"]]
    needs_look = context.asked.kind is Kind.ORDER and context.variables["unmet_needs"] and idle
    closer = needs_look and int(context.variables["budget_remaining"]) >= REFINE_FRAMES
    if "REFINE" in offered and (closer or "EXPAND" not in offered):
        names = [*idle, *anchors, *looks]
        return nothing | {"action": "REFINE", "target_anchors": names, "observation_strategy": "raise-frame-rate"}
    if "EXPAND" not in offered:
        return nothing | {"action": "DROP", "target_anchors": idle}
    spans, look_for = expansion(context)
    return nothing | {"action": "EXPAND", "target_intervals": spans, "observation_strategy": look_for}


def _idle_anchors(trajectory: list[Mapping[str, Any]]) -> list[str]:
    """Anchors whose addition settled no claim and changed no count."""
    idle: list[str] = []
    before: Mapping[str, str] = {}
    for prefix in trajectory:
        after = prefix["facts_supported"]
        recounted = any(fact.startswith("at least") and after.get(claim) != fact for claim, fact in before.items())
        if after.keys() <= before.keys() and not recounted:
            idle.append(str(prefix["prefix_id"]).rpartition("+")[2])
        before = after
    return idle


def forced(context: CallContext) -> dict[str, Any]:
    """Like `answer`, but always an option: a marked draw if several fit."""
    return force(context.asked, context.visits, context.seed, context.sample)


def answer(context: CallContext) -> dict[str, Any]:
    """The option most compatible with what the frames show; null if several are."""
    return {"answer": guess(context.asked, context.visits)}
