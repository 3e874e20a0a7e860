"""View model of one search. The terminal, pages, studio, notebooks, saved files and MCP render it. Needs no extra."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from trace_ves.backbone.replies import fold_words, same_answer
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy, Question, Termination
from trace_ves.core.display import count_words, describe_stage
from trace_ves.observer import Decided, Event, RoundStarted, StageStarted
from trace_ves.records import ClipRecord, Prediction
from trace_ves.records.search import (
    AnchorRecord,
    AtLeast,
    AvpPiece,
    Claim,
    ClaimKind,
    Decision,
    Drop,
    Expand,
    FactValue,
    PrefixRecord,
    Refine,
    RoundRecord,
    SearchRecord,
    Stop,
    TraceRecord,
    VcaSegment,
    read_search,
)

if TYPE_CHECKING:
    from trace_ves.runs.asking import AskResult


Span = Interval | AvpPiece | VcaSegment

Fate = Literal["answer", "kept", "dropped", "refined"]
FATES: Final[dict[Fate, str]] = {
    "answer": "supports the answer",
    "kept": "kept",
    "dropped": "dropped",
    "refined": "replaced by another look",
}
"""The fates of an anchor, with their descriptions."""


class Found(StrEnum):
    """Whether a video shows what the question asks for, the surest first."""

    SETTLED = "found"
    GUESS = "guess"
    NO = "not found"
    ERROR = "error"


STABLE: Final = "The answer did not change as evidence was added, and a second look at the same clips agreed."
NOT_FOUND: Final = "No clip that the search looked at shows it. Rephrase the question, or try a larger --budget."
_UNKNOWN: Final = re.compile(
    r"(?:unknown|unclear|undetermined|undeterminable|unanswerable|indeterminate|n(?: a)?$"
    r"|no (?:answer|evidence|information)"
    r"|not (?:answerable|clear|determinable|enough|found|known|mentioned|possible|present|seen|shown|specified|visible)"
    r"|(?:it |this )?(?:cannot|can not|cant|could not) (?:be )?(?:answer|determine|identif|know|say|see|tell|told))"
)
"""The beginning of a free-text answer that means "not found", after `fold_words`."""
NOTHING_LEFT: Final = "nothing is left to look at"
_GUESS: Final = "take this as a guess"
ENDINGS: Final[dict[str, str]] = {
    Termination.STABLE_PREFIX_FOUND: STABLE,
    Termination.NO_STABLE_PREFIX: f"The evidence had not settled when the search ended: {_GUESS}.",
    Termination.SINGLE_PASS: "The method looked once and did not check whether it saw enough.",
    Termination.SELF_REPORTED: "The model said that it had seen enough; this was not checked.",
    Termination.EXHAUSTED: f"Rounds or frames ran out before the method finished: {_GUESS}.",
}
"""Why a search stopped, if its record only has the termination."""

LATEST_SECONDS: Final = 1e12  # later moments, which records of other programs may contain, are shown as this one
LONGEST_TEXT: Final = 4000  # characters shown of each string in a record
LONGEST_RECORD: Final = 20 * LONGEST_TEXT
MOST_SPANS: Final = 3  # spans named for a step of a running search
_TIME_CLAIM: Final = "when this happens: "


def clock(seconds: float, decimals: int = 1) -> str:
    """Format a moment as players do: 1:02:03.4, or 2:03.4 within the first hour."""
    scale = 10**decimals
    whole, rest = divmod(round(min(seconds, LATEST_SECONDS) * scale), scale)
    tail = f".{rest:0{decimals}d}" if decimals else ""
    hours, minutes, last = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{last:02d}{tail}" if hours else f"{minutes}:{last:02d}{tail}"


def span_text(span: Span) -> str:
    """Format a span as two moments."""
    return f"{clock(span.start)}-{clock(span.end)}"


def strategy_text(strategy: ObservationStrategy) -> str:
    """Format frame rate and resolution."""
    return f"{strategy.fps:g} fps, {strategy.height} px"


def fact_text(value: FactValue) -> str:
    """Format the value that settled a claim."""
    match value:
        case Interval():
            return span_text(value)
        case AtLeast():
            return f"at least {value.count}"
        case _:
            return value


def claim_text(claim: Claim) -> str:
    """The text of a claim without its prefix for the model."""
    return claim.text.removeprefix(_TIME_CLAIM)


def decision_text(decision: Decision) -> str:
    """Describe a decision of TRACE."""
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
    """Describe what a running search is doing; empty for events that only report a reply."""
    match event:
        case RoundStarted(number=number):
            return f"round {number}"
        case StageStarted(stage=stage, spans=spans):
            distinct = list(dict.fromkeys(spans))
            where = ", ".join(map(span_text, distinct[:MOST_SPANS]))
            more = f" and {len(distinct) - MOST_SPANS} more" if len(distinct) > MOST_SPANS else ""
            return f"{describe_stage(stage).activity} {where}{more}".strip()
        case Decided(decision=decision):
            return decision_text(decision)
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class EvidenceClip:
    """A clip, what the model saw in it, and the claims that it settles."""

    span: Interval
    facts: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()  # empty if only the record is available
    seen: str = ""  # the model's description
    targets: tuple[str, ...] = ()  # the claims that the search hoped to settle with it
    moment: float = 0.0  # the time of its first frame, where a page seeks to; only set if there are no frames

    @property
    def caption(self) -> tuple[str, ...]:
        """What the model saw, and the claims that the clip settles, else those it was meant to settle."""
        claims = self.facts or tuple(f"looked at for: {claim}" for claim in self.targets)
        return tuple(filter(None, (self.seen, *claims)))


@dataclass(frozen=True, slots=True)
class Prefix:
    """One bundle of a round with its record."""

    anchors: tuple[str, ...]
    record: PrefixRecord
    is_fresh: bool  # read in this round, not in an earlier one
    is_stable: bool
    is_conflict: bool  # its newest anchor is in the conflict set


@dataclass(frozen=True, slots=True)
class SearchView:
    """One search: its answer, why it stopped, the supporting clips, open claims, and its record."""

    answer: str  # the letter with the option's text, or the free-text answer
    ending: str  # why the search stopped, and how far to trust it; empty if the line does not record it
    found: Found
    clips: tuple[EvidenceClip, ...]  # in order of time; a storyboard is not evidence
    others: tuple[EvidenceClip, ...]  # other clips of the search, which do not support the answer
    settled: tuple[str, ...]  # the claims that the clips settle, with their facts
    still_open: tuple[str, ...]  # the claims that the clips do not settle
    remark: str  # a caveat about the clips, or an empty string
    effort: str  # frames, calls, model and method, as a phrase
    kind: Literal["trace", "avp", "vca", "own", "none"]
    record: SearchRecord | None  # None if the method has no record, or one in another format
    own_record: str = ""  # such a record as JSON
    anchors: Mapping[str, AnchorRecord] = field(default_factory=dict)  # TRACE's anchors of all rounds, by name
    fates: Mapping[str, Fate] = field(default_factory=dict)  # the fate of each anchor, by name
    calls: tuple[str, ...] = ()  # a description of each call, in order

    @property
    def claims(self) -> dict[str, str]:
        """The text of TRACE's claims, by id."""
        record = self.record
        return {claim.id: claim_text(claim) for claim in record.claims} if isinstance(record, TraceRecord) else {}

    def reading_of(self, bundle: tuple[str, ...]) -> PrefixRecord | None:
        """The last reading of a bundle; None if it was never read."""
        prefixes = _readings(self.record, bundle) if isinstance(self.record, TraceRecord) else []
        return prefixes[-1][1] if prefixes and prefixes[-1][0] == bundle else None

    @staticmethod
    def prefixes(step: RoundRecord) -> tuple[Prefix, ...]:
        """The prefixes of a round."""
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
        """Describe the search: where each round looked, what it kept and decided, and why the search stopped."""
        if not isinstance(self.record, TraceRecord):
            return [*self.calls, self.ending]
        lines = [f"to be settled: {'; '.join(self.claims.values())}"]
        for step in self.record.rounds:
            candidates = ", ".join(span_text(candidate.span) for candidate in step.candidates)
            kept = ", ".join(span_text(anchor.clip.span) for anchor in step.anchors)
            where = f"looked at {candidates}" if candidates else "no new segments"
            lines.append(f"round {step.number}: {where}; {f'kept {kept}' if step.anchors else 'nothing kept'}")
            lines += [f"  {decision_text(decision)}" for decision in step.decisions]
            if step.replay is not None:
                lines.append(f"  a second look at the same clips {'agreed' if step.replay.agrees else 'disagreed'}")
        return [*lines, self.ending]


def view_answer(result: AskResult) -> SearchView:
    """Make the view of an answer of `ask`, with the frames of its clips."""
    return view_search(result.prediction, result.question, result.bundle)


def view_search(prediction: Prediction, question: Question | None = None, clips: Sequence[Clip] = ()) -> SearchView:
    """Make the view of a run line, which any program may have written; `clips` are its bundle with frames."""
    record, own_record = _read_record(prediction.trajectory)
    seen = [EvidenceClip(clip.span, frames=clip.frames) for clip in clips]
    records = [clip for clip in prediction.bundle if isinstance(clip, ClipRecord)]
    if not seen:
        seen = [EvidenceClip(clip.span, moment=next(iter(clip.timestamps), clip.span.start)) for clip in records]
    text = prediction.answer
    letters = question.letters if question else ()
    if question is not None and text in letters:
        text = question.option(text)
    others: list[EvidenceClip] = []
    settled: dict[str, tuple[Interval, ...]] = {}
    still_open: tuple[str, ...] = ()
    remark = ""
    anchors: dict[str, AnchorRecord] = {}
    fates: dict[str, Fate] = {}
    if isinstance(record, TraceRecord):
        anchors = {anchor.id: anchor for step in record.rounds for anchor in step.anchors}
        fates = _fates(record)
        by_span = {anchor.clip.span: anchor for anchor in anchors.values()}
        outside = [anchors[name] for name, fate in fates.items() if fate in {"kept", "dropped"} and name in anchors]
        seen = [clip for clip in seen if clip.span in by_span or clip.span != record.storyboard.span]
        others = [EvidenceClip(anchor.clip.span) for anchor in outside]
        settled, still_open = _settled_claims(record, [clip.span for clip in seen], anchors)
        remark = _count_remark(text, record, len(seen))

        def with_caption(clip: EvidenceClip) -> EvidenceClip:
            facts = tuple(words for words, spans in settled.items() if clip.span in spans)
            anchor = by_span.get(clip.span)
            if anchor is None:
                return replace(clip, facts=facts)
            claims = {claim.id: claim_text(claim) for claim in record.claims}
            targets = tuple(claims[name] for name in anchor.candidate.claims if name in claims)
            return replace(clip, facts=facts, seen=anchor.seen, targets=targets)

        seen, others = [with_caption(clip) for clip in seen], [with_caption(clip) for clip in others]
    calls = prediction.observations
    found = _classify(prediction, text, is_open=not letters)
    if found is Found.NO:  # then no clip is evidence
        seen, others = [], [*others, *(seen if isinstance(record, TraceRecord) else ())]
    answer = f"{prediction.answer}. {text}" if prediction.answer in letters else text or ""
    by = f", by {prediction.method}" if prediction.method else ""
    return SearchView(
        answer="not found" if found is Found.NO else answer,
        ending=_ending(prediction, record, found),
        found=found,
        clips=tuple(sorted(seen, key=lambda clip: clip.span)),
        others=tuple(sorted(others, key=lambda clip: clip.span)),
        settled=tuple(settled),
        still_open=still_open,
        remark=remark,
        effort=f"{prediction.frames_supplied} frames in {count_words(len(calls), 'call')} to {prediction.backbone}{by}",
        kind=record.kind if record else "own" if own_record else "none",
        record=record,
        own_record=own_record,
        anchors=anchors,
        fates=fates,
        calls=tuple(f"{describe_stage(call.stage).activity}: {len(call.timestamps)} frames" for call in calls),
    )


def _classify(prediction: Prediction, text: str | None, *, is_open: bool) -> Found:
    if prediction.error is not None:
        return Found.ERROR
    if text is None or (is_open and _UNKNOWN.match(" ".join(fold_words(text)))):
        return Found.NO
    return Found.SETTLED if prediction.termination == Termination.STABLE_PREFIX_FOUND else Found.GUESS


def _read_record(trajectory: Mapping[str, object]) -> tuple[SearchRecord | None, str]:
    """Parse the record of a search; one in another format is returned as JSON text."""
    if not trajectory:
        return None, ""
    try:
        shortened = _shorten_strings(trajectory)
        record = read_search(shortened)
        return record, "" if record else shorten(json.dumps(shortened, ensure_ascii=False, indent=1), LONGEST_RECORD)
    except RecursionError:
        return None, "This record is nested too deeply to show."


def _shorten_strings(value: Any) -> Any:
    """Shorten every string of a JSON value to `LONGEST_TEXT`."""
    if isinstance(value, str):
        return shorten(value, LONGEST_TEXT)
    if isinstance(value, dict):
        return {shorten(key, LONGEST_TEXT): _shorten_strings(entry) for key, entry in value.items()}
    return [_shorten_strings(entry) for entry in value] if isinstance(value, list) else value


def shorten(text: str, longest: int) -> str:
    """Cut a text to this many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _ending(prediction: Prediction, record: SearchRecord | None, found: Found) -> str:
    if found is Found.NO and prediction.termination:
        return NOT_FOUND
    if not isinstance(record, TraceRecord) or not prediction.termination:
        return ENDINGS.get(prediction.termination or "", "")
    rounds = record.rounds
    if prediction.termination == Termination.STABLE_PREFIX_FOUND:
        last = next((step for step in reversed(rounds) if record.stable_prefix in step.bundles), None)
        readings = [each.answer for each in last.records] if last else []
        clips = len(record.stable_prefix or ())
        clips_text = "the clip" if clips == 1 else f"all {clips} clips"
        single_reading = f"One reading of {clips_text} settled every claim, and a second look agreed."
        return single_reading if sum(same_answer(each, prediction.answer) for each in readings) == 1 else STABLE
    if any(step.replay is not None and not step.replay.agrees for step in rounds):
        return f"A second look at the same clips gave another answer, and nothing settled it: {_GUESS}."
    if rounds and rounds[-1].decisions and rounds[-1].decisions[-1].action is None:
        return f"Nothing was left to look at, and the evidence had not settled: {_GUESS}."
    return f"Frames or rounds ran out before the evidence settled: {_GUESS}. Try a larger --budget."


def _settled_claims(
    search: TraceRecord, clips: Sequence[Interval], anchors: Mapping[str, AnchorRecord]
) -> tuple[dict[str, tuple[Interval, ...]], tuple[str, ...]]:
    """The claims that the final bundle settles, each with its clips, and those that stay open."""
    prefixes = _readings(search, _final_bundle(search))
    final = prefixes[-1][1] if prefixes else None
    settled: dict[str, tuple[Interval, ...]] = {}
    still_open = []
    for claim in search.claims:
        value = final.facts.get(claim.id) if final else None
        if value is None:
            is_explored = claim.kind is ClaimKind.EXPLORED
            is_open = bool(search.unexplored) if is_explored else not search.stable_prefix
            if is_open or final is None or claim.id in final.unmet_needs:
                still_open.append(claim_text(claim))
        elif isinstance(value, Interval):  # shown by the clips that overlap this time
            places = tuple(span for span in clips if span.intersection(value) is not None)
            settled[f"{claim_text(claim)} ({fact_text(value)})"] = places
        else:  # shown by the clip whose addition settled it
            settling = [names[-1] for names, record in prefixes if names and record.facts.get(claim.id) == value]
            places = tuple(anchors[name].clip.span for name in settling[:1] if name in anchors)
            settled[f"{claim_text(claim)}: {fact_text(value)}"] = places
    return settled, tuple(still_open)


def _final_bundle(search: TraceRecord) -> tuple[str, ...]:
    return search.stable_prefix or (search.fallback.prefix if search.fallback else ())


def _readings(search: TraceRecord, bundle: tuple[str, ...]) -> list[tuple[tuple[str, ...], PrefixRecord]]:
    """The readings of a bundle and its prefixes in the last round that read it, else of its largest part."""
    best: list[tuple[tuple[str, ...], PrefixRecord]] = []
    for step in search.rounds:
        prefixes = list(zip(step.bundles, step.records, strict=False))
        for at, (names, _) in enumerate(prefixes):
            if set(names) <= set(bundle) and (not best or len(names) >= len(best[-1][0])):
                best = prefixes[: at + 1]
    return best


def _fates(record: TraceRecord) -> dict[str, Fate]:
    """The fate of each anchor; the last change counts."""
    fates: dict[str, Fate] = {}
    for step in record.rounds:
        fates |= {anchor.id: "kept" for anchor in step.anchors}
        fates |= {anchor.candidate.replaces: "refined" for anchor in step.anchors if anchor.candidate.replaces}
        for decision in step.decisions:
            if isinstance(decision.action, Drop):
                fates |= dict.fromkeys(decision.action.anchors, "dropped")
    return fates | dict.fromkeys(_final_bundle(record), "answer")


def _count_remark(text: str | None, record: TraceRecord, clips: int) -> str:
    """The caveats of a count: more than its clips show, and spans that were not examined closely."""
    if not any(claim.kind is ClaimKind.COUNT for claim in record.claims):
        return ""
    counted, remarks = text.strip() if text else "", []
    if counted.isdecimal() and int(counted) > clips:
        remarks.append(
            f"The answer counts {counted}, with {count_words(clips, 'clip')} as evidence: a clip may show several, "
            "or some were not found."
        )
    if record.unexplored:
        remarks.append(f"Not looked at closely: {', '.join(map(span_text, record.unexplored))}.")
    if record.not_promising:
        spans = ", ".join(map(span_text, record.not_promising))
        remarks.append(f"Judged not promising from single frames: {spans}.")
    return " ".join(remarks)
