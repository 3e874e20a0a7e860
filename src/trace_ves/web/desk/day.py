"""A person's own work: what they judged, today's count and pace. Nothing of what others said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.judging import JUDGEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.construction.judging import Desk
    from trace_ves.construction.ledger import Entry, Ledger

STAGES: Final = {
    "verification": "visual verification",
    "without": "leave-one-out",
    "settlement": "adjudication",
    "skip": "skipped",
}


@dataclass(frozen=True, slots=True)
class OwnJudgement:
    """One of a person's own judgements, as they read it."""

    item: str
    question: str
    stage: str
    verdict: str
    at: float
    minutes: float
    can_undo: bool


@dataclass(frozen=True, slots=True)
class Day:
    """What a person did today, by UTC."""

    judged: int
    hours: float

    @property
    def pace(self) -> float | None:
        """Judgements an hour of work; None before there is enough to tell."""
        return self.judged / self.hours if self.hours >= 1 / 60 else None


def own_entries(ledger: Ledger, who: str) -> list[Entry]:
    """A person's judgements that stand, the oldest first."""
    mine = [each for each in ledger.entries if each.who == who and each.slot.startswith(JUDGEMENTS)]
    return [each for each in mine if each in ledger.slot(each.subject, each.slot).standing[-1:]]


def own_judgements(desk: Desk, ledger: Ledger, who: str) -> list[OwnJudgement]:
    """The same as they are listed, the newest first."""
    return [
        OwnJudgement(
            entry.subject,
            desk.items.one(ledger, entry.subject)[0].proposal.text,
            STAGES[entry.slot.partition("/")[0]],
            verdict_text(entry.slot.partition("/")[0], entry.after or {}),
            entry.at,
            entry.seconds / 60,
            can_undo=not desk.why_no_undo(ledger, entry),
        )
        for entry in reversed(own_entries(ledger, who))
    ]


def verdict_text(kind: str, value: Mapping[str, Any]) -> str:
    """A judgement in words."""
    if kind == "skip":
        return str(value["reason"])
    if kind == "without":
        return "do not decide" if value["answer"] is None else f"decide {value['answer']}"
    kept = value["keep"] if kind == "settlement" else value["accepted"]
    if not kept:
        return f"{'unsure' if value.get('unsure') else 'rejected'}: {value['reason']}"
    count = len(value["evidence"])
    words = "kept" if kind == "settlement" else "accepted"
    answer = f", answer {value['answer']}" if value.get("answer") else ""
    return f"{words} with {count} intervals{answer}" if count else words


def today(ledger: Ledger, who: str, now: float) -> Day:
    """What a person judged since midnight, by UTC; what they took back was work too."""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    mine = [
        each
        for each in ledger.entries
        if each.who == who and each.at >= midnight and each.undoes is None and each.slot.startswith(JUDGEMENTS)
    ]
    return Day(len(mine), sum(each.seconds for each in mine) / 3600)
