"""Small histories, written by hand, and people who judge on a clock that a test moves on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judged_item import (
    Evidence,
    HumanAnswer,
    Probe,
    ProposedItem,
    Settlement,
    Shortcut,
    Verification,
    evidence_to_json,
    judged_item,
)
from trace_ves.construction.judging import Judgements, Verdict
from trace_ves.construction.ledger import GIST_SLOT, GOLD_SLOT, LANGUAGE_SLOT, PROPOSAL_SLOT, Change, Ledger, Stage
from trace_ves.construction.looking import Looking
from trace_ves.construction.people import Person, Role, find_person, invite
from trace_ves.construction.project import BuildSettings
from trace_ves.construction.store import Store
from trace_ves.core import Interval

LOOKED = Looking(watched_share=1.0, took_seconds=60.0, clip_seconds=15.0)
EVIDENCE = (Interval(10, 14), Interval(40, 46), Interval(80, 85))


def proposal(video: str = "videos/a.mp4", evidence: Evidence = EVIDENCE) -> ProposedItem:
    options = ("cat, dog, fox", "dog, cat, fox", "fox, cat, dog", "dog, fox, cat")
    rationales = tuple(f"fact {place}" for place in range(len(evidence)))
    return ProposedItem(video, 120.0, "temporal-ordering", "In which order?", options, "B", evidence, rationales)


def moved(evidence: Evidence, by: float) -> Evidence:
    return tuple(Interval(span.start + by, span.end + by) for span in evidence)


@dataclass
class Pen:
    """Writes a history entry by entry; what it writes can be chained."""

    ledger: Ledger = field(default_factory=Ledger)
    at: float = 1_800_000_000.0

    def write(self, item: str, slot: str, who: str, after: dict[str, object], seconds: float = 0.0) -> Self:
        self.at += 1
        change = Change(item, slot, who, after, seconds=seconds)
        self.ledger.add(self.ledger.next_entry(change, number=self.ledger.last_number + 1, at=self.at))
        return self

    def undo(self, item: str, slot: str, who: str) -> None:
        self.ledger.add(self.ledger.undo_entry(item, slot, who, number=self.ledger.last_number + 1, at=self.at))

    def propose(self, item: str, made: ProposedItem | None = None) -> Self:
        return self.write(item, PROPOSAL_SLOT, "build", (made or proposal()).to_json())

    def verify(
        self,
        item: str,
        who: str,
        evidence: Evidence | None = EVIDENCE,
        seconds: float = 0.0,
        *,
        looking: Looking | None = LOOKED,
    ) -> Self:
        verdict = Verification(evidence is not None, evidence or (), "" if evidence else "not visible", looking=looking)
        return self.write(item, f"verification/{who}", who, verdict.to_json(), seconds)

    def answer(
        self,
        item: str,
        who: str,
        answers: list[str | None],
        evidence: Evidence = EVIDENCE,
        seconds: float = 0.0,
        *,
        looking: Looking | None = LOOKED,
    ) -> None:
        for left_out, answer in enumerate(answers):
            value = HumanAnswer(evidence, answer, looking).to_json()
            self.write(item, f"without/{who}/{left_out}", who, value, seconds)

    def probe(self, item: str, determines: list[bool], evidence: Evidence = EVIDENCE) -> None:
        for left_out, each in enumerate(determines):
            made = Probe(evidence, ("B",) * 3 if each else ("B", "A", None), each)
            self.write(item, f"probe/{left_out}", "build", made.to_json())

    def shortcut(self, item: str, *, language: bool = False, gist: bool = False) -> None:
        for slot, solves in ((LANGUAGE_SLOT, language), (GIST_SLOT, gist)):
            made = Shortcut("B" if solves else "A", ("B",) * 4 if solves else (), solves)
            self.write(item, slot, "build", made.to_json())

    def settle(
        self, item: str, kind: str, about: Sequence[int] = (), *, keep: bool, evidence: Evidence = (), answer: str = ""
    ) -> None:
        about = tuple(about) or judged_item(self.ledger, item).state.dispute.about
        decision = Settlement(keep, about, evidence, "" if keep else "no", answer)
        self.write(item, f"settlement/{kind}", "dora", decision.to_json())

    def seat(self, item: str, key: str, place: int, who: str, spans: Evidence = ()) -> None:
        self.write(item, f"seat/{key}/{place}", who, {"who": who, "spans": evidence_to_json(spans)})

    def gold(self, item: str, *, accept: bool, without: dict[str, str | None] | None = None) -> Self:
        return self.write(item, GOLD_SLOT, "build", {"accept": accept, "without": without or {}})


class StorePen(Pen):
    """Writes into a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def write(self, item: str, slot: str, who: str, after: dict[str, object], seconds: float = 0.0) -> Self:
        self.store.append([Change(item, slot, who, after, seconds=seconds)])
        return self


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

    def verified(self, item: str = "c1", evidence: Evidence = EVIDENCE) -> None:
        """Propose an item, which ann and bob verify."""
        self.propose(item, made=proposal(evidence=evidence))
        for name in ("ann", "bob"):
            assert self.next(name) == Assignment(item, Stage.VERIFICATION)
            self.verify(name, item, Verdict("accept", evidence_to_json(evidence)))


def new_team(*names: str, url: str = "sqlite://", **settings: float) -> Team:
    """Annotators of these names, the adjudicator dora, and their store."""
    clock = Clock()
    store = Store(url, clock=clock)
    for name in names:
        invite(store, name, Role.ANNOTATOR)
    invite(store, "dora", Role.ADJUDICATOR)
    return Team(Judgements(store, BuildSettings(**settings)), clock)
