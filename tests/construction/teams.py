"""People who judge, on a clock that a test moves on."""

from collections.abc import Sequence
from dataclasses import dataclass

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judged_item import ProposedItem, evidence_to_json
from trace_ves.construction.judging import Judgements, Verdict
from trace_ves.construction.ledger import PROPOSAL_SLOT, Change, Stage
from trace_ves.construction.people import Person, Role, find_person, invite
from trace_ves.construction.project import BuildSettings
from trace_ves.construction.store import Store
from trace_ves.core import Interval

from .histories import EVIDENCE, proposal

SPANS = evidence_to_json(EVIDENCE)
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
        return find_person(self.judgements.store.ledger(), name)

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
        self.play(name, held.item, evidence_to_json(self.judgements.item(held.item).partial_evidence))
        self.judgements.answer_without(self[name], held.item, held.left_out, answer=answer, revision=revision)

    def verified(self, item: str = "c1") -> None:
        for name in ("ann", "bob"):
            assert self.next(name) == Assignment(item, Stage.VERIFICATION)
            self.verify(name, item)


def new_team(*names: str, url: str = "sqlite://", **settings: float) -> Team:
    """Annotators of these names, the adjudicator dora, and their store."""
    clock = Clock()
    store = Store(url, clock=clock)
    for name in names:
        invite(store, name, Role.ANNOTATOR)
    invite(store, "dora", Role.ADJUDICATOR)
    return Team(Judgements(store, BuildSettings(**settings)), clock)
