"""An item: its proposal, its judgements, and the state that the rules of the stages derive from them.

Everything is a function of the history. Judgements about outdated intervals do not count.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Final, TypeVar

from pydantic import Field

from trace_ves.construction.ledger import EVERYTHING, GIST_SLOT, GOLD_SLOT, LANGUAGE_SLOT, PROPOSAL_SLOT, Ledger, Stage
from trace_ves.construction.looking import Looking
from trace_ves.construction.people import RefusedError
from trace_ves.core import Interval, Question
from trace_ves.core.interval import iou
from trace_ves.records.base import Counts, Flag, Number, Record, Span

R = TypeVar("R", bound=Record)
Evidence = tuple[Span, ...]

VERDICTS_NEEDED: Final = 2  # independent annotators per item and per partial set
AGREEING_IOU: Final = 0.5  # two annotators agree on an interval from this IoU up; else the adjudicator decides
# Kinds of disagreement: whether the events happen, where their edges are, whether a partial set decides the answer.
GROUNDING, BOUNDARIES, SUFFICIENCY = "grounding", "boundaries", "sufficiency"


def evidence_to_json(evidence: Iterable[Interval]) -> list[list[float]]:
    """Intervals as pairs of seconds."""
    return [[interval.start, interval.end] for interval in evidence]


def mean_iou(one: Evidence, other: Evidence) -> float:
    """The mean IoU of two annotators' intervals; an interval without a counterpart counts as 0."""
    if len(one) == len(other):
        overlaps = [iou(a, b) for a, b in zip(one, other, strict=True)]
    else:
        overlaps = [max((iou(a, b) for b in other), default=0.0) for a in one]
    return min(1.0, sum(overlaps) / max(len(one), len(other), 1))


def same_intervals(one: Evidence, other: Evidence) -> bool:
    """Whether every interval overlaps its counterpart by at least `AGREEING_IOU`."""
    return len(one) == len(other) and all(iou(a, b) >= AGREEING_IOU for a, b in zip(one, other, strict=True))


def merge_intervals(one: Evidence, other: Evidence) -> Evidence:
    """Average two annotators' edges, rounded to milliseconds."""
    return tuple(
        Interval(round((a.start + b.start) / 2, 3), round((a.end + b.end) / 2, 3))
        for a, b in zip(one, other, strict=True)
    )


def partial_set(evidence: Evidence, left_out: int) -> Evidence:
    """The evidence without one interval."""
    return evidence[:left_out] + evidence[left_out + 1 :]


@dataclass(frozen=True, slots=True)
class ProposedItem(Record):
    """A proposed item."""

    video: str  # its path relative to the build's folder
    duration: Number
    family: str
    text: Annotated[str, Field(alias="question")]
    options: tuple[str, ...]
    answer: str
    evidence: tuple[Span, ...]
    rationales: tuple[str, ...]

    def question(self, name: str) -> Question:
        """The question as a method or a probe may see it."""
        return Question(name, self.video, self.text, self.options, self.family)


@dataclass(frozen=True, slots=True)
class Verification(Record):
    """One annotator's verdict on an item."""

    accepted: Flag
    evidence: Evidence = ()  # the corrected intervals; empty for a rejection
    reason: str = ""  # why it was rejected, or what the annotator is unsure about
    answer: str = ""  # the right option, if it is not the proposed one
    is_unsure: Annotated[Flag, Field(alias="unsure")] = False  # then the adjudicator decides
    comment: str = ""
    looking: Looking | None = None


@dataclass(frozen=True, slots=True)
class HumanAnswer(Record):
    """An annotator's answer from a partial set; None if its clips do not decide."""

    evidence: Evidence
    answer: str | None
    looking: Looking | None = None


@dataclass(frozen=True, slots=True)
class Probe(Record):
    """The model's answers from a partial set."""

    evidence: Evidence
    answers: tuple[str | None, ...]
    determines: Flag


@dataclass(frozen=True, slots=True)
class Shortcut(Record):
    """A model's answers without the video."""

    first: str | None
    repeat: tuple[str | None, ...]  # the held-out repeat; empty if the first answer was wrong
    solves: Flag


@dataclass(frozen=True, slots=True)
class Settlement(Record):
    """The adjudicator's decision on a disagreement."""

    keep: Flag
    about: Counts  # the numbers of the history entries that disagree; they identify the disagreement
    evidence: Evidence = ()  # the final intervals, if the disagreement was about them
    reason: str = ""
    answer: str = ""  # the right option, if it is not the proposed one


@dataclass(frozen=True, slots=True)
class Dispute:
    """A disagreement that waits for the adjudicator."""

    kind: str
    about: tuple[int, ...]
    evidence: Evidence = ()  # the final intervals, for a disagreement about sufficiency


@dataclass(frozen=True, slots=True)
class GoldAnswer(Record):
    """The correct judgements of a gold item."""

    accept: Flag
    without: dict[int, str | None] = field(default_factory=dict)
    """For each interval left out: the option that the other clips decide; None if they decide none."""


@dataclass(frozen=True, slots=True)
class ItemState:
    """The progress of an item."""

    waits_at: Stage | None = None  # the stage whose judgement is missing; None if the item is decided
    rejected_at: Stage | None = None
    evidence: Evidence = ()  # the final intervals, once they are known
    dispute: Dispute | None = None
    answer: str = ""  # the final answer, once it is known

    @property
    def accepted(self) -> bool:
        """Whether the item passed every stage."""
        return self.waits_at is None and self.rejected_at is None


@dataclass(frozen=True)
class JudgedItem:
    """A proposed item and its current judgements."""

    id: str
    proposal: ProposedItem
    numbers: Mapping[str, int] = field(default_factory=dict)  # the history entry of each judgement, by slot
    verifications: Mapping[str, Verification] = field(default_factory=dict)  # by annotator
    answers: Mapping[str, Mapping[int, HumanAnswer]] = field(default_factory=dict)  # by annotator and interval left out
    probes: Mapping[int, Probe] = field(default_factory=dict)
    language: Shortcut | None = None
    gist: Shortcut | None = None
    settlements: Mapping[str, Settlement] = field(default_factory=dict)
    holders: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by assignment: who, and since when
    skipped: Mapping[str, str] = field(default_factory=dict)  # who skipped this item, and why
    gold: GoldAnswer | None = None

    def answers_about(self, evidence: Evidence) -> dict[str, dict[int, HumanAnswer]]:
        """The annotators' answers without each interval of this evidence, by annotator."""
        about = {
            who: {left_out: answer for left_out, answer in answers.items() if answer.evidence == evidence}
            for who, answers in self.answers.items()
        }
        return {who: answers for who, answers in about.items() if answers}

    def answers_without(self, evidence: Evidence, left_out: int) -> dict[str, HumanAnswer]:
        """The annotators' answers without one interval of this evidence."""
        return {who: mine[left_out] for who, mine in self.answers_about(evidence).items() if left_out in mine}

    def probes_about(self, evidence: Evidence) -> dict[int, Probe]:
        """The model's answers without each interval of this evidence."""
        return {left_out: probe for left_out, probe in self.probes.items() if probe.evidence == evidence}

    @property
    def partial_evidence(self) -> Evidence:
        """The intervals of partial sets: the final ones, or those of a gold item."""
        return self.proposal.evidence if self.gold is not None else self.state.evidence

    def assignment_key(self, stage: Stage, left_out: int | None = None) -> str:
        """The name of an assignment: its stage, and for leave-one-out the hidden interval and an evidence digest."""
        return stage.value if left_out is None else f"{stage.value}:{left_out}:{self._evidence_digest}"

    def waits_at(self, stage: Stage) -> bool:
        """Whether the item waits for judgements of this stage."""
        if self.gold is not None:  # a gold item is never decided; it waits for every annotator
            return stage is Stage.VERIFICATION or bool(self.gold.without)
        return self.state.waits_at is stage

    @cached_property
    def held(self) -> dict[str, list[tuple[Stage, int | None]]]:
        """The open assignments of each annotator: stage and interval left out."""
        held: dict[str, list[tuple[Stage, int | None]]] = {}
        if self.waits_at(Stage.VERIFICATION):
            for who in self.holders.get(self.assignment_key(Stage.VERIFICATION), {}).keys() - self.verifications.keys():
                held.setdefault(who, []).append((Stage.VERIFICATION, None))
        if self.waits_at(Stage.LEAVE_ONE_OUT):
            for left_out in range(len(self.partial_evidence)):
                answered = self.answers_without(self.partial_evidence, left_out)
                key = self.assignment_key(Stage.LEAVE_ONE_OUT, left_out)
                for who in self.holders.get(key, {}).keys() - answered.keys():
                    held.setdefault(who, []).append((Stage.LEAVE_ONE_OUT, left_out))
        return held

    @cached_property
    def _evidence_digest(self) -> str:
        edges = ",".join(f"{span.start:.3f}-{span.end:.3f}" for span in self.partial_evidence)
        return hashlib.sha256(edges.encode()).hexdigest()[:12]

    @cached_property
    def state(self) -> ItemState:
        """The progress of the item, by the rules of the stages in order."""
        state = self._verify()
        if state.accepted:
            state = self._leave_one_out(state)
        if state.accepted:
            state = self._probe_shortcuts(state)
        return state

    def _verify(self) -> ItemState:
        people = list(self.verifications)[:VERDICTS_NEEDED]
        if len(people) < VERDICTS_NEEDED:
            return ItemState(Stage.VERIFICATION)
        one, other = (self.verifications[who] for who in people)
        if not (one.accepted or other.accepted or one.is_unsure or other.is_unsure):
            return ItemState(rejected_at=Stage.VERIFICATION)
        both = one.accepted and other.accepted and one.answer == other.answer
        if both and same_intervals(one.evidence, other.evidence):
            answer = one.answer or self.proposal.answer
            return ItemState(evidence=merge_intervals(one.evidence, other.evidence), answer=answer)
        numbers = tuple(sorted(self.numbers[f"verification/{who}"] for who in people))
        return self._settle(Dispute(BOUNDARIES if both else GROUNDING, numbers), "")

    def _leave_one_out(self, state: ItemState) -> ItemState:
        evidence = state.evidence
        probes = self.probes_about(evidence)
        if any(probe.determines for probe in probes.values()):
            return replace(state, rejected_at=Stage.LEAVE_ONE_OUT)
        answers = [self.answers_without(evidence, left_out) for left_out in range(len(evidence))]
        if len(probes) < len(evidence) or any(len(each) < VERDICTS_NEEDED for each in answers):
            return replace(state, waits_at=Stage.LEAVE_ONE_OUT)
        deciders = {who for each in answers for who, answer in each.items() if answer.answer == state.answer}
        if len(deciders) >= VERDICTS_NEEDED:
            return replace(state, rejected_at=Stage.LEAVE_ONE_OUT)
        if not deciders:
            return state
        numbers = (self.numbers[f"without/{who}/{left_out}"] for left_out, each in enumerate(answers) for who in each)
        return self._settle(Dispute(SUFFICIENCY, tuple(sorted(numbers)), evidence), state.answer)

    def _probe_shortcuts(self, state: ItemState) -> ItemState:
        probes = [probe for probe in (self.language, self.gist) if probe is not None]
        if any(probe.solves for probe in probes):
            return replace(state, rejected_at=Stage.SHORTCUT)
        return replace(state, waits_at=Stage.SHORTCUT if len(probes) < 2 else None)

    def _settle(self, dispute: Dispute, answer: str) -> ItemState:
        settlement = self.settlements.get(dispute.kind)
        if settlement is None or settlement.about != dispute.about:
            return ItemState(Stage.ADJUDICATION, evidence=dispute.evidence, dispute=dispute, answer=answer)
        if not settlement.keep:
            return ItemState(rejected_at=Stage.ADJUDICATION, evidence=dispute.evidence, answer=answer)
        answer = answer or settlement.answer or self.proposal.answer
        return ItemState(evidence=dispute.evidence or settlement.evidence, answer=answer)


def list_items(ledger: Ledger) -> list[JudgedItem]:
    """Every item except gold items, in the order of proposal."""
    return [judged for judged in list_all_items(ledger) if judged.gold is None]


def list_all_items(ledger: Ledger) -> list[JudgedItem]:
    """Every item, including gold items."""
    return ledger.derive(EVERYTHING, _read_items)


def judged_item(ledger: Ledger, item: str) -> JudgedItem:
    """An item with its judgements; a `RefusedError` if it does not exist."""
    try:
        return ledger.derive(item, _read_item)
    except KeyError:
        raise RefusedError(f"There is no item {item[:40]!r}.") from None


def _read_items(ledger: Ledger, _: str) -> list[JudgedItem]:
    return [ledger.derive(item, _read_item) for item in ledger.subjects(PROPOSAL_SLOT)]


def _read_item(ledger: Ledger, item: str) -> JudgedItem:
    proposal = _read(ledger, item, PROPOSAL_SLOT, ProposedItem)
    if proposal is None:
        raise KeyError(item)
    answers: dict[str, dict[int, HumanAnswer]] = {}
    for key, answer in _read_all(ledger, item, "without", HumanAnswer).items():
        who, _, left_out = key.rpartition("/")
        answers.setdefault(who, {})[int(left_out)] = answer
    holders: dict[str, dict[str, float]] = {}
    for key, entry in sorted(ledger.current(item, "seat").items()):
        if entry.after and "who" in entry.after:  # a release has none
            holders.setdefault(key.rpartition("/")[0], {})[str(entry.after["who"])] = entry.at
    return JudgedItem(
        id=item,
        proposal=proposal,
        numbers={entry.slot: entry.number for entry in ledger.judgements(item)},
        verifications=_read_all(ledger, item, "verification", Verification),
        answers=answers,
        probes={int(key): probe for key, probe in _read_all(ledger, item, "probe", Probe).items()},
        language=_read(ledger, item, LANGUAGE_SLOT, Shortcut),
        gist=_read(ledger, item, GIST_SLOT, Shortcut),
        settlements=_read_all(ledger, item, "settlement", Settlement),
        holders=holders,
        skipped={who: str((entry.after or {})["reason"]) for who, entry in ledger.current(item, "skip").items()},
        gold=_read(ledger, item, GOLD_SLOT, GoldAnswer),
    )


def _read(ledger: Ledger, item: str, slot: str, kind: type[R]) -> R | None:
    value = ledger.value(item, slot)
    return None if value is None else kind.from_json(value)


def _read_all(ledger: Ledger, item: str, prefix: str, kind: type[R]) -> dict[str, R]:
    return {key: kind.from_json(entry.after or {}) for key, entry in ledger.current(item, prefix).items()}
