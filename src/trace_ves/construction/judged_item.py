"""One item item: everything that was judged about it, and by rule where it stands.

Pure: a function of the history. What was judged about other intervals than the present ones no longer counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.leave_one_out import HumanAnswer, Probe
from trace_ves.construction.proposed_item import ProposedItem
from trace_ves.construction.shortcut_probe import Shortcut
from trace_ves.construction.stages import GIST_SLOT, LANGUAGE_SLOT, PROPOSAL_SLOT, Stage
from trace_ves.construction.visual_verification import (
    Evidence,
    Verification,
    evidence_from_history,
    merged,
    same_intervals,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.construction.ledger import Entry, Ledger

VERDICTS_NEEDED: Final = 2
GROUNDING, BOUNDARIES, SUFFICIENCY = "grounding", "boundaries", "sufficiency"


@dataclass(frozen=True, slots=True)
class Settlement:
    """The adjudicator's word on a disagreement."""

    keep: bool
    about: tuple[int, ...]
    """Numbers of the history's entries that disagreed; with others, it is another disagreement."""
    evidence: Evidence = ()
    """The intervals that count, where the disagreement was about them."""
    reason: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Settlement:
        """The settlement that stands in the history."""
        return cls(
            bool(value["keep"]),
            tuple(value["about"]),
            evidence_from_history(value["evidence"]),
            str(value["reason"]),
        )


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
    seats: Mapping[Stage, tuple[str, ...]] = field(default_factory=dict)

    def answers_of(self, who: str, evidence: Evidence) -> dict[int, HumanAnswer]:
        """What a person answered without each interval of this evidence."""
        mine = self.answers.get(who, {})
        return {left_out: answer for left_out, (answer, _) in mine.items() if answer.evidence == evidence}

    def probes_of(self, evidence: Evidence) -> dict[int, Probe]:
        """What the model answered without each interval of this evidence."""
        return {left_out: probe for left_out, probe in self.probes.items() if probe.evidence == evidence}

    def answered_all(self, evidence: Evidence) -> dict[str, dict[int, HumanAnswer]]:
        """The people who answered without each of the intervals."""
        everyone = {who: self.answers_of(who, evidence) for who in self.answers}
        return {who: mine for who, mine in everyone.items() if len(mine) == len(evidence)}

    def standing(self) -> Standing:
        """Where the item is, by the rules of the stages in their order."""
        found = self._verified()
        if found.waits_at is None and found.rejected_at is None:
            found = self._closed(found.evidence)
        if found.waits_at is None and found.rejected_at is None:
            found = self._without_shortcut(found.evidence)
        return found

    def _verified(self) -> Standing:
        verdicts = list(self.verifications.values())
        if len(verdicts) < VERDICTS_NEEDED:
            return Standing(Stage.VERIFICATION)
        (one, first), (other, second) = verdicts[:VERDICTS_NEEDED]
        if not (one.accepted or other.accepted):
            return Standing(rejected_at=Stage.VERIFICATION)
        if one.accepted and other.accepted and same_intervals(one.evidence, other.evidence):
            return Standing(evidence=merged(one.evidence, other.evidence))
        kind = BOUNDARIES if one.accepted and other.accepted else GROUNDING
        return self._settled(Dispute(kind, tuple(sorted((first, second)))))

    def _closed(self, evidence: Evidence) -> Standing:
        probes = self.probes_of(evidence)
        if any(probe.determines for probe in probes.values()):
            return Standing(rejected_at=Stage.LEAVE_ONE_OUT, evidence=evidence)
        answered = self.answered_all(evidence)
        if len(probes) < len(evidence) or len(answered) < VERDICTS_NEEDED:
            return Standing(Stage.LEAVE_ONE_OUT, evidence=evidence)
        gold = self.proposal.answer
        opened = [any(answer.determines(gold) for answer in mine.values()) for mine in answered.values()]
        if all(opened):
            return Standing(rejected_at=Stage.LEAVE_ONE_OUT, evidence=evidence)
        if not any(opened):
            return Standing(evidence=evidence)
        numbers = tuple(sorted(self.answers[who][left_out][1] for who in answered for left_out in answered[who]))
        return self._settled(Dispute(SUFFICIENCY, numbers, evidence))

    def _without_shortcut(self, evidence: Evidence) -> Standing:
        found = [probe for probe in (self.language, self.gist) if probe is not None]
        if any(probe.solves for probe in found):
            return Standing(rejected_at=Stage.SHORTCUT, evidence=evidence)
        return Standing(Stage.SHORTCUT if len(found) < 2 else None, evidence=evidence)

    def _settled(self, dispute: Dispute) -> Standing:
        word = self.settlements.get(dispute.kind)
        if word is None or word.about != dispute.about:
            return Standing(Stage.ADJUDICATION, evidence=dispute.evidence, dispute=dispute)
        if not word.keep:
            return Standing(rejected_at=Stage.ADJUDICATION, evidence=dispute.evidence)
        return Standing(evidence=dispute.evidence or word.evidence)


def judged_item(ledger: Ledger, item: str) -> JudgedItem:
    """Everything that stands about an item; a `KeyError` where there is no such item."""
    proposal = ledger.value(item, PROPOSAL_SLOT)
    if proposal is None:
        raise KeyError(item)
    language, gist = ledger.value(item, LANGUAGE_SLOT), ledger.value(item, GIST_SLOT)
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
    )


def _answers(ledger: Ledger, item: str) -> dict[str, dict[int, tuple[HumanAnswer, int]]]:
    found: dict[str, dict[int, tuple[HumanAnswer, int]]] = {}
    for key, entry in ledger.standing(item, "without").items():
        who, _, left_out = key.rpartition("/")
        found.setdefault(who, {})[int(left_out)] = HumanAnswer.from_json(_value(entry)), entry.number
    return found


def _seats(ledger: Ledger, item: str) -> dict[Stage, tuple[str, ...]]:
    seats: dict[Stage, tuple[str, ...]] = {}
    for key, entry in sorted(ledger.standing(item, "seat").items()):
        stage = Stage(key.rpartition("/")[0])
        seats[stage] = (*seats.get(stage, ()), str(_value(entry)["who"]))
    return seats


def _value(entry: Entry) -> Mapping[str, Any]:
    return entry.after or {}
