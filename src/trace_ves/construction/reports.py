"""The report of a build, as in the paper's appendix: rejections, agreement, time, annotators, guarantees."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.gold import gold_results
from trace_ves.construction.judged_item import SUFFICIENCY, JudgedItem, list_all_items, list_items, mean_iou
from trace_ves.construction.ledger import Ledger, Stage
from trace_ves.construction.project import BuildSettings
from trace_ves.ves.table import Column, Row, Section, Table, Value, as_value

if TYPE_CHECKING:
    from trace_ves.construction.looking import Looking

STAGE_NAMES: Final = {  # the stages that reject items, in the order of the paper
    Stage.VERIFICATION: "2 visual verification",
    Stage.LEAVE_ONE_OUT: "3 leave-one-out",
    Stage.SHORTCUT: "4 shortcut probe",
    Stage.ADJUDICATION: "5 adjudication",
}
TIMED: Final = ("verification/", "without/")  # slots that count for the time per item, as in the paper


@dataclass
class AnnotatorRecord:
    """Statistics of one annotator."""

    shares: list[float] = field(default_factory=list)
    hurried: int = 0  # judgements that took less time than the clips are long
    not_blind: int = 0
    gold_right: int = 0
    gold_judged: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # time spent, by item

    @property
    def watched_share(self) -> float | None:
        """The mean played share of the least played interval before a judgement."""
        return _mean(self.shares)

    @property
    def gold_accuracy(self) -> float | None:
        """The share of gold items judged correctly."""
        return self.gold_right / self.gold_judged if self.gold_judged else None

    @property
    def minutes_per_item(self) -> float | None:
        """Mean time per item."""
        return _mean([seconds / 60 for seconds in self.seconds.values()])

    def to_json(self) -> dict[str, Any]:
        """The statistics as JSON, without a name."""
        return {
            "judgements": len(self.shares),
            "watched_share": _round(self.watched_share, 3),
            "gold_accuracy": _round(self.gold_accuracy, 3),
            "gold_judged": self.gold_judged,
            "minutes_per_item": _round(self.minutes_per_item, 3),
            "hurried": self.hurried,
            "not_blind": self.not_blind,
        }


def annotator_records(ledger: Ledger) -> dict[str, AnnotatorRecord]:
    """The statistics of every annotator, by name."""
    records: dict[str, AnnotatorRecord] = defaultdict(AnnotatorRecord)
    for judged in list_all_items(ledger):
        looks = [(who, verdict.looking) for who, verdict in judged.verifications.items()]
        looks += [(who, answer.looking) for who, answers in judged.answers.items() for answer in answers.values()]
        for who, looking in looks:
            if looking is not None:
                record = records[who]
                record.shares.append(looking.watched_share)
                record.hurried += looking.pace < 1
                record.not_blind += not looking.is_blind
        for who, is_right in gold_results(judged):
            records[who].gold_judged += 1
            records[who].gold_right += is_right
    for entry in ledger.entries:
        if entry.slot.startswith(TIMED) and entry.undoes is None:
            records[entry.who].seconds[entry.subject] += entry.seconds
    return dict(records)


def why_unproven(judged: JudgedItem, annotators: Mapping[str, AnnotatorRecord], settings: BuildSettings) -> str:
    """Why the closure statement does not cover an accepted item; empty if it does."""
    looks: list[tuple[str, Looking | None]] = [
        (who, verdict.looking) for who, verdict in judged.verifications.items() if verdict.accepted
    ]
    for who, answers in judged.answers_about(judged.state.evidence).items():
        looks += [(who, answer.looking) for answer in answers.values()]
    for who, looking in looks:
        if looking is None:
            return "no record of what was played"
        if looking.watched_share < settings.watched_share:
            return "an interval was not played"
        if looking.pace < settings.least_pace:
            return "judged faster than the clips are long"
        accuracy = annotators[who].gold_accuracy if who in annotators else None
        if accuracy is not None and accuracy < settings.gold_accuracy:
            return "an annotator got too many gold items wrong"
    return ""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a build."""

    proposed: int
    rejected: Mapping[Stage, int]
    waiting: Mapping[Stage, int]
    accepted: int
    settled: int  # accepted items that an adjudicator decided about
    settled_sufficiency: int  # accepted items on whose sufficiency an adjudicator decided
    iou: float | None  # mean IoU of two annotators' intervals, over accepted items that both accepted
    agreement: float | None  # percent of partial sets on which annotator and model agree about sufficiency
    minutes_per_item: float | None  # mean over items and annotators, for verification and leave-one-out together
    hours: float  # of all people, including adjudication
    backbones: Mapping[str, tuple[str, ...]]  # the backbones that each stage called
    annotators: Mapping[str, AnnotatorRecord] = field(default_factory=dict)
    unproven: Mapping[str, str] = field(default_factory=dict)  # why accepted items have no guarantee, by id
    not_blind: int = 0  # answers about partial sets by people who had seen other clips of the video
    partial_answers: int = 0  # answers of people about partial sets

    @property
    def after(self) -> dict[Stage, int]:
        """The number of items left after each stage."""
        left, after = self.proposed, {}
        for stage in STAGE_NAMES:
            left -= self.rejected[stage]
            after[stage] = left
        return after

    @property
    def accept_rate(self) -> float | None:
        """The percentage of proposed items that are accepted; None before the first decision."""
        decided = self.accepted + sum(self.rejected.values())
        return 100 * self.accepted / self.proposed if decided else None

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "proposed": self.proposed,
            "after": dict(self.after),
            "rejected": dict(self.rejected),
            "waiting": dict(self.waiting),
            "accepted": self.accepted,
            "accept_rate": _round(self.accept_rate, 1),
            "settled_by_adjudicator": self.settled,
            "inter_annotator_iou": _round(self.iou, 3),
            "human_model_agreement": _round(self.agreement, 1),
            "minutes_per_item": _round(self.minutes_per_item, 2),
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


def make_report(ledger: Ledger, settings: BuildSettings | None = None) -> Report:
    """Make the report of a history; `settings` define which judgements count for the closure statement."""
    settings = settings or BuildSettings()
    items = list_items(ledger)
    annotators = annotator_records(ledger)
    partial = [
        answer
        for judged in items
        for answers in judged.answers_about(judged.state.evidence).values()
        for answer in answers.values()
    ]
    rejected = Counter(judged.state.rejected_at for judged in items)
    waiting = Counter(judged.state.waits_at for judged in items)
    accepted = [judged for judged in items if judged.state.accepted]
    pairs = [[each.evidence for each in judged.verifications.values() if each.accepted] for judged in accepted]
    agreement = _mean([same for judged in items for same in _agreements(judged)])
    backbones: dict[str, dict[str, None]] = {}
    for spec, call in ledger.calls():
        backbones.setdefault(call.stage, {})[spec] = None
    return Report(
        proposed=len(items),
        rejected={stage: rejected[stage] for stage in STAGE_NAMES},
        waiting={stage: waiting[stage] for stage in STAGE_NAMES},
        accepted=len(accepted),
        settled=sum(bool(judged.settlements) for judged in accepted),
        settled_sufficiency=sum(SUFFICIENCY in judged.settlements for judged in accepted),
        iou=_mean([mean_iou(*pair) for pair in pairs if len(pair) == 2]),
        agreement=None if agreement is None else 100 * agreement,
        minutes_per_item=_mean([seconds / 60 for each in annotators.values() for seconds in each.seconds.values()]),
        hours=sum(entry.seconds for entry in ledger.entries) / 3600,
        backbones={stage: tuple(specs) for stage, specs in backbones.items()},
        annotators=annotators,
        unproven={judged.id: reason for judged in accepted if (reason := why_unproven(judged, annotators, settings))},
        not_blind=sum(answer.looking is not None and not answer.looking.is_blind for answer in partial),
        partial_answers=len(partial),
    )


def closure_statement(report: Report) -> str:
    """State what the accepted items guarantee, and what they do not, in the paper's scope."""
    if not report.accepted:
        return f"None of {report.proposed} proposed items is accepted yet, so nothing is guaranteed yet."
    withheld = settled = seen_before = ""
    if count := len(report.unproven):
        reasons = Counter(report.unproven.values()).most_common()
        reasons_text = "; ".join(f"{reason} ({items})" for reason, items in reasons)
        withheld = f" The statement is withheld for {count} accepted item{'s' if count > 1 else ''}: {reasons_text}."
    if count == report.accepted:
        return withheld.lstrip()
    if report.settled_sufficiency:
        settled = (
            f" Of these, {report.accepted - report.settled_sufficiency} were judged so by both annotators and"
            f" {report.settled_sufficiency} by an adjudicator after the annotators disagreed."
        )
    if report.not_blind:
        seen_before = (
            f" In {report.not_blind} of {report.partial_answers} answers about a partial set, the annotator had seen"
            " other clips of the video before."
        )
    subject = f"{report.accepted - count} of them" if count else "each of them"
    return (
        f"{report.accepted} of {report.proposed} proposed items are accepted.{withheld} For {subject}, annotators who"
        " played every clip and a vision model judged independently, from the evidence without one interval, that no"
        f" such partial set determines the right option.{settled}{seen_before} Each was also asked without the video:"
        " from its text only and from a coarse summary of the video; on a held-out repeat neither model chose the"
        " right option more often than by chance. So, under the audit, removing any single annotated interval leaves"
        " at least two options compatible with what was seen, as far as these judges can tell. It is not guaranteed"
        " that the evidence is the smallest sufficient set, nor that no model exists that guesses better."
    )


def _agreements(judged: JudgedItem) -> list[bool]:
    """For each annotator's answer about a partial set: whether the model agrees."""
    evidence, gold = judged.state.evidence, judged.state.answer
    probes = judged.probes_about(evidence)
    return [
        (answer.answer == gold) == probes[left_out].determines
        for answers in judged.answers_about(evidence).values()
        for left_out, answer in answers.items()
        if left_out in probes
    ]


def _mean(values: list[float] | list[bool]) -> float | None:
    return fmean(values) if values else None


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def funnel_table(report: Report) -> Table:
    """The table of stages: items rejected, left and waiting."""
    numbers: list[tuple[str, ...]] = [("1 proposal", "", f"{report.proposed:,}", "")]
    for stage, name in STAGE_NAMES.items():
        counts = (report.rejected[stage], report.after[stage], report.waiting[stage])
        numbers.append((name, *(f"{count:,}" for count in counts)))
    rows = tuple(Row(name, tuple((Value(text),) for text in texts)) for name, *texts in numbers)
    columns = (Column("Rejected"), Column("Left"), Column("Waiting"))
    return Table("funnel", "Candidates", columns, (Section("", rows),), first_column="Stage")


def list_facts(report: Report) -> list[tuple[str, str]]:
    """The other figures of the paper's appendix, each with a name."""
    waiting = sum(report.waiting.values())
    return [
        ("accepted", f"{report.accepted:,}" + (f", {waiting:,} in progress" if waiting else "")),
        ("accept rate", _with_unit(report.accept_rate, "%")),
        ("settled by an adjudicator", f"{report.settled:,} of the accepted"),
        ("inter-annotator IoU", as_value(report.iou, "{:.2f}".format).text),
        ("human/model agreement without one interval", _with_unit(report.agreement, "%")),
        ("mean time per item and annotator", _with_unit(report.minutes_per_item, "minutes")),
        ("total working time", f"{report.hours:.1f} hours"),
        *(("backbone of " + stage, ", ".join(specs)) for stage, specs in report.backbones.items()),
    ]


def _with_unit(value: float | None, unit: str) -> str:
    text = as_value(value).text
    return text if value is None else f"{text} {unit}"
