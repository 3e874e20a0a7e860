"""An answer in words for the person who asked: why the search stopped, what each clip shows, what is still open.

Reads the record of the search. Knows nothing of terminals and files; the panel and the saved page show what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.core import Interval, Termination
from trace_ves.core.stages import describe
from trace_ves.records.search import read_search
from trace_ves.records.trace import AtLeast, ClaimKind, Drop, Expand, Refine, Stop, TraceRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.asking import AskResult
    from trace_ves.core import Clip
    from trace_ves.records.trace import Action, Claim, FactValue, PrefixRecord

STABLE: Final = "The answer did not change as evidence was added, and a second look at the same clips agreed."
SETTLED_NOTHING: Final = "take this as a guess"
ENDINGS: Final = {
    Termination.SINGLE_PASS: "The method looked once; it does not check whether what it saw is enough.",
    Termination.SELF_REPORTED: "The model itself said that it had seen enough; this was not checked.",
    Termination.EXHAUSTED: f"Rounds or frames ran out before the method was done: {SETTLED_NOTHING}.",
}
"""How methods other than TRACE end."""

_TIME_CLAIM: Final = "when this happens: "


@dataclass(frozen=True, slots=True)
class SeenClip:
    """A clip that the answer rests on, and what was seen there."""

    clip: Clip
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """What there is to say about an answer beside the answer."""

    ending: str
    """Why the search stopped, and how far to trust it."""
    clips: tuple[SeenClip, ...]
    """In order of time."""
    still_open: tuple[str, ...] = ()
    """What the clips do not settle."""
    remark: str = ""
    """What a person should know before counting on the clips."""


def answer_words(result: AskResult) -> AnswerWords:
    """Put an answer into words, from the record of its search where there is one."""
    clips = sorted(result.bundle, key=lambda clip: clip.span)
    search = read_search(result.prediction.trajectory)
    if not isinstance(search, TraceRecord):
        return AnswerWords(_ending(result, None), tuple(map(SeenClip, clips)))
    record, facts = _settled(search, clips)
    claims = {claim.id: claim for claim in search.claims}
    needs = record.unmet_needs if record else frozenset(claims)
    return AnswerWords(
        _ending(result, search),
        tuple(SeenClip(clip, facts.get(clip.span, ())) for clip in clips),
        tuple(_plain(claim) for claim in search.claims if claim.id in needs),
        _remark(result, search.claims, len(clips)),
    )


def search_account(result: AskResult) -> list[str]:
    """The search in a few lines: where each round looked, what it kept, and what was decided."""
    search = read_search(result.prediction.trajectory)
    if not isinstance(search, TraceRecord):
        calls = result.log.calls
        return [f"{describe(call.stage).doing}: {len(call.timestamps)} frames" for call in calls]
    lines = [f"to be settled: {'; '.join(_plain(claim) for claim in search.claims)}"]
    for step in search.rounds:
        looked = ", ".join(_clock_span(candidate.span) for candidate in step.candidates) or "nowhere new"
        kept = ", ".join(_clock_span(anchor.clip.span) for anchor in step.anchors) or "nothing"
        lines.append(f"round {step.number}: looked at {looked}; kept {kept}")
        lines += [f"  {_decided(decision.action)}" for decision in step.decisions]
        if step.replay is not None:
            lines.append(f"  a second look at the same clips {'agreed' if step.replay.agrees else 'disagreed'}")
    return lines


def _decided(action: Action | None) -> str:
    match action:
        case Stop():
            return "the answer is stable"
        case Drop(anchors=dropped):
            return f"dropped {', '.join(sorted(dropped))}, which misled"
        case Refine(refinement=how):
            return f"a closer look: {how.value.replace('-', ' ')}"
        case Expand(intervals=spans):
            return f"more had to be found, first in {', '.join(map(_clock_span, spans)) or 'any part'}"
        case _:
            return "nothing was left to look at"


def _clock_span(span: Interval) -> str:
    return f"{clock(span.start)}-{clock(span.end)}"


def _ending(result: AskResult, search: TraceRecord | None) -> str:
    if result.answer is None:
        return "Nothing that was looked at supports an answer, and none is made up."
    if result.stable:
        return STABLE
    if search is None:
        return ENDINGS.get(result.termination, f"The search was not settled: {SETTLED_NOTHING}.")
    rounds = search.rounds
    if any(step.replay is not None and not step.replay.agrees for step in rounds):
        return f"A second look at the same clips gave another answer, and nothing settled it: {SETTLED_NOTHING}."
    if rounds and rounds[-1].decisions and rounds[-1].decisions[-1].action is None:
        return f"Nothing was left to look at, and the evidence had not settled: {SETTLED_NOTHING}."
    return f"Frames or rounds ran out before the evidence settled: {SETTLED_NOTHING}. A larger budget looks further."


def _settled(search: TraceRecord, clips: Sequence[Clip]) -> tuple[PrefixRecord | None, dict[Interval, tuple[str, ...]]]:
    """The record of the bundle that the answer rests on, and its facts in words by the span of the clip they are in."""
    names = search.stable_prefix or (search.fallback.prefix if search.fallback else ())
    step = next((step for step in reversed(search.rounds) if names in step.bundles), None)
    if step is None:
        return None, {}
    spans = {anchor.id: anchor.clip.span for each in search.rounds for anchor in each.anchors}
    place = step.bundles.index(names)
    prefixes = list(zip(step.bundles, step.records, strict=True))[: place + 1]
    record = step.records[place]
    found: dict[Interval, list[str]] = {}
    for claim in search.claims:
        if claim.id not in record.facts:
            continue
        value = record.facts[claim.id]
        if isinstance(value, Interval):  # the clips that its time falls into
            places = [clip.span for clip in clips if clip.span.intersection(value) is not None]
        else:  # the clip whose addition settled it
            places = [spans[names[-1]] for names, each in prefixes if each.facts.get(claim.id) == value][:1]
        for span in places:
            found.setdefault(span, []).append(_fact(claim, value))
    return record, {span: tuple(facts) for span, facts in found.items()}


def _fact(claim: Claim, value: FactValue) -> str:
    if isinstance(value, Interval):
        return f"{_plain(claim)} ({clock(value.start)} - {clock(value.end)})"
    if isinstance(value, AtLeast):
        return f"{_plain(claim)}: {value.count}"
    return f"{_plain(claim)}: {value}"


def _plain(claim: Claim) -> str:
    return claim.text.removeprefix(_TIME_CLAIM)


def _remark(result: AskResult, claims: Sequence[Claim], clips: int) -> str:
    """A count that is higher than the number of clips cannot be checked clip by clip."""
    counted = result.text.strip() if result.text else ""
    if not any(claim.kind is ClaimKind.COUNT for claim in claims) or not counted.isdecimal() or int(counted) <= clips:
        return ""
    shown = f"{clips} clip{'' if clips == 1 else 's'}"
    return f"The answer counts {counted}, but rests on {shown}: a clip may show several, or some were not found."


def clock(seconds: float) -> str:
    """A moment as a player shows it, to a tenth of a second."""
    minutes, rest = divmod(round(seconds * 10), 600)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest / 10:04.1f}" if hours else f"{minutes}:{rest / 10:04.1f}"
