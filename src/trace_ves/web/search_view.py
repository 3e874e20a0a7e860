"""View model of one search, shared by terminal, page, studio, notebook, saved files and MCP. Needs no extra."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from trace_ves.core import Interval, Termination
from trace_ves.core.display import describe_stage
from trace_ves.observer import Decided, RoundStarted, StageStarted
from trace_ves.records import ClipRecord
from trace_ves.records.search import (
    AtLeast,
    ClaimKind,
    Drop,
    Expand,
    Refine,
    SearchRecord,
    Stop,
    TraceRecord,
    read_search,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.core import Clip, Frame, ObservationStrategy, Question
    from trace_ves.observer import Event
    from trace_ves.records import Prediction
    from trace_ves.records.search import (
        AnchorRecord,
        AvpPiece,
        Claim,
        Decision,
        FactValue,
        PrefixRecord,
        RoundRecord,
        VcaSegment,
    )
    from trace_ves.runs.asking import AskResult

    Span = Interval | AvpPiece | VcaSegment

BUCKETS: Final = {
    "covered": "right, evidence covered",
    "uncovered": "right, evidence not covered",
    "right": "right",
    "wrong": "wrong",
    "unscored": "not scored",
    "open": "no answer line yet",
}
"""The paper's three buckets, and the other states of an answer."""
BUCKET_SIGNS: Final = {"covered": "●", "uncovered": "◐", "right": "●", "wrong": "✕", "unscored": "?", "open": "…"}
"""So that colour is never the only difference."""

Fate = Literal["answer", "kept", "dropped", "refined"]
FATES: Final[dict[Fate, str]] = {
    "answer": "supports the answer",
    "kept": "kept",
    "dropped": "dropped",
    "refined": "replaced by another look",
}
"""What became of an anchor."""

STABLE: Final = "The answer did not change as evidence was added, and a second look at the same clips agreed."
NO_ANSWER: Final = "Nothing that was looked at supports an answer, and none is made up."
NOTHING_LEFT: Final = "nothing is left to look at"
_GUESS: Final = "take this as a guess"
ENDINGS: Final[dict[str, str]] = {
    Termination.STABLE_PREFIX_FOUND: STABLE,
    Termination.NO_STABLE_PREFIX: f"The evidence had not settled when the search ended: {_GUESS}.",
    Termination.SINGLE_PASS: "The method looked once; it does not check whether what it saw is enough.",
    Termination.SELF_REPORTED: "The model itself said that it had seen enough; this was not checked.",
    Termination.EXHAUSTED: f"Rounds or frames ran out before the method was done: {_GUESS}.",
}
"""Why a search stopped, where its record says no more than the termination."""

LATEST_SECONDS: Final = 1e12  # foreign records may name any moment; a later one is shown as this one
LONGEST_TEXT: Final = 4000  # characters of one string of a record that are shown
LONGEST_RECORD: Final = 20 * LONGEST_TEXT
MOST_SPANS: Final = 3  # spans named for a step of a search under way
_TIME_CLAIM: Final = "when this happens: "


def clock(seconds: float, decimals: int = 1) -> str:
    """A moment as a player shows it: 1:02:03.4, or 2:03.4 within the first hour."""
    scale = 10**decimals
    whole, rest = divmod(round(min(seconds, LATEST_SECONDS) * scale), scale)
    tail = f".{rest:0{decimals}d}" if decimals else ""
    hours, minutes, last = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{last:02d}{tail}" if hours else f"{minutes}:{last:02d}{tail}"


def span_text(span: Span) -> str:
    """A span from clock to clock."""
    return f"{clock(span.start)}-{clock(span.end)}"


def strategy_text(strategy: ObservationStrategy) -> str:
    """How closely a span was looked at."""
    return f"{strategy.fps:g} fps, {strategy.height} px"


def fact_text(value: FactValue) -> str:
    """How a claim was settled."""
    match value:
        case Interval():
            return span_text(value)
        case AtLeast():
            return f"at least {value.count}"
        case _:
            return value


def claim_text(claim: Claim) -> str:
    """A claim without the words that only the model needs."""
    return claim.text.removeprefix(_TIME_CLAIM)


def decision_text(decision: Decision) -> str:
    """What TRACE decided to do next."""
    match decision.action:
        case Stop(prefix=at):
            return f"bundle {at + 1} is stable; replay it"
        case Drop(anchors=dropped):
            return f"drop {', '.join(sorted(dropped))}, which mislead{'s' if len(dropped) == 1 else ''}"
        case Refine(anchor=anchor, refinement=refinement):
            return f"look at {anchor} again: {refinement.replace('-', ' ')}"
        case Expand(intervals=spans):
            return f"look for more in {', '.join(map(span_text, spans)) or 'any part'}"
        case None:
            return NOTHING_LEFT


def describe_event(event: Event) -> str:
    """What a search under way is doing; empty for events that only report a reply."""
    match event:
        case RoundStarted(number=number):
            return f"round {number}"
        case StageStarted(stage=stage, spans=spans):
            distinct = list(dict.fromkeys(spans))
            where = ", ".join(map(span_text, distinct[:MOST_SPANS]))
            more = f" and {len(distinct) - MOST_SPANS} more" if len(distinct) > MOST_SPANS else ""
            return f"{describe_stage(stage).doing} {where}{more}".strip()
        case Decided(action=action, decision=decision):
            return decision_text(decision) if decision is not None else action or NOTHING_LEFT
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class EvidenceClip:
    """A clip that supports the answer, and what was seen there."""

    span: Interval
    facts: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()  # empty where only the record is at hand


@dataclass(frozen=True, slots=True)
class Prefix:
    """One bundle of a round with its record."""

    anchors: tuple[str, ...]
    record: PrefixRecord
    is_fresh: bool  # read in this round, not in an earlier one
    is_stable: bool
    is_conflict: bool  # whether its newest anchor is in the conflict set


@dataclass(frozen=True, slots=True)
class SearchView:
    """One search: the answer, why it stopped, what supports it, what is open, and the record with every round."""

    answer: str  # the letter with the option's text, or the open answer
    ending: str  # why the search stopped, and how far to trust it; empty where the line does not say
    clips: tuple[EvidenceClip, ...]  # in order of time
    still_open: tuple[str, ...]  # the claims that the clips do not settle
    remark: str  # what the reader should know before counting on the clips
    effort: str  # frames, calls, model and method, in one clause
    kind: Literal["trace", "avp", "vca", "own", "none"]
    record: SearchRecord | None  # None where the method keeps no record, or one in another format
    own_record: str = ""  # a record of another format, as JSON
    anchors: Mapping[str, AnchorRecord] = field(default_factory=dict)  # TRACE's anchors of all rounds, by name
    fates: Mapping[str, Fate] = field(default_factory=dict)  # what became of each anchor, by name
    calls: tuple[str, ...] = ()  # what each call did, in order

    @property
    def claims(self) -> dict[str, str]:
        """The text of TRACE's claims, by id."""
        record = self.record
        return {claim.id: claim_text(claim) for claim in record.claims} if isinstance(record, TraceRecord) else {}

    def reading_of(self, bundle: tuple[str, ...]) -> PrefixRecord | None:
        """The last reading of a bundle, with which a replay is compared; None where it was never read."""
        prefixes = _last_trajectory(self.record, bundle) if isinstance(self.record, TraceRecord) else []
        return prefixes[-1][1] if prefixes else None

    @staticmethod
    def prefixes(step: RoundRecord) -> tuple[Prefix, ...]:
        """The trajectory of a round."""
        flags = step.flags
        return tuple(
            Prefix(
                anchors=anchors,
                record=record,
                is_fresh=at in step.assembled,
                is_stable=flags is not None and flags.stable_prefix == at,
                is_conflict=flags is not None and bool(anchors) and anchors[-1] in flags.conflicts,
            )
            for at, (anchors, record) in enumerate(zip(step.bundles, step.records, strict=False))
        )

    def account(self) -> list[str]:
        """The search in a few lines: where each round looked, what it kept, what was decided, and why it stopped."""
        if not isinstance(self.record, TraceRecord):
            return [*self.calls, self.ending]
        lines = [f"to be settled: {'; '.join(self.claims.values())}"]
        for step in self.record.rounds:
            looked = ", ".join(span_text(candidate.span) for candidate in step.candidates) or "nowhere new"
            kept = ", ".join(span_text(anchor.clip.span) for anchor in step.anchors) or "nothing"
            lines.append(f"round {step.number}: looked at {looked}; kept {kept}")
            lines += [f"  {decision_text(decision)}" for decision in step.decisions]
            if step.replay is not None:
                lines.append(f"  a second look at the same clips {'agreed' if step.replay.agrees else 'disagreed'}")
        return [*lines, self.ending]


def view_answer(result: AskResult) -> SearchView:
    """The view of an answer of `ask`, with the frames of its clips."""
    return view_search(result.prediction, result.question, result.bundle)


def view_search(prediction: Prediction, question: Question | None = None, clips: Sequence[Clip] = ()) -> SearchView:
    """The view of a run line, which any program may have written; `clips` are those of its bundle with their frames."""
    record, own_record = _read_record(prediction.trajectory)
    seen = [EvidenceClip(clip.span, frames=clip.frames) for clip in clips]
    if not seen:
        seen = [EvidenceClip(clip.span) for clip in prediction.bundle if isinstance(clip, ClipRecord)]
    seen.sort(key=lambda clip: clip.span)
    text = prediction.answer
    letters = question.letters if question else ()
    if question is not None and text in letters:
        text = question.option(text)
    facts: Mapping[Interval, tuple[str, ...]] = {}
    still_open: tuple[str, ...] = ()
    remark = ""
    anchors: dict[str, AnchorRecord] = {}
    if isinstance(record, TraceRecord):
        anchors = {anchor.id: anchor for step in record.rounds for anchor in step.anchors}
        facts, still_open = _settled_claims(record, [clip.span for clip in seen], anchors)
        remark = _count_remark(text, record, len(seen))
    calls = prediction.observations
    by = f", by {prediction.method}" if prediction.method else ""
    return SearchView(
        answer=f"{prediction.answer}. {text}" if prediction.answer in letters else text or "no answer",
        ending=_ending(prediction, record),
        clips=tuple(replace(clip, facts=facts.get(clip.span, ())) for clip in seen),
        still_open=still_open,
        remark=remark,
        effort=f"{prediction.frames_supplied} frames in {len(calls)} calls to {prediction.backbone}{by}",
        kind=record.kind if record else "own" if own_record else "none",
        record=record,
        own_record=own_record,
        anchors=anchors,
        fates=_fates(record) if isinstance(record, TraceRecord) else {},
        calls=tuple(f"{describe_stage(call.stage).doing}: {len(call.timestamps)} frames" for call in calls),
    )


def _read_record(trajectory: Mapping[str, object]) -> tuple[SearchRecord | None, str]:
    """The record, or the text of one that is not of this package."""
    if not trajectory:
        return None, ""
    try:
        short = _shorten(trajectory)
        record = read_search(short)
        return record, "" if record else _cut(json.dumps(short, ensure_ascii=False, indent=1), LONGEST_RECORD)
    except RecursionError:
        return None, "It is nested too deeply to be shown."


def _shorten(value: Any) -> Any:
    """The same JSON with every string cut to a length that a page can bear."""
    if isinstance(value, str):
        return _cut(value, LONGEST_TEXT)
    if isinstance(value, dict):
        return {_cut(key, LONGEST_TEXT): _shorten(entry) for key, entry in value.items()}
    return [_shorten(entry) for entry in value] if isinstance(value, list) else value


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _ending(prediction: Prediction, record: SearchRecord | None) -> str:
    if not prediction.termination:
        return ""
    if prediction.answer is None:
        return NO_ANSWER
    if prediction.termination == Termination.NO_STABLE_PREFIX and isinstance(record, TraceRecord):
        rounds = record.rounds
        if any(step.replay is not None and not step.replay.agrees for step in rounds):
            return f"A second look at the same clips gave another answer, and nothing settled it: {_GUESS}."
        if rounds and rounds[-1].decisions and rounds[-1].decisions[-1].action is None:
            return f"Nothing was left to look at, and the evidence had not settled: {_GUESS}."
        return f"Frames or rounds ran out before the evidence settled: {_GUESS}. A larger budget looks further."
    return ENDINGS.get(prediction.termination, "")


def _settled_claims(
    search: TraceRecord, clips: Sequence[Interval], anchors: Mapping[str, AnchorRecord]
) -> tuple[dict[Interval, tuple[str, ...]], tuple[str, ...]]:
    """The facts of the final bundle by the span of the clip that shows them, and the claims that stay open."""
    prefixes = _last_trajectory(search, _final_bundle(search))
    if not prefixes:
        return {}, tuple(map(claim_text, search.claims))
    final = prefixes[-1][1]
    facts: dict[Interval, tuple[str, ...]] = {}
    for claim in search.claims:
        value = final.facts.get(claim.id)
        if value is None:
            continue
        if isinstance(value, Interval):  # the clips that its time falls into
            places = [span for span in clips if span.intersection(value) is not None]
            words = f"{claim_text(claim)} ({fact_text(value)})"
        else:  # the clip whose addition settled it
            settling = [names[-1] for names, record in prefixes if names and record.facts.get(claim.id) == value]
            places = [anchors[name].clip.span for name in settling[:1] if name in anchors]
            words = f"{claim_text(claim)}: {fact_text(value)}"
        for span in places:
            facts[span] = (*facts.get(span, ()), words)
    return facts, tuple(claim_text(claim) for claim in search.claims if claim.id in final.unmet_needs)


def _final_bundle(search: TraceRecord) -> tuple[str, ...]:
    return search.stable_prefix or (search.fallback.prefix if search.fallback else ())


def _last_trajectory(search: TraceRecord, bundle: tuple[str, ...]) -> list[tuple[tuple[str, ...], PrefixRecord]]:
    """The bundles that were read up to this one, in the last round that read it; empty where none did."""
    for step in reversed(search.rounds):
        prefixes = list(zip(step.bundles, step.records, strict=False))
        for at, (names, _) in enumerate(prefixes):
            if names == bundle:
                return prefixes[: at + 1]
    return []


def _fates(record: TraceRecord) -> dict[str, Fate]:
    """The last thing that happened to an anchor counts."""
    fates: dict[str, Fate] = {}
    for step in record.rounds:
        fates |= {anchor.id: "kept" for anchor in step.anchors}
        fates |= {anchor.candidate.replaces: "refined" for anchor in step.anchors if anchor.candidate.replaces}
        for decision in step.decisions:
            if isinstance(decision.action, Drop):
                fates |= dict.fromkeys(decision.action.anchors, "dropped")
    return fates | dict.fromkeys(_final_bundle(record), "answer")


def _count_remark(text: str | None, record: TraceRecord, clips: int) -> str:
    """What a count leaves open: more than its clips show, and stretches that were not looked at closely."""
    if not any(claim.kind is ClaimKind.COUNT for claim in record.claims):
        return ""
    counted, remarks = text.strip() if text else "", []
    if counted.isdecimal() and int(counted) > clips:
        shown = f"{clips} clip{'' if clips == 1 else 's'}"
        remarks.append(
            f"The answer counts {counted}, with {shown} as evidence: a clip may show several, or some were not found."
        )
    if record.unexplored:
        remarks.append(f"Not looked at closely: {', '.join(map(span_text, record.unexplored))}.")
    if record.not_promising:
        spans = ", ".join(map(span_text, record.not_promising))
        remarks.append(f"Judged not promising from single frames: {spans}.")
    return " ".join(remarks)
