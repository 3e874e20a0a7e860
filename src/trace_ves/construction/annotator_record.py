"""How well each annotator looks: what they played, how fast they were, what they made of gold items. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.visual_verification import AGREEING_IOU, mean_iou

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trace_ves.construction.item_index import IndexedItem
    from trace_ves.construction.judged_item import JudgedItem, Standing
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.looking import Looking
    from trace_ves.construction.settings import BuildSettings

NO_RECORD: Final = "no record of what was played"
NOT_PLAYED: Final = "an interval was not played"
TOO_FAST: Final = "judged faster than the clips are long"
GOLD_FAILED: Final = "an annotator got too many gold items wrong"


@dataclass
class AnnotatorRecord:
    """One annotator's work in numbers."""

    shares: list[float] = field(default_factory=list)
    hurried: int = 0
    """Judgements that took less time than the clips are long."""
    not_blind: int = 0
    gold_right: int = 0
    gold_judged: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Time spent, by item."""

    @property
    def watched_share(self) -> float | None:
        """Mean share of the intervals that were played before a judgement."""
        return fmean(self.shares) if self.shares else None

    @property
    def gold_accuracy(self) -> float | None:
        """Share of the gold items that were judged right."""
        return self.gold_right / self.gold_judged if self.gold_judged else None

    @property
    def minutes_per_item(self) -> float | None:
        """Mean time on an item."""
        return fmean(self.seconds.values()) / 60 if self.seconds else None

    def to_json(self) -> dict[str, Any]:
        """The numbers, without a name."""
        return {
            "judgements": len(self.shares),
            "watched_share": _rounded(self.watched_share),
            "gold_accuracy": _rounded(self.gold_accuracy),
            "gold_judged": self.gold_judged,
            "minutes_per_item": _rounded(self.minutes_per_item),
            "hurried": self.hurried,
            "not_blind": self.not_blind,
        }


def annotator_records(ledger: Ledger, indexed: Iterable[IndexedItem]) -> dict[str, AnnotatorRecord]:
    """Every annotator's numbers, by name."""
    found: dict[str, AnnotatorRecord] = defaultdict(AnnotatorRecord)
    for judged, _ in indexed:
        for who, looking in _lookings(judged):
            if looking is not None:
                record = found[who]
                record.shares.append(looking.watched_share)
                record.hurried += looking.pace < 1
                record.not_blind += not looking.is_blind
        for who, is_right in gold_results(judged):
            found[who].gold_judged += 1
            found[who].gold_right += is_right
    for entry in ledger.entries:
        if entry.slot.startswith(("verification/", "without/")) and entry.undoes is None:
            found[entry.who].seconds[entry.subject] += entry.seconds
    return dict(found)


def gold_results(judged: JudgedItem) -> Iterator[tuple[str, bool]]:
    """Who judged a gold item, and whether they were right."""
    gold = judged.gold
    if gold is None:
        return
    for who, (verdict, _) in judged.verifications.items():
        is_right = verdict.accepted == gold.accept and not verdict.is_unsure
        if is_right and gold.accept:
            is_right = not verdict.answer and mean_iou(verdict.evidence, judged.proposal.evidence) >= AGREEING_IOU
        yield who, is_right
    for who, answers in judged.answers.items():
        for left_out, (answer, _) in answers.items():
            if left_out in gold.without:
                yield who, answer.answer == gold.without[left_out]


def why_unproven(
    judged: JudgedItem, standing: Standing, annotators: Mapping[str, AnnotatorRecord], settings: BuildSettings
) -> str:
    """Why it is not known that people looked at an accepted item; empty where it is."""
    behind = [(who, verdict.looking) for who, (verdict, _) in judged.verifications.items() if verdict.accepted]
    for who, answers in judged.answered(standing.evidence).items():
        behind += [(who, answer.looking) for answer in answers.values()]
    for who, looking in behind:
        if looking is None:
            return NO_RECORD
        if looking.watched_share < settings.watched_share:
            return NOT_PLAYED
        if looking.pace < settings.least_pace:
            return TOO_FAST
        accuracy = annotators[who].gold_accuracy if who in annotators else None
        if accuracy is not None and accuracy < settings.gold_accuracy:
            return GOLD_FAILED
    return ""


def _lookings(judged: JudgedItem) -> Iterator[tuple[str, Looking | None]]:
    for who, (verdict, _) in judged.verifications.items():
        yield who, verdict.looking
    for who, answers in judged.answers.items():
        for answer, _ in answers.values():
            yield who, answer.looking


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
