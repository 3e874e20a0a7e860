"""Who judges what next: each item goes to two annotators, who do not know of each other; one assignment at a time.

Whoever holds a leave-one-out assignment holds nothing else, and has seen no more of its video than it shows. So people
are kept fresh: a video is verified by as few annotators as possible, and the others judge its partial sets.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.construction.exposure import Blindness, Exposures
from trace_ves.construction.judged_item import VERDICTS_NEEDED
from trace_ves.construction.leave_one_out import partial_set
from trace_ves.construction.ledger import StaleError
from trace_ves.construction.people import Role, active
from trace_ves.construction.stages import Stage, assignment_key
from trace_ves.construction.visual_verification import evidence_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trace_ves.construction.item_index import IndexedItem, ItemIndex
    from trace_ves.construction.judged_item import JudgedItem, Standing
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.settings import BuildSettings
    from trace_ves.construction.store import Store
    from trace_ves.construction.visual_verification import Evidence

UNLIMITED: Final = 1 << 30
"""Seats of a gold item: everybody judges it."""
RELEASE_EVERY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a person is given to judge."""

    item: str
    stage: Stage
    left_out: int | None = None
    """For leave-one-out: the interval that is not shown."""


def evidence_of(judged: JudgedItem, standing: Standing) -> Evidence:
    """The intervals that partial sets are made of: the final ones, or those of a gold item."""
    return judged.proposal.evidence if judged.gold is not None else standing.evidence


def key_of(assignment: Assignment, indexed: IndexedItem) -> str:
    """The name under which seats and reports of an assignment stand."""
    return assignment_key(assignment.stage, evidence_of(*indexed), assignment.left_out)


def current_assignment(indexed: Iterable[IndexedItem], who: str) -> Assignment | None:
    """The one assignment that a person holds."""
    mine = [each for judged, standing in indexed for each in _held(judged, standing, who)]
    return min(mine, key=lambda each: each.stage is not Stage.LEAVE_ONE_OUT, default=None)


def _held(judged: JudgedItem, standing: Standing, who: str) -> Iterator[Assignment]:
    sits = who in judged.seats.get(assignment_key(Stage.VERIFICATION), ())
    if sits and _waits(judged, standing, Stage.VERIFICATION) and who not in judged.verifications:
        yield Assignment(judged.id, Stage.VERIFICATION)
    if _waits(judged, standing, Stage.LEAVE_ONE_OUT):
        evidence = evidence_of(judged, standing)
        answered = judged.answers_of(who, evidence)
        for left_out in range(len(evidence)):
            key = assignment_key(Stage.LEAVE_ONE_OUT, evidence, left_out)
            if left_out not in answered and who in judged.seats.get(key, ()):
                yield Assignment(judged.id, Stage.LEAVE_ONE_OUT, left_out)


def _waits(judged: JudgedItem, standing: Standing, stage: Stage) -> bool:
    if judged.gold is not None:  # a gold item goes nowhere: it waits for everybody
        return stage is Stage.VERIFICATION or bool(judged.gold.without)
    return standing.waits_at is stage


def order_of(item: str, who: str, intervals: int) -> list[int]:
    """The order in which a person is offered partial sets; two people begin at different places."""
    first = hashlib.sha256(f"{item}\n{who}".encode()).digest()[0]
    return [(first + place) % intervals for place in range(intervals)]


class AssignmentQueue:
    """Gives out assignments over one store. Threads may share it."""

    def __init__(self, store: Store, items: ItemIndex, settings: BuildSettings) -> None:
        self._store = store
        self._items = items
        self._settings = settings
        self.exposures = Exposures()
        self._lock = threading.Lock()
        self._released_at = 0.0

    def current(self, who: str) -> Assignment | None:
        """What a person holds."""
        return current_assignment(self._items.with_gold(self._store.ledger()), who)

    def take_next(self, who: str) -> Assignment | None:
        """What a person holds, or something new; None where nothing waits for them."""
        self.release_absent()
        refused: set[Assignment] = set()
        while True:
            ledger = self._store.ledger()
            if (held := current_assignment(self._items.with_gold(ledger), who)) is not None:
                return held
            wanted = next((each for each in self._offers(ledger, who) if each not in refused), None)
            if wanted is None:
                return None
            if not self._take(wanted, who):
                refused.add(wanted)

    def blindness(self, ledger: Ledger, who: str, assignment: Assignment, *, since: int = 0) -> Blindness:
        """How a person stands to the partial set of a leave-one-out assignment."""
        self.exposures.update(ledger)
        judged, standing = self._items.one(ledger, assignment.item)
        partial = partial_set(evidence_of(judged, standing), assignment.left_out or 0)
        return self.exposures.blindness(who, judged.id, judged.proposal.video, partial, since=since)

    def release_absent(self) -> list[tuple[str, str]]:
        """Free the seats that nobody worked on for the hours of the settings; gives items and people."""
        now = self._store.clock()
        with self._lock:
            if now - self._released_at < RELEASE_EVERY_SECONDS:
                return []
            self._released_at = now
        oldest = now - 3600 * self._settings.seat_hours
        return [
            (held.item, who)
            for held, who, since in self.held()
            if since < oldest and self.release(held, who, by="build", reason="absent")
        ]

    def held(self) -> list[tuple[Assignment, str, float]]:
        """Every assignment that somebody holds and has not judged, and when they last worked on it."""
        active_at = self._store.last_watched()
        found = []
        for indexed in self._items.with_gold(self._store.ledger()):
            people = {who for holders in indexed[0].seats.values() for who in holders}
            for who in people:
                for held in _held(*indexed, who):
                    key = key_of(held, indexed)
                    since = indexed[0].seats[key][who]
                    found.append((held, who, max(since, active_at.get((held.item, key, who), 0.0))))
        return found

    def release(self, held: Assignment, who: str, *, by: str, reason: str) -> bool:
        """Take an assignment from a person, so that it goes back to the queue."""
        key = key_of(held, self._items.one(self._store.ledger(), held.item))
        return self._store.release_seat(held.item, key, who, by=by, reason=reason)

    def _take(self, wanted: Assignment, who: str) -> bool:
        indexed = self._items.one(self._store.ledger(), wanted.item)
        evidence = evidence_of(*indexed)
        shown = {}
        if wanted.left_out is not None:
            shown = {"spans": evidence_to_json(partial_set(evidence, wanted.left_out))}

        def check(ledger: Ledger) -> None:
            """Another window of the same person may have taken something in the meantime."""
            if current_assignment(self._items.with_gold(ledger), who) is not None or wanted not in self._offers(
                ledger, who
            ):
                raise StaleError(f"{wanted.item}: this assignment is not free any more.")

        seats = UNLIMITED if indexed[0].gold is not None else VERDICTS_NEEDED
        return self._store.take_seat(wanted.item, key_of(wanted, indexed), who, seats=seats, shows=shown, check=check)

    def _offers(self, ledger: Ledger, who: str) -> list[Assignment]:
        """What a person may be given, the best first: partial sets that they see fresh are the scarcest."""
        self.exposures.update(ledger)
        oldest = self._store.clock() - 3600 * self._settings.seat_hours
        annotators = [
            name
            for name in active(ledger, Role.ANNOTATOR)
            if name == who or self.exposures.active_at(name) >= oldest  # nothing is kept for who is not at work
        ]
        indexed = self._items.with_gold(ledger)
        ranked: list[tuple[int, Assignment]] = []
        gold: list[Assignment] = []
        for judged, standing in indexed:
            if who in judged.skipped:
                continue
            if judged.gold is not None:
                gold += self._gold_offers(judged, who)
            elif standing.waits_at is Stage.VERIFICATION:
                taken = {*judged.seats.get(assignment_key(Stage.VERIFICATION), ()), *judged.verifications}
                if (
                    len(taken) < VERDICTS_NEEDED
                    and who not in taken
                    and self._may_watch(judged, taken, who, annotators)
                ):
                    ranked.append((1, Assignment(judged.id, Stage.VERIFICATION)))
            elif standing.waits_at is Stage.LEAVE_ONE_OUT:
                ranked += self._partial_offers(judged, standing.evidence, who, annotators)
        regular = [each for _, each in sorted(ranked, key=lambda pair: (pair[0], pair[1].item))]
        return [*gold, *regular] if gold and self._gold_is_due(who) else regular

    def _partial_offers(
        self, judged: JudgedItem, evidence: Evidence, who: str, annotators: Sequence[str]
    ) -> Iterator[tuple[int, Assignment]]:
        video = judged.proposal.video
        for left_out in order_of(judged.id, who, len(evidence)):
            key = assignment_key(Stage.LEAVE_ONE_OUT, evidence, left_out)
            taken = {*judged.seats.get(key, ()), *judged.answers_to(evidence, left_out)}
            if len(taken) >= VERDICTS_NEEDED or who in taken:
                continue
            partial = partial_set(evidence, left_out)
            stands = self.exposures.blindness(who, judged.id, video, partial)
            if stands is Blindness.REPEAT:
                fresh = [
                    name
                    for name in annotators
                    if name not in taken
                    and name not in judged.skipped
                    and self.exposures.blindness(name, judged.id, video, partial) is Blindness.FRESH
                ]
                if len(fresh) >= VERDICTS_NEEDED - len(taken):
                    continue
            if stands is not Blindness.EXPOSED:
                rank = 0 if stands is Blindness.FRESH else 2
                yield rank, Assignment(judged.id, Stage.LEAVE_ONE_OUT, left_out)

    def _gold_offers(self, judged: JudgedItem, who: str) -> Iterator[Assignment]:
        """One judgement of a gold item for each person: about its intervals, or about one partial set."""
        if who in judged.verifications or who in judged.answers:
            return
        evidence, without = judged.proposal.evidence, judged.gold.without if judged.gold else {}
        for left_out in without:
            partial = partial_set(evidence, left_out)
            if self.exposures.blindness(who, judged.id, judged.proposal.video, partial) is Blindness.FRESH:
                yield Assignment(judged.id, Stage.LEAVE_ONE_OUT, left_out)
                return
        if not without:
            yield Assignment(judged.id, Stage.VERIFICATION)

    def _gold_is_due(self, who: str) -> bool:
        """One assignment in each block of 1 / share is a gold item, at a place that nobody can foresee."""
        if not self._settings.gold_share:
            return False
        block = max(2, round(1 / self._settings.gold_share))
        taken = self.exposures.assignments_of(who)
        digest = hashlib.sha256(f"{self._settings.id}\n{who}\n{taken // block}".encode()).digest()
        return taken % block == digest[0] % block

    def _may_watch(self, judged: JudgedItem, taken: set[str], who: str, annotators: Sequence[str]) -> bool:
        """Whether a person may see the whole video: only where those who have seen it already do not suffice."""
        video = judged.proposal.video
        if self.exposures.has_whole(who, video):
            return True
        seen = [name for name in annotators if self.exposures.has_whole(name, video)]
        able = [name for name in seen if name not in taken and name not in judged.skipped]
        return len(able) < VERDICTS_NEEDED - len(taken)
