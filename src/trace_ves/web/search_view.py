"""Which story a run line tells: TRACE's, AVP's, VCA's, or, for any other, the method's own record as it is."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from trace_ves.core import Interval, Termination
from trace_ves.core.display import colour_stages, describe_stage
from trace_ves.records.search import (
    AtLeast,
    AvpRecord,
    ClaimKind,
    Drop,
    Expand,
    Refine,
    Stop,
    TraceRecord,
    VcaRecord,
    read_search,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trace_ves.core import Clip, ObservationStrategy
    from trace_ves.records.search import Action, AnchorRecord, Claim, Decision, FactValue, PrefixRecord, RoundRecord
    from trace_ves.runs.asking import AskResult
    from trace_ves.web.library import Library

BUCKETS: Final = {
    "covered": "right, evidence covered",
    "uncovered": "right, evidence not covered",
    "right": "right",
    "wrong": "wrong",
    "unscored": "not scored",
    "open": "no answer line yet",
}
"""The paper's three buckets, and what a page also meets."""

BUCKET_SIGNS: Final = {"covered": "●", "uncovered": "◐", "right": "●", "wrong": "✕", "unscored": "?", "open": "…"}
"""So that colour is never the only difference."""

TERMINATIONS: Final = {
    "stable-prefix-found": "The answer held while evidence grew, and a replay over the same clips agreed.",
    "no-stable-prefix": "At best a forced answer, not claimed to be sufficient.",
    "single-pass": "One look; nothing is claimed about sufficiency.",
    "self-reported": "The model said itself that it had seen enough.",
    "exhausted": "Rounds or frames ran out; nothing is claimed about sufficiency.",
}

LATEST_SECONDS: Final = 1e12
"""A later moment, in a foreign record, is shown as this one."""

FRAMES: Final = "frames"
"""The stage that stands for all, where a run logged no calls."""


def stage_name(stage: str) -> str:
    """A stage in words."""
    return describe_stage(stage).title


def stage_note(stage: str) -> str:
    """What a stage is for; nothing where it is not ours."""
    return describe_stage(stage).purpose


def stage_colours(names: list[str]) -> dict[str, str]:
    """A colour for each stage."""
    return colour_stages(names)


def clock(seconds: float, decimals: int = 1) -> str:
    """A moment as a player shows it: 1:02:03.4, or 2:03.4 within the first hour."""
    scale = 10**decimals
    ticks = round(min(seconds, LATEST_SECONDS) * scale)
    whole, rest = divmod(ticks, scale)
    tail = f".{rest:0{decimals}d}" if decimals else ""
    hours, minutes, last = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{last:02d}{tail}" if hours else f"{minutes}:{last:02d}{tail}"


def span_text(start: float, end: float) -> str:
    """A span of time from clock to clock."""
    return f"{clock(start)}-{clock(end)}"


def percent(value: float | None) -> str:
    """A rate in percent as the tables show it."""
    return "--" if value is None else f"{value:.1f}"


Fate = Literal["answer", "kept", "dropped", "refined"]
"""The answer rests on an anchor, or it was kept, dropped, or another look took its place."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """One bundle of a round with its record."""

    anchors: tuple[str, ...]
    record: PrefixRecord
    is_fresh: bool
    """Read in this round; else its record stood already."""
    is_stable: bool
    is_conflict: bool
    """Whether its newest anchor is in the conflict set."""


@dataclass(frozen=True, slots=True)
class TraceStory:
    """The whole search."""

    record: TraceRecord
    anchors: Mapping[str, AnchorRecord]
    """Of all rounds, by name."""
    fates: Mapping[str, Fate]
    """What became of each anchor, by name."""

    kind: ClassVar[str] = "trace"

    @classmethod
    def of(cls, record: TraceRecord) -> TraceStory:
        """The story of a record."""
        return cls(record, {anchor.id: anchor for each in record.rounds for anchor in each.anchors}, _fates(record))

    @property
    def claims(self) -> dict[str, str]:
        """The words of each claim, by its id."""
        return {claim.id: claim.text for claim in self.record.claims}

    def reading_of(self, bundle: tuple[str, ...]) -> PrefixRecord | None:
        """The last reading of a bundle, which a replay of it is compared with; None where it was never read."""
        readings = (
            record
            for found in reversed(self.record.rounds)
            for anchors, record in zip(found.bundles, found.records, strict=False)
            if anchors == bundle
        )
        return next(readings, None)

    @staticmethod
    def prefixes(found: RoundRecord) -> tuple[Prefix, ...]:
        """The trajectory of a round."""
        flags = found.flags
        return tuple(
            Prefix(
                anchors=anchors,
                record=record,
                is_fresh=at in found.assembled,
                is_stable=flags is not None and flags.stable_prefix == at,
                is_conflict=flags is not None and bool(anchors) and anchors[-1] in flags.conflicts,
            )
            for at, (anchors, record) in enumerate(zip(found.bundles, found.records, strict=False))
        )


def _fates(record: TraceRecord) -> dict[str, Fate]:
    """The last thing that happened to an anchor counts."""
    fates: dict[str, Fate] = {}
    for each in record.rounds:
        fates |= {anchor.id: "kept" for anchor in each.anchors}
        fates |= {anchor.candidate.replaces: "refined" for anchor in each.anchors if anchor.candidate.replaces}
        for decision in each.decisions:
            if isinstance(decision.action, Drop):
                fates |= dict.fromkeys(decision.action.anchors, "dropped")
    final = record.stable_prefix or (record.fallback.prefix if record.fallback else ())
    return fates | dict.fromkeys(final, "answer")


def strategy_text(strategy: ObservationStrategy) -> str:
    """How closely a span was looked at, in words."""
    return f"{strategy.fps:g} fps, {strategy.height} px"


def fact_text(value: FactValue) -> str:
    """How a claim was settled, in words."""
    match value:
        case Interval():
            return span_text(value.start, value.end)
        case AtLeast():
            return f"at least {value.count}"
        case _:
            return value


def decision_text(decision: Decision) -> str:
    """What the reconciler did, in words."""
    match decision.action:
        case Stop(prefix=at):
            return f"bundle {at + 1} is stable; replay it"
        case Drop(anchors=dropped):
            return f"take out {', '.join(sorted(dropped))} and build the trajectory again"
        case Refine(anchor=anchor, refinement=refinement):
            return f"look at {anchor} again: {refinement.replace('-', ' ')}"
        case Expand(intervals=spans):
            return "look for candidates in " + ", ".join(span_text(span.start, span.end) for span in spans)
        case None:
            return "nothing is left that could be done"


LONGEST_TEXT: Final = 4000
"""Characters of one string that a page shows."""
LONGEST_RECORD: Final = 20 * LONGEST_TEXT


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """The record of a method that the page does not know, as JSON."""

    text: str

    kind: ClassVar[str] = "own"


Story = TraceStory | AvpRecord | VcaRecord | OwnRecord


def story_of(trajectory: Mapping[str, object]) -> Story | None:
    """The story in a `trajectory`, which may come from anybody; None where the method kept none."""
    if not trajectory:
        return None
    try:
        record = _shortened(trajectory)
        found = read_search(record)
        if isinstance(found, TraceRecord):
            return TraceStory.of(found)
        return found or OwnRecord(_cut(json.dumps(record, ensure_ascii=False, indent=1), LONGEST_RECORD))
    except RecursionError:
        return OwnRecord("It is nested too deeply to be shown.")


def _shortened(value: Any) -> Any:
    """The same JSON with every string cut to a length that a page can bear."""
    if isinstance(value, str):
        return _cut(value, LONGEST_TEXT)
    if isinstance(value, dict):
        return {_cut(key, LONGEST_TEXT): _shortened(entry) for key, entry in value.items()}
    return [_shortened(entry) for entry in value] if isinstance(value, list) else value


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


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
        return [f"{describe_stage(call.stage).doing}: {len(call.timestamps)} frames" for call in calls]
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
    return f"{clock_words(span.start)}-{clock_words(span.end)}"


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
        return f"{_plain(claim)} ({clock_words(value.start)} - {clock_words(value.end)})"
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


def clock_words(seconds: float) -> str:
    """A moment as a player shows it, to a tenth of a second."""
    minutes, rest = divmod(round(seconds * 10), 600)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest / 10:04.1f}" if hours else f"{minutes}:{rest / 10:04.1f}"


@contextmanager
def answer_library(result: AskResult) -> Iterator[Library]:
    """The answer as a library of its own, with its video; `ModuleNotFoundError` without the extra for pages."""
    from trace_ves.web.open_library import library_of_answer

    with tempfile.TemporaryDirectory() as scratch:
        yield library_of_answer(
            result.question,
            result.duration,
            result.prediction,
            Path(scratch),
            videos=Path(result.question.video).resolve().parent,
            transcript=result.transcript,
        )
