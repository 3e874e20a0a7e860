"""One item item: everything that was judged about it, and by rule where it stands.

Pure: a function of the history. What was judged about other intervals than the present ones no longer counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.leave_one_out import HumanAnswer, Probe
from trace_ves.construction.proposed_item import ProposedItem
from trace_ves.construction.shortcut_probe import Shortcut
from trace_ves.construction.stages import GIST_SLOT, GOLD_SLOT, LANGUAGE_SLOT, PROPOSAL_SLOT, Stage
from trace_ves.construction.visual_verification import (
    Evidence,
    Verification,
    merged,
    same_intervals,
)
from trace_ves.records.record import Counts, Flag, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.construction.ledger import Entry, Ledger

VERDICTS_NEEDED: Final = 2
GROUNDING, BOUNDARIES, SUFFICIENCY = "grounding", "boundaries", "sufficiency"


@dataclass(frozen=True, slots=True)
class Settlement(Record):
    """The adjudicator's word on a disagreement."""

    keep: Flag
    about: Counts
    """Numbers of the history's entries that disagreed; with others, it is another disagreement."""
    evidence: Evidence = ()
    """The intervals that count, where the disagreement was about them."""
    reason: str = ""
    answer: str = ""
    """The right option, where it is not the proposed one."""


@dataclass(frozen=True, slots=True)
class GoldAnswer(Record):
    """The right judgements of a gold item: one that is mixed in to see how well people look."""

    accept: Flag
    without: dict[int, str | None] = field(default_factory=dict)
    """For leave-one-out, by interval left out: the option that the other clips decide, None where they decide none."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A disagreement that waits for the adjudicator."""

    kind: str
    """`grounding`, `boundaries` or `sufficiency`."""
    about: tuple[int, ...]
    evidence: Evidence = ()
    """The intervals in force, for a disagreement about sufficiency."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an item is on its way."""

    waits_at: Stage | None = None
    """The stage whose judgement is missing; None where the item is accepted or rejected."""
    rejected_at: Stage | None = None
    evidence: Evidence = ()
    """The final intervals, as soon as they are known."""
    dispute: Dispute | None = None
    answer: str = ""
    """The final answer, as soon as it is known."""

    @property
    def accepted(self) -> bool:
        """Whether the item went all the way."""
        return self.waits_at is None and self.rejected_at is None


@dataclass(frozen=True)
class JudgedItem:
    """A proposed item and all judgements that stand about it."""

    id: str
    proposal: ProposedItem
    verifications: Mapping[str, tuple[Verification, int]] = field(default_factory=dict)
    """By annotator, with the number of its entry."""
    answers: Mapping[str, Mapping[int, tuple[HumanAnswer, int]]] = field(default_factory=dict)
    """By annotator and interval left out."""
    probes: Mapping[int, Probe] = field(default_factory=dict)
    language: Shortcut | None = None
    gist: Shortcut | None = None
    settlements: Mapping[str, Settlement] = field(default_factory=dict)
    seats: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By assignment: who holds it, and since when."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Who does not want to judge this item, and why."""
    gold: GoldAnswer | None = None

    def answers_of(self, who: str, evidence: Evidence) -> dict[int, HumanAnswer]:
        """What a person answered without each interval of this evidence."""
        mine = self.answers.get(who, {})
        return {left_out: answer for left_out, (answer, _) in mine.items() if answer.evidence == evidence}

    def probes_of(self, evidence: Evidence) -> dict[int, Probe]:
        """What the model answered without each interval of this evidence."""
        return {left_out: probe for left_out, probe in self.probes.items() if probe.evidence == evidence}

    def answered(self, evidence: Evidence) -> dict[str, dict[int, HumanAnswer]]:
        """What each person answered without intervals of this evidence."""
        return {who: mine for who in self.answers if (mine := self.answers_of(who, evidence))}

    def answers_to(self, evidence: Evidence, left_out: int) -> dict[str, HumanAnswer]:
        """Who answered without one interval of this evidence, and what; the first two count."""
        return {who: mine[left_out] for who in self.answers if left_out in (mine := self.answers_of(who, evidence))}

    def standing(self) -> Standing:
        """Where the item is, by the rules of the stages in their order."""
        found = self._verified()
        if found.waits_at is None and found.rejected_at is None:
            found = self._closed(found)
        if found.waits_at is None and found.rejected_at is None:
            found = self._without_shortcut(found)
        return found

    def _verified(self) -> Standing:
        verdicts = list(self.verifications.values())
        if len(verdicts) < VERDICTS_NEEDED:
            return Standing(Stage.VERIFICATION)
        (one, first), (other, second) = verdicts[:VERDICTS_NEEDED]
        if not (one.accepted or other.accepted or one.is_unsure or other.is_unsure):
            return Standing(rejected_at=Stage.VERIFICATION)
        both = one.accepted and other.accepted
        if both and one.answer == other.answer and same_intervals(one.evidence, other.evidence):
            answer = one.answer or self.proposal.answer
            return Standing(evidence=merged(one.evidence, other.evidence), answer=answer)
        kind = BOUNDARIES if both and one.answer == other.answer else GROUNDING
        return self._settled(Dispute(kind, tuple(sorted((first, second)))), "")

    def _closed(self, found: Standing) -> Standing:
        evidence, gold = found.evidence, found.answer
        probes = self.probes_of(evidence)
        if any(probe.determines for probe in probes.values()):
            return replace(found, rejected_at=Stage.LEAVE_ONE_OUT)
        answers = [self.answers_to(evidence, left_out) for left_out in range(len(evidence))]
        if len(probes) < len(evidence) or any(len(each) < VERDICTS_NEEDED for each in answers):
            return replace(found, waits_at=Stage.LEAVE_ONE_OUT)
        openers = {who for each in answers for who, answer in each.items() if answer.determines(gold)}
        if len(openers) >= VERDICTS_NEEDED:
            return replace(found, rejected_at=Stage.LEAVE_ONE_OUT)
        if not openers:
            return found
        numbers = (self.answers[who][left_out][1] for left_out, each in enumerate(answers) for who in each)
        return self._settled(Dispute(SUFFICIENCY, tuple(sorted(numbers)), evidence), gold)

    def _without_shortcut(self, found: Standing) -> Standing:
        probes = [probe for probe in (self.language, self.gist) if probe is not None]
        if any(probe.solves for probe in probes):
            return replace(found, rejected_at=Stage.SHORTCUT)
        return replace(found, waits_at=Stage.SHORTCUT if len(probes) < 2 else None)

    def _settled(self, dispute: Dispute, answer: str) -> Standing:
        settlement = self.settlements.get(dispute.kind)
        if settlement is None or settlement.about != dispute.about:
            return Standing(Stage.ADJUDICATION, evidence=dispute.evidence, dispute=dispute, answer=answer)
        if not settlement.keep:
            return Standing(rejected_at=Stage.ADJUDICATION, evidence=dispute.evidence, answer=answer)
        answer = answer or settlement.answer or self.proposal.answer
        return Standing(evidence=dispute.evidence or settlement.evidence, answer=answer)


def judged_item(ledger: Ledger, item: str) -> JudgedItem:
    """Everything that stands about an item; a `KeyError` where there is no such item."""
    proposal = ledger.value(item, PROPOSAL_SLOT)
    if proposal is None:
        raise KeyError(item)
    language, gist = ledger.value(item, LANGUAGE_SLOT), ledger.value(item, GIST_SLOT)
    gold = ledger.value(item, GOLD_SLOT)
    return JudgedItem(
        id=item,
        proposal=ProposedItem.from_json(proposal),
        verifications={
            who: (Verification.from_json(_value(entry)), entry.number)
            for who, entry in ledger.standing(item, "verification").items()
        },
        answers=_answers(ledger, item),
        probes={int(key): Probe.from_json(_value(entry)) for key, entry in ledger.standing(item, "probe").items()},
        language=None if language is None else Shortcut.from_json(language),
        gist=None if gist is None else Shortcut.from_json(gist),
        settlements={
            kind: Settlement.from_json(_value(entry)) for kind, entry in ledger.standing(item, "settlement").items()
        },
        seats=_seats(ledger, item),
        skipped={who: str(_value(entry)["reason"]) for who, entry in ledger.standing(item, "skip").items()},
        gold=None if gold is None else GoldAnswer.from_json(gold),
    )


def _answers(ledger: Ledger, item: str) -> dict[str, dict[int, tuple[HumanAnswer, int]]]:
    found: dict[str, dict[int, tuple[HumanAnswer, int]]] = {}
    for key, entry in ledger.standing(item, "without").items():
        who, _, left_out = key.rpartition("/")
        found.setdefault(who, {})[int(left_out)] = HumanAnswer.from_json(_value(entry)), entry.number
    return found


def _seats(ledger: Ledger, item: str) -> dict[str, dict[str, float]]:
    seats: dict[str, dict[str, float]] = {}
    for key, entry in sorted(ledger.standing(item, "seat").items()):
        if (who := _value(entry).get("who")) is not None:  # a seat that was released holds nobody
            seats.setdefault(key.rpartition("/")[0], {})[str(who)] = entry.at
    return seats


def _value(entry: Entry) -> Mapping[str, Any]:
    return entry.after or {}
