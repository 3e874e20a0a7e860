"""Who judges what next: each item goes to two annotators, who do not know of each other; one assignment at a time.

Whoever holds a leave-one-out assignment holds nothing else, and has seen no more of its video than it shows. So people
are kept fresh: a video is verified by as few annotators as possible, and the others judge its partial sets.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trace_ves.construction.exposure import Blindness, Exposures, PartialSet
from trace_ves.construction.judged_item import VERDICTS_NEEDED
from trace_ves.construction.leave_one_out import partial_set
from trace_ves.construction.ledger import StaleError
from trace_ves.construction.people import Role, active
from trace_ves.construction.stages import Stage, assignment_key
from trace_ves.construction.visual_verification import evidence_to_json
from trace_ves.core import TraceVesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trace_ves.construction.judged_item import IndexedItem, ItemIndex, JudgedItem, Standing
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import BuildSettings
    from trace_ves.construction.store import Store
    from trace_ves.construction.visual_verification import Evidence

UNLIMITED: Final = 1 << 30
"""Seats of a gold item: everybody judges it."""
RELEASE_EVERY_SECONDS: Final = 30.0


class RefusedError(TraceVesError):
    """A person is not allowed to do or see this."""


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
    if not any(who in holders for holders in judged.seats.values()):
        return
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


def _without(indexed: IndexedItem, who: str) -> IndexedItem:
    """An item as if a person did not hold a seat of it."""
    judged, standing = indexed
    seats = {key: {name: at for name, at in holders.items() if name != who} for key, holders in judged.seats.items()}
    return replace(judged, seats=seats), standing


def _partial(judged: JudgedItem, evidence: Evidence, left_out: int) -> PartialSet:
    return PartialSet(judged.id, judged.proposal.video, evidence, left_out)


def order_of(item: str, who: str, intervals: int) -> list[int]:
    """The order in which a person is offered partial sets; two people begin at different places."""
    first = hashlib.sha256(f"{item}\n{who}".encode()).digest()[0]
    return [(first + place) % intervals for place in range(intervals)]


class AssignmentQueue:
    """Gives out assignments over one store. Threads may share it."""

    def __init__(self, store: Store, items: ItemIndex, settings: BuildSettings) -> None:
        self._store = store
        self._items = items
        self.settings = settings
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
        hiding = _partial(judged, evidence_of(judged, standing), assignment.left_out or 0)
        return self.exposures.blindness(who, hiding, since=since)

    def may_judge(self, stands: Blindness) -> bool:
        """Whether somebody who stands so to a partial set may ever judge it."""
        return stands <= (Blindness.REPEAT if self.settings.allow_not_blind else Blindness.FRESH)

    def items_left(self, who: str) -> int:
        """How many items wait for a person now, the one that they hold included."""
        ledger = self._store.ledger()
        held = current_assignment(self._items.with_gold(ledger), who)
        return len({offer.item for offer in self._offers(ledger, who)} | ({held.item} if held else set()))

    def stuck(self) -> list[tuple[str, Stage]]:
        """Items that wait for people, of whom nobody may take them: each with the stage it waits at."""
        ledger = self._store.ledger()
        busy = {held.item for held, _, _ in self.held()}
        names = active(ledger, Role.ANNOTATOR)
        found: list[tuple[str, Stage]] = []
        for indexed in self._items.all(ledger):
            judged, standing = indexed
            waits = standing.waits_at
            if waits not in {Stage.VERIFICATION, Stage.LEAVE_ONE_OUT} or judged.id in busy:
                continue
            complete = waits is Stage.LEAVE_ONE_OUT and all(
                len(judged.answers_to(standing.evidence, left_out)) >= VERDICTS_NEEDED
                for left_out in range(len(standing.evidence))
            )  # then it waits for the model alone
            free = any(True for name in names for _ in self._item_offers(indexed, name, self._annotators(ledger, name)))
            if not complete and not free and waits is not None:
                found.append((judged.id, waits))
        return found

    def release_absent(self) -> list[tuple[str, str]]:
        """Free the seats that nobody worked on for the hours of the settings; gives items and people."""
        now = self._store.clock()
        with self._lock:
            if now - self._released_at < RELEASE_EVERY_SECONDS:
                return []
            self._released_at = now
        oldest = now - 3600 * self.settings.seat_hours
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

    def assign(self, item: str, who: str, *, by: str, instead_of: str = "") -> Assignment:
        """Give an item to a person by name, in a free seat or in that of somebody who holds it.

        They must be allowed to judge it, as for anything they take themselves; a `RefusedError` says why they are not.
        """
        ledger = self._store.ledger()
        self.exposures.update(ledger)
        if who not in active(ledger, Role.ANNOTATOR):
            raise RefusedError(f"{who} is no annotator of this build who can sign in.")
        if (held := self.current(who)) is not None:
            raise RefusedError(f"{who} holds {held.item}; one assignment at a time: give that back first.")
        try:
            indexed = self._items.one(ledger, item)
        except KeyError:
            raise RefusedError(f"There is no item {item[:40]!r}.") from None
        theirs = list(_held(*indexed, instead_of)) if instead_of else []
        if instead_of and not theirs:
            raise RefusedError(f"{instead_of} does not hold {item}.")
        # Alone: an operator who names somebody knows whom else that keeps fresh.
        offers = [offer for _, offer in self._item_offers(_without(indexed, instead_of), who, [who])]
        wanted = next((offer for offer in offers if not theirs or offer in theirs), None)
        if wanted is None or not self._take(wanted, who, by=by, instead_of=instead_of, alone=True):
            raise RefusedError(
                f"{who} may not judge {item} now: it waits for nobody, all seats are taken, or they have judged or"
                " skipped it or seen more of its video."
            )
        return wanted

    def _take(self, wanted: Assignment, who: str, *, by: str = "", instead_of: str = "", alone: bool = False) -> bool:
        indexed = self._items.one(self._store.ledger(), wanted.item)
        evidence = evidence_of(*indexed)
        shown = {}
        if wanted.left_out is not None:
            shown = {"spans": evidence_to_json(partial_set(evidence, wanted.left_out))}

        def check(ledger: Ledger) -> None:
            """Another window of the same person, or another person, may have taken something in the meantime."""
            held = current_assignment(self._items.with_gold(ledger), who)
            now = _without(self._items.one(ledger, wanted.item), instead_of)
            others = [who] if alone else self._annotators(ledger, who)
            free = {each for _, each in self._item_offers(now, who, others)}
            if held is not None or wanted not in free:
                raise StaleError(f"{wanted.item}: this assignment is not free any more.")

        seats = UNLIMITED if indexed[0].gold is not None else VERDICTS_NEEDED
        return self._store.take_seat(
            wanted.item,
            key_of(wanted, indexed),
            who,
            seats=seats,
            shows=shown,
            check=check,
            by=by,
            instead_of=instead_of,
        )

    def _annotators(self, ledger: Ledger, who: str) -> list[str]:
        """Everybody who is at work: nothing is kept for others."""
        self.exposures.update(ledger)
        oldest = self._store.clock() - 3600 * self.settings.seat_hours
        names = active(ledger, Role.ANNOTATOR)
        return [name for name in names if name == who or self.exposures.active_at(name) >= oldest]

    def _offers(self, ledger: Ledger, who: str) -> Iterator[Assignment]:
        """What a person may be given, the best first: partial sets that they see fresh are the scarcest."""
        annotators = self._annotators(ledger, who)
        indexed = sorted(self._items.with_gold(ledger), key=lambda each: each[0].id)
        gold = [each for each in indexed if each[0].gold is not None]
        regular = [each for each in indexed if each[0].gold is None]
        if gold and self._gold_is_due(who):
            yield from (offer for each in gold for _, offer in self._item_offers(each, who, annotators))
        later: list[tuple[int, Assignment]] = []
        for each in regular:
            for rank, offer in self._item_offers(each, who, annotators):
                if rank == 0:
                    yield offer
                else:
                    later.append((rank, offer))
        yield from (offer for _, offer in sorted(later, key=lambda pair: pair[0]))

    def _item_offers(
        self, indexed: IndexedItem, who: str, annotators: Sequence[str]
    ) -> Iterator[tuple[int, Assignment]]:
        """What of one item a person may be given, each with its rank."""
        judged, standing = indexed
        if who in judged.skipped:
            return
        if judged.gold is not None:
            yield from ((0, offer) for offer in self._gold_offers(judged, who))
        elif standing.waits_at is Stage.VERIFICATION:
            taken = {*judged.seats.get(assignment_key(Stage.VERIFICATION), ()), *judged.verifications}
            free = len(taken) < VERDICTS_NEEDED and who not in taken
            if free and self._may_watch(judged, taken, who, annotators):
                yield 1, Assignment(judged.id, Stage.VERIFICATION)
        elif standing.waits_at is Stage.LEAVE_ONE_OUT:
            yield from self._partial_offers(judged, standing.evidence, who, annotators)

    def _partial_offers(
        self, judged: JudgedItem, evidence: Evidence, who: str, annotators: Sequence[str]
    ) -> Iterator[tuple[int, Assignment]]:
        for left_out in order_of(judged.id, who, len(evidence)):
            key = assignment_key(Stage.LEAVE_ONE_OUT, evidence, left_out)
            taken = {*judged.seats.get(key, ()), *judged.answers_to(evidence, left_out)}
            if len(taken) >= VERDICTS_NEEDED or who in taken:
                continue
            hiding = _partial(judged, evidence, left_out)
            stands = self.exposures.blindness(who, hiding)
            if not self.may_judge(stands):
                continue
            if stands is Blindness.REPEAT:
                fresh = [
                    name
                    for name in annotators
                    if name not in taken
                    and name not in judged.skipped
                    and self.exposures.blindness(name, hiding) is Blindness.FRESH
                ]
                if len(fresh) >= VERDICTS_NEEDED - len(taken):
                    continue
            rank = 0 if stands is Blindness.FRESH else 2
            yield rank, Assignment(judged.id, Stage.LEAVE_ONE_OUT, left_out)

    def _gold_offers(self, judged: JudgedItem, who: str) -> Iterator[Assignment]:
        """One judgement of a gold item for each person: about its intervals, or about one partial set."""
        if who in judged.verifications or who in judged.answers:
            return
        evidence, without = judged.proposal.evidence, judged.gold.without if judged.gold else {}
        for left_out in without:
            if self.exposures.blindness(who, _partial(judged, evidence, left_out)) is Blindness.FRESH:
                yield Assignment(judged.id, Stage.LEAVE_ONE_OUT, left_out)
                return
        if not without:
            yield Assignment(judged.id, Stage.VERIFICATION)

    def _gold_is_due(self, who: str) -> bool:
        """One assignment in each block of 1 / share is a gold item, at a place that nobody can foresee."""
        if not self.settings.gold_share:
            return False
        block = max(2, round(1 / self.settings.gold_share))
        taken = self.exposures.assignments_of(who)
        digest = hashlib.sha256(f"{self.settings.id}\n{who}\n{taken // block}".encode()).digest()
        return taken % block == digest[0] % block

    def _may_watch(self, judged: JudgedItem, taken: set[str], who: str, annotators: Sequence[str]) -> bool:
        """Whether a person may see the whole video: only where those who have seen it already do not suffice."""
        video = judged.proposal.video
        seen = self.exposures.whole_viewers(video)
        if who in seen:
            return True
        able = seen.intersection(annotators) - taken - judged.skipped.keys()
        return len(able) < VERDICTS_NEEDED - len(taken)
