"""What a build came to, as the paper's appendix tells it: rejections, agreement, time, and what is guaranteed.

Pure: a function of the history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.judged_item import SUFFICIENCY, VERDICTS_NEEDED, ItemIndex
from trace_ves.construction.people import Role, active, annotator_records, why_unproven
from trace_ves.construction.project import BuildSettings
from trace_ves.construction.requests import calls_in
from trace_ves.construction.stages import Stage, assignment_key
from trace_ves.construction.visual_verification import mean_iou
from trace_ves.ves.table import Column, Row, Section, Table, Value, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.exposure import Exposures
    from trace_ves.construction.judged_item import IndexedItem, JudgedItem, Standing
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.people import AnnotatorRecord

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


NAMES: Final = {
    Stage.PROPOSAL: "1 proposal",
    Stage.VERIFICATION: "2 visual verification",
    Stage.LEAVE_ONE_OUT: "3 leave-one-out",
    Stage.SHORTCUT: "4 shortcut probe",
    Stage.ADJUDICATION: "5 adjudication",
}


def funnel_table(found: Report) -> Table:
    """One row for each stage: what it rejected, what is left, what waits."""
    first = Row(NAMES[Stage.PROPOSAL], tuple((Value(text),) for text in ("", f"{found.proposed:,}", "")))
    rows = [
        Row(
            NAMES[stage],
            tuple(
                (Value(f"{count:,}"),) for count in (found.rejected[stage], found.after[stage], found.waiting[stage])
            ),
        )
        for stage in FILTERS
    ]
    columns = (Column("Rejected"), Column("Left"), Column("Waiting"))
    return Table("funnel", "Candidates", "Stage", columns, (Section("", (first, *rows)),))


def facts(found: Report) -> list[tuple[str, str]]:
    """What else the paper's appendix tells, each with a name."""
    waiting = sum(found.waiting.values())
    return [
        ("accepted", f"{found.accepted:,}" + (f", {waiting:,} still under way" if waiting else "")),
        ("accept rate", _with(number(found.accept_rate), "%")),
        ("settled by an adjudicator", f"{found.settled:,} of the accepted"),
        ("inter-annotator IoU", number(found.iou, "{:.2f}".format).text),
        ("human/model agreement without one interval", _with(number(found.agreement), "%")),
        ("mean time per item and annotator", _with(number(found.minutes_per_item), "minutes")),
        ("time of all people", f"{found.hours:.1f} hours"),
        *(("backbone of " + stage, ", ".join(specs)) for stage, specs in found.backbones.items()),
    ]


def _with(value: Value, unit: str) -> str:
    return value.text if value.text == "--" else f"{value.text} {unit}"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A video whose partial sets wait for people who have not seen it."""

    video: str
    items: tuple[str, ...]
    people: int
    """How many more are needed."""


def fewest_annotators(indexed: Iterable[IndexedItem], settings: BuildSettings) -> int:
    """Two who verify, and two for each partial set of the largest item that is not decided yet.

    Where people may judge several partial sets of one item, two others suffice.
    """
    sizes = [
        len(standing.evidence or judged.proposal.evidence)
        for judged, standing in indexed
        if standing.waits_at in {Stage.VERIFICATION, Stage.ADJUDICATION, Stage.LEAVE_ONE_OUT}
    ]
    pairs = 1 if settings.allow_not_blind else max(sizes, default=0)
    return VERDICTS_NEEDED * (1 + pairs) if sizes else 0


def shortages(indexed: Iterable[IndexedItem], exposures: Exposures, annotators: Sequence[str]) -> list[Shortage]:
    """Videos with more open seats in leave-one-out than people who have seen nothing of them."""
    seats: dict[str, dict[str, int]] = defaultdict(dict)
    for judged, standing in indexed:
        if standing.waits_at is Stage.LEAVE_ONE_OUT and (open_seats := _open_seats(judged, standing)):
            seats[judged.proposal.video][judged.id] = open_seats
    found = []
    for video, items in seats.items():
        fresh = sum(not exposures.has_seen(name, video) for name in annotators)
        if (missing := sum(items.values()) - fresh) > 0:
            found.append(Shortage(video, tuple(items), missing))
    return found


def _open_seats(judged: JudgedItem, standing: Standing) -> int:
    evidence = standing.evidence
    count = 0
    for left_out in range(len(evidence)):
        held = judged.seats.get(assignment_key(Stage.LEAVE_ONE_OUT, evidence, left_out), ())
        count += max(0, VERDICTS_NEEDED - len({*held, *judged.answers_to(evidence, left_out)}))
    return count


NAMED: Final = 5
"""Items and videos that a sentence names at most."""


def next_steps(ledger: Ledger, items: ItemIndex, queue: AssignmentQueue, folder: str) -> list[str]:
    """What is to be done now, the most pressing first, each as a sentence with its command."""
    indexed = items.all(ledger)
    waiting = [standing.waits_at for _, standing in indexed]
    steps: list[str] = []
    if not indexed:
        return [f"Propose items: trace-ves build propose {folder} --captioner SPEC --proposer SPEC"]
    steps += _invitations(ledger, indexed, queue, folder)
    if Stage.ADJUDICATION in waiting:
        count = waiting.count(Stage.ADJUDICATION)
        who = "Let an adjudicator settle" if active(ledger, Role.ADJUDICATOR) else "Invite an adjudicator to settle"
        steps.append(f"{who} {count} disagreement{'s' if count > 1 else ''}: trace-ves build serve {folder}")
    unprobed = [
        judged.id
        for judged, standing in indexed
        if standing.waits_at is Stage.LEAVE_ONE_OUT
        and len(judged.probes_of(standing.evidence)) < len(standing.evidence)
    ]
    if unprobed:
        steps.append(
            f"Ask a vision model about {_items(len(unprobed))}: trace-ves build probe {folder} --backbone SPEC"
        )
    if count := waiting.count(Stage.SHORTCUT):
        steps.append(
            f"Probe {_items(count)} for shortcuts: trace-ves build shortcut {folder} --language SPEC --gist SPEC"
        )
    if people := waiting.count(Stage.VERIFICATION) + waiting.count(Stage.LEAVE_ONE_OUT):
        steps.append(f"Let annotators judge {_items(people)}: trace-ves build serve {folder}")
    if not steps and any(standing.accepted for _, standing in indexed):
        steps.append(f"Export the bench: trace-ves build export {folder} OUT")
    return steps or ["No item was accepted; propose others, or put more footage into the build."]


def _invitations(ledger: Ledger, indexed: list[IndexedItem], queue: AssignmentQueue, folder: str) -> Iterator[str]:
    """Whom to invite: enough people for the largest item, and people who have seen nothing of the videos that wait."""
    annotators = active(ledger, Role.ANNOTATOR)
    queue.exposures.update(ledger)
    short = [] if queue.settings.allow_not_blind else shortages(indexed, queue.exposures, annotators)
    missing = max([fewest_annotators(indexed, queue.settings) - len(annotators), *(each.people for each in short)])
    if missing > 0:
        why = ""
        if short:
            items = _names([item for each in short for item in each.items])
            why = f", who have seen nothing of {_names([each.video for each in short])} (for {items})"
        people = "1 more annotator" if missing == 1 else f"{missing} more annotators"
        yield f"Invite {people}{why}: trace-ves build invite {folder} NAME..."
    covered = {item for each in short for item in each.items}
    if stuck := [item for item, _ in queue.stuck() if item not in covered]:
        yield f"Invite annotators who may judge {_items(len(stuck))} that nobody here may judge: {_names(stuck)}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"
