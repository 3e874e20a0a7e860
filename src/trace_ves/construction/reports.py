"""What a build came to, as the paper's appendix tells it: rejections, agreement, time, and what is guaranteed.

Pure: a function of the history.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.annotator_record import annotator_records, why_unproven
from trace_ves.construction.item_index import ItemIndex
from trace_ves.construction.judged_item import SUFFICIENCY
from trace_ves.construction.settings import BuildSettings
from trace_ves.construction.spending import calls_in
from trace_ves.construction.stages import Stage
from trace_ves.construction.visual_verification import mean_iou

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.construction.annotator_record import AnnotatorRecord
    from trace_ves.construction.item_index import IndexedItem
    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.ledger import Ledger

FILTERS: Final = (Stage.VERIFICATION, Stage.LEAVE_ONE_OUT, Stage.SHORTCUT, Stage.ADJUDICATION)
"""The stages that reject, in the order of the paper's funnel."""
TIMED: Final = ("verification/", "without/")
"""Slots whose time counts as the paper counts it: visual verification and leave-one-out together."""


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of a build."""

    proposed: int
    rejected: Mapping[Stage, int]
    waiting: Mapping[Stage, int]
    accepted: int
    settled: int
    """Accepted items that an adjudicator decided about."""
    settled_sufficiency: int
    """Accepted items on whose sufficiency two people disagreed until an adjudicator decided."""
    iou: float | None
    """Mean agreement of two annotators' edges, over the accepted items that two annotators accepted."""
    agreement: float | None
    """Percent of partial sets on which a person and the model say the same about sufficiency."""
    minutes_per_item: float | None
    """Mean over items and annotators, verification and leave-one-out together."""
    hours: float
    """Of all people, adjudication included."""
    backbones: Mapping[str, tuple[str, ...]]
    """Which backbones each stage called."""
    annotators: Mapping[str, AnnotatorRecord] = field(default_factory=dict)
    unproven: Mapping[str, str] = field(default_factory=dict)
    """Accepted items for which nothing is guaranteed, and why: nobody can tell that people looked."""
    not_blind: int = 0
    """Answers about partial sets by people who had seen other clips of the video; only where the settings allow it."""
    partial_answers: int = 0
    """Answers of people about partial sets."""

    @property
    def after(self) -> dict[Stage, int]:
        """Items that no stage up to this one rejected."""
        left, found = self.proposed, {}
        for stage in FILTERS:
            left -= self.rejected[stage]
            found[stage] = left
        return found

    @property
    def accept_rate(self) -> float | None:
        """Percent of the proposed items that were accepted; None before the first one is decided."""
        decided = self.accepted + sum(self.rejected.values())
        return 100 * self.accepted / self.proposed if decided else None

    def to_json(self) -> dict[str, Any]:
        """The numbers for machines."""
        return {
            "proposed": self.proposed,
            "after": dict(self.after),
            "rejected": dict(self.rejected),
            "waiting": dict(self.waiting),
            "accepted": self.accepted,
            "accept_rate": _rounded(self.accept_rate),
            "settled_by_adjudicator": self.settled,
            "inter_annotator_iou": _rounded(self.iou, 3),
            "human_model_agreement": _rounded(self.agreement),
            "minutes_per_item": _rounded(self.minutes_per_item, 2),
            "hours": round(self.hours, 2),
            "backbones": {stage: list(specs) for stage, specs in self.backbones.items()},
            "annotators": [
                {"annotator": number} | each.to_json() for number, each in enumerate(self.annotators.values(), 1)
            ],
            "not_blind": self.not_blind,
            "partial_answers": self.partial_answers,
            "unproven": dict(self.unproven),
            "closure": closure_statement(self),
        }


def report(ledger: Ledger, index: ItemIndex | None = None, settings: BuildSettings | None = None) -> Report:
    """The numbers of everything that the history tells; `settings` say which judgements count as looked at."""
    index, settings = index or ItemIndex(), settings or BuildSettings()
    indexed = index.all(ledger)
    annotators = annotator_records(ledger, index.with_gold(ledger))
    partial = [
        answer
        for judged, standing in indexed
        for mine in judged.answered(standing.evidence).values()
        for answer in mine.values()
    ]
    rejected = Counter(standing.rejected_at for _, standing in indexed)
    waiting = Counter(standing.waits_at for _, standing in indexed)
    accepted = [(judged, standing) for judged, standing in indexed if standing.accepted]
    overlaps = [found for judged, _ in accepted if (found := _iou(judged)) is not None]
    agreed = [same for each in indexed for same in _agreements(each)]
    spent = _minutes(ledger)
    called: dict[str, dict[str, None]] = {}
    for spec, call in calls_in(ledger):
        called.setdefault(call.stage, {})[spec] = None
    return Report(
        proposed=len(indexed),
        rejected={stage: rejected[stage] for stage in FILTERS},
        waiting={stage: waiting[stage] for stage in FILTERS},
        accepted=len(accepted),
        settled=sum(bool(judged.settlements) for judged, _ in accepted),
        settled_sufficiency=sum(SUFFICIENCY in judged.settlements for judged, _ in accepted),
        iou=fmean(overlaps) if overlaps else None,
        agreement=100 * fmean(agreed) if agreed else None,
        minutes_per_item=fmean(spent) if spent else None,
        hours=sum(entry.seconds for entry in ledger.entries) / 3600,
        backbones={stage: tuple(specs) for stage, specs in called.items()},
        annotators=annotators,
        unproven={
            judged.id: reason
            for judged, standing in accepted
            if (reason := why_unproven(judged, standing, annotators, settings))
        },
        not_blind=sum(answer.looking is not None and not answer.looking.is_blind for answer in partial),
        partial_answers=len(partial),
    )


def closure_statement(found: Report) -> str:
    """What the accepted items guarantee, and what they do not, in the paper's scope."""
    if not found.accepted:
        return f"None of {found.proposed} proposed items is accepted yet, so nothing is guaranteed yet."
    withheld = _withheld(found)
    proven = found.accepted - len(found.unproven)
    if not proven:
        return withheld
    by_people = found.accepted - found.settled_sufficiency
    settled = (
        f" Of these, {by_people} were judged so by both annotators and {found.settled_sufficiency} by an adjudicator"
        " after the annotators disagreed."
        if found.settled_sufficiency
        else ""
    )
    which = "each of them" if proven == found.accepted else f"{proven} of them"
    seen_before = (
        f" In {found.not_blind} of {found.partial_answers} answers about a partial set, the person had seen other clips"
        " of the video before."
        if found.not_blind
        else ""
    )
    return (
        f"{found.accepted} of {found.proposed} proposed items are accepted.{withheld} For {which}, annotators who"
        " played every clip and a vision model judged independently, from the evidence without one interval, that no"
        f" such partial set determines the right option.{settled}{seen_before} Each was also asked without looking:"
        " from its words alone and from a coarse summary of the video; on a held-out repeat neither model chose the"
        " right option more often than by chance. So, under the audit, removing any single annotated interval leaves"
        " at least two options compatible with what was seen, as far as these judges can tell. It is not guaranteed"
        " that the evidence is the smallest sufficient set, nor that no model exists that guesses better."
    )


def _withheld(found: Report) -> str:
    """For how many accepted items nothing is guaranteed, and why."""
    if not found.unproven:
        return ""
    reasons = Counter(found.unproven.values())
    told = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
    count = len(found.unproven)
    return f" The statement is withheld for {count} accepted item{'s' if count > 1 else ''}: {told}."


def _iou(judged: JudgedItem) -> float | None:
    verdicts = [verdict for verdict, _ in judged.verifications.values() if verdict.accepted]
    return mean_iou(verdicts[0].evidence, verdicts[1].evidence) if len(verdicts) == 2 else None


def _agreements(indexed: IndexedItem) -> Sequence[bool]:
    """For each partial set and person: whether the model says the same about it."""
    judged, standing = indexed
    probes, gold = judged.probes_of(standing.evidence), standing.answer or judged.proposal.answer
    return [
        answer.determines(gold) == probes[left_out].determines
        for who in judged.answers
        for left_out, answer in judged.answers_of(who, standing.evidence).items()
        if left_out in probes
    ]


def _minutes(ledger: Ledger) -> list[float]:
    """Minutes that each annotator spent on each item."""
    spent: dict[tuple[str, str], float] = {}
    for entry in ledger.entries:
        if entry.slot.startswith(TIMED):
            key = entry.subject, entry.who
            spent[key] = spent.get(key, 0.0) + entry.seconds / 60
    return list(spent.values())


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
