"""One item item: everything that was judged about it, and by rule where it stands.

Pure: a function of the history. What was judged about other intervals than the present ones no longer counts.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from trace_ves.construction.leave_one_out import HumanAnswer, Probe
from trace_ves.construction.shortcut_probe import Shortcut
from trace_ves.construction.stages import GIST_SLOT, GOLD_SLOT, LANGUAGE_SLOT, PROPOSAL_SLOT, Stage
from trace_ves.construction.visual_verification import (
    Evidence,
    Verification,
    merged,
    same_intervals,
)
from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING, Interval, Question
from trace_ves.core.question import LETTERS
from trace_ves.records.base import Counts, Flag, Number, Record, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.construction.ledger import Entry, Ledger

OPTIONS: Final = 4
FEWEST_INTERVALS: Final = 2
MOST_INTERVALS: Final = 24
SHORTEST_SECONDS: Final = 1.0
"""A shorter interval is widened: what a model saw in one frame still needs something to play."""

LEAST_SECONDS: Final = 0.1
"""No annotator may make an interval shorter."""
LONGEST_SHARE: Final = 0.5
"""An interval that is longer than this part of its video points at nothing."""

SCHEMAS: Final = {
    TEMPORAL_ORDERING: (
        "Ask for the relative order of two or more events that happen once each. The options are four different orders "
        "of the same events. The evidence has one interval for each event, in order of time."
    ),
    EVENT_COUNTING: (
        "Ask how many separate times one event happens. The options are four different whole numbers, in digits. The "
        "evidence has one interval for every occurrence in the video, in order of time, so that the right number is "
        "the number of intervals."
    ),
}
"""What the proposing model is told about each family."""


class ItemDraft(BaseModel):
    """One item as the model drafts it."""

    question: str = Field(min_length=1, max_length=1000)
    options: list[str] = Field(description="Four options.")
    answer: str = Field(description="The letter of the right option, A to D.")
    evidence: list[list[float]] = Field(description="Start and end of each interval, in seconds of the video.")
    rationales: list[str] = Field(description="For each interval, the visual fact that it should attest.")


class DraftsReply(BaseModel):
    """What the proposing model replies."""

    model_config = ConfigDict(extra="ignore")
    items: list[ItemDraft]


@dataclass(frozen=True, slots=True)
class ProposedItem(Record):
    """An item as it was proposed."""

    video: str
    """Path below the build's folder."""
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


class DraftError(ValueError):
    """A draft breaks its family's schema; the message is a clause."""


def checked(draft: ItemDraft, *, video: str, duration: float, family: str) -> ProposedItem:
    """The draft as a proposal, or a `DraftError` that says which rule it breaks."""
    options = tuple(option.strip() for option in draft.options)
    if len(options) != OPTIONS or len({option.casefold() for option in options}) != OPTIONS or not all(options):
        raise DraftError(f"it needs {OPTIONS} different options, found {len(options)}")
    answer = draft.answer.strip().strip("().").upper()
    if len(answer) != 1 or answer not in LETTERS[:OPTIONS]:
        raise DraftError(f"its answer must be one of A-{LETTERS[OPTIONS - 1]}, found {draft.answer[:20]!r}")
    evidence = tuple(_interval(pair, duration) for pair in draft.evidence)
    check_evidence(evidence, duration)
    if len(draft.rationales) != len(evidence) or not all(text.strip() for text in draft.rationales):
        raise DraftError(f"it needs a rationale for each of {len(evidence)} intervals, found {len(draft.rationales)}")
    check_count(family, options[LETTERS.index(answer)], evidence)
    rationales = tuple(text.strip()[:500] for text in draft.rationales)
    return ProposedItem(video, duration, family, draft.question.strip(), options, answer, evidence, rationales)


def _interval(pair: list[float], duration: float) -> Interval:
    if len(pair) != 2:
        raise DraftError(f"an interval has two numbers, found {len(pair)}")
    start, end = pair
    if not 0 <= start <= end <= duration:
        raise DraftError(f"the interval {start:g}-{end:g} s does not lie in the video of {duration:g} s")
    if end - start < SHORTEST_SECONDS:
        start = min(max(0.0, (start + end - SHORTEST_SECONDS) / 2), max(0.0, duration - SHORTEST_SECONDS))
        end = min(duration, start + SHORTEST_SECONDS)
    return Interval(round(start, 3), min(round(end, 3), duration))


def check_evidence(evidence: Sequence[Interval], duration: float) -> None:
    """A `DraftError` where intervals are too few, many, short or long, overlap, or leave the video."""
    if not FEWEST_INTERVALS <= len(evidence) <= MOST_INTERVALS:
        raise DraftError(f"it needs {FEWEST_INTERVALS} to {MOST_INTERVALS} intervals, found {len(evidence)}")
    for interval in evidence:
        name = f"the interval {interval.start:g}-{interval.end:g} s"
        if not 0 <= interval.start <= interval.end <= duration:
            raise DraftError(f"{name} does not lie in the video of {duration:g} s")
        if not LEAST_SECONDS <= interval.length <= LONGEST_SHARE * duration:
            raise DraftError(f"{name} must be {LEAST_SECONDS:g} to {LONGEST_SHARE * duration:g} s long")
    if any(later.start < earlier.end for earlier, later in pairwise(evidence)):
        raise DraftError("its intervals overlap or are not in order of time")


def check_count(family: str, right: str, evidence: Sequence[Interval]) -> None:
    """A `DraftError` where a counting item's right option is not the number of its intervals."""
    number = re.search(r"\d+", right)
    if family == EVENT_COUNTING and (number is None or int(number[0]) != len(evidence)):
        raise DraftError(f"the right count is {right[:20]!r}, but there are {len(evidence)} intervals")


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


IndexedItem = tuple[JudgedItem, Standing]


class ItemIndex:
    """Items with their standings. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, IndexedItem]] = {}
        self._lock = threading.Lock()

    def all(self, ledger: Ledger) -> list[IndexedItem]:
        """Every item that may come into the bench, in the order of proposal."""
        return [indexed for indexed in self.with_gold(ledger) if indexed[0].gold is None]

    def with_gold(self, ledger: Ledger) -> list[IndexedItem]:
        """Every item, those included that are only there to see how well people look."""
        return [self.one(ledger, item) for item in ledger.subjects(PROPOSAL_SLOT)]

    def one(self, ledger: Ledger, item: str) -> IndexedItem:
        """One item; a `KeyError` where there is none of this id."""
        count = ledger.count(item)
        with self._lock:
            known = self._known.get(item)
        if known is not None and known[0] == count:
            return known[1]
        found = judged_item(ledger, item)
        indexed = found, found.standing()
        with self._lock:
            self._known[item] = count, indexed
        return indexed
