"""People who judge, on a clock that a test moves on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judging import Judgements, Verdict
from trace_ves.construction.ledger import PROPOSAL_SLOT, Change, Stage
from trace_ves.construction.people import find_person
from trace_ves.core import Interval

from .histories import EVIDENCE, proposal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.construction.judged_item import ProposedItem
    from trace_ves.construction.people import Person

SPANS = [[span.start, span.end] for span in EVIDENCE]
ACCEPT = Verdict("accept", SPANS)


@dataclass
class Clock:
    """A clock that a test moves on."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Team:
    """People who judge, and their clock."""

    judgements: Judgements
    clock: Clock

    def __getitem__(self, name: str) -> Person:
        found = find_person(self.judgements.store.ledger(), name)
        assert found is not None
        return found

    def propose(self, *items: str, made: ProposedItem | None = None) -> None:
        value = (made or proposal()).to_json()
        self.judgements.store.append([Change(item, PROPOSAL_SLOT, "build", value) for item in items])

    def next(self, name: str) -> Assignment | None:
        return self.judgements.next_assignment(self[name])

    def play(self, name: str, item: str, spans: Sequence[Sequence[float]] = SPANS) -> None:
        self.report(name, item, [])  # opens the page
        self.clock.now += 40
        self.report(name, item, spans)

    def report(self, name: str, item: str, spans: Sequence[Sequence[float]] = SPANS) -> None:
        whole = [Interval(0, 1e6)]
        self.judgements.note_watched(self[name], item, [Interval(*span) for span in spans], sent=whole)

    def verify(self, name: str, item: str, verdict: Verdict = ACCEPT, revision: int = 0) -> None:
        if verdict.kind == "accept":
            self.play(name, item, verdict.evidence)
        self.judgements.verify(self[name], item, verdict, revision=revision)

    def answer(self, name: str, held: Assignment, answer: str | None = None, revision: int = 0) -> None:
        assert held.left_out is not None
        evidence = self.judgements.item(held.item).state.evidence
        self.play(name, held.item, [[span.start, span.end] for span in evidence])
        self.judgements.answer_without(self[name], held.item, held.left_out, answer=answer, revision=revision)

    def verified(self, item: str = "c1") -> None:
        for name in ("ann", "bob"):
            assert self.next(name) == Assignment(item, Stage.VERIFICATION)
            self.verify(name, item)
