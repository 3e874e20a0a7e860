"""The queue of assignments. Two annotators judge each item independently; each has one assignment at a time.

As few annotators as possible verify a video, so that the others can judge its partial sets blind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from trace_ves.construction.exposure import Blindness, Exposures
from trace_ves.construction.judged_item import (
    VERDICTS_NEEDED,
    JudgedItem,
    evidence_to_json,
    judged_item,
    list_all_items,
    list_items,
    partial_set,
)
from trace_ves.construction.ledger import MACHINE, Change, Ledger, Stage
from trace_ves.construction.people import RefusedError, Role, active_names

if TYPE_CHECKING:
    from trace_ves.construction.project import BuildSettings
    from trace_ves.construction.store import Store


@dataclass(frozen=True, slots=True)
class Assignment:
    """What an annotator judges."""

    item: str
    stage: Stage
    left_out: int | None = None  # for leave-one-out: the hidden interval

    def key(self, judged: JudgedItem) -> str:
        """The name of this assignment in the store and the history."""
        return judged.assignment_key(self.stage, self.left_out)


def current_assignment(items: Iterable[JudgedItem], who: str) -> Assignment | None:
    """The assignment that an annotator holds; after an undo there may be two, and the older one comes first."""
    candidates = [
        (
            stage is not Stage.LEAVE_ONE_OUT,
            judged.holders[judged.assignment_key(stage, left_out)][who],
            judged,
            left_out,
        )
        for judged in items
        for stage, left_out in judged.held.get(who, ())
    ]
    later, _, judged, left_out = min(candidates, key=lambda each: each[:2], default=(False, 0.0, None, None))
    if judged is None:
        return None
    return Assignment(judged.id, Stage.VERIFICATION if later else Stage.LEAVE_ONE_OUT, left_out)


def judges_of(judged: JudgedItem, left_out: int) -> set[str]:
    """Annotators who hold or have answered a partial set."""
    key = judged.assignment_key(Stage.LEAVE_ONE_OUT, left_out)
    return {*judged.holders.get(key, ()), *judged.answers_without(judged.partial_evidence, left_out)}


def _without_holder(judged: JudgedItem, who: str) -> JudgedItem:
    holders = {key: {name: at for name, at in names.items() if name != who} for key, names in judged.holders.items()}
    return replace(judged, holders=holders)


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\n".join(parts).encode()).digest()


def order_of(item: str, who: str, intervals: int) -> list[int]:
    """The order in which an annotator is offered the partial sets of an item; its start differs between annotators."""
    first = _digest(item, who)[0]
    return [(first + place) % intervals for place in range(intervals)]


class AssignmentQueue:
    """The assignments of one store. Threads may share it."""

    def __init__(self, store: Store, settings: BuildSettings) -> None:
        self._store = store
        self.settings = settings
        self._exposures = Exposures(store.ledger())

    @property
    def exposures(self) -> Exposures:
        """What each person has seen so far."""
        self._exposures.catch_up()
        return self._exposures

    def current(self, who: str) -> Assignment | None:
        """The assignment that an annotator holds."""
        return current_assignment(list_all_items(self._store.ledger()), who)

    def take_next(self, who: str) -> Assignment | None:
        """The assignment that an annotator holds, or a new one; None if nothing waits for them."""
        oldest = self._store.clock() - 3600 * self.settings.seat_hours
        for idle, holder, since in self.held():
            if since < oldest:
                self.release(idle, holder, by=MACHINE, reason="absent")
        refused: set[Assignment] = set()
        while True:
            ledger = self._store.ledger()
            if (held := current_assignment(list_all_items(ledger), who)) is not None:
                return held
            offer = next((each for each in self._offers(ledger, who) if each not in refused), None)
            if offer is None:
                return None
            if not self._take(offer, who):
                refused.add(offer)

    def may_judge(self, blindness: Blindness) -> bool:
        """Whether an annotator of this blindness may ever judge a partial set."""
        return blindness <= (Blindness.REPEAT if self.settings.allow_not_blind else Blindness.FRESH)

    def count_items(self, who: str) -> int:
        """The number of items that an annotator can judge now, including the one that they hold and gold items."""
        ledger = self._store.ledger()
        annotators = self._annotators(ledger, who)
        held = current_assignment(list_all_items(ledger), who)
        regular = {offer.item for offer in self._regular_offers(ledger, who, annotators)}
        gold = {offer.item for offer in self._gold_offers(ledger, who, annotators)} if regular else set()
        return len(regular | gold | ({held.item} if held else set()))

    def in_order(self, items: Iterable[JudgedItem]) -> list[JudgedItem]:
        """Shuffle items into an order that is the same for everyone and cannot be derived from their ids."""
        return sorted(items, key=lambda judged: _digest(self.settings.id, judged.id))

    def stuck(self) -> list[tuple[str, Stage]]:
        """Items that wait for an annotator although no annotator may take them, each with its stage."""
        ledger = self._store.ledger()
        held = {assignment.item for assignment, _, _ in self.held()}
        names = active_names(ledger, Role.ANNOTATOR)
        stuck: list[tuple[str, Stage]] = []
        for judged in list_items(ledger):
            stage = judged.state.waits_at
            if stage is None or stage not in {Stage.VERIFICATION, Stage.LEAVE_ONE_OUT} or judged.id in held:
                continue
            waits_for_model = stage is Stage.LEAVE_ONE_OUT and all(
                len(judged.answers_without(judged.state.evidence, left_out)) >= VERDICTS_NEEDED
                for left_out in range(len(judged.state.evidence))
            )
            if not waits_for_model and not any(
                True for name in names for _ in self._item_offers(judged, name, self._annotators(ledger, name))
            ):
                stuck.append((judged.id, stage))
        return stuck

    def held(self) -> list[tuple[Assignment, str, float]]:
        """Every open assignment, its holder, and when they last worked on it."""
        watched_at = self._store.last_watched()
        held = []
        for judged in list_all_items(self._store.ledger()):
            for who, assignments in judged.held.items():
                for stage, left_out in assignments:
                    key = judged.assignment_key(stage, left_out)
                    last = max(judged.holders[key][who], watched_at.get((judged.id, key, who), 0.0))
                    held.append((Assignment(judged.id, stage, left_out), who, last))
        return held

    def release(self, held: Assignment, who: str, *, by: str, reason: str) -> bool:
        """Give an annotator's assignment back to the queue; False if they do not hold it."""

        def give_back(ledger: Ledger) -> list[Change]:
            key = held.key(judged_item(ledger, held.item))
            place = ledger.holders(held.item, key).get(who)
            value = {"released": who, "reason": reason}
            return [Change(held.item, f"seat/{key}/{place}", by, value)] if place else []

        return self._store.append_derived(give_back)

    def assign(self, item: str, who: str, *, by: str, instead_of: str = "") -> Assignment:
        """Give an item to an annotator, or move it from another; a `RefusedError` if the rules forbid it."""
        ledger = self._store.ledger()
        if who not in active_names(ledger, Role.ANNOTATOR):
            raise RefusedError(f"{who} is not an annotator who can sign in to this build.")
        if (held := self.current(who)) is not None:
            raise RefusedError(f"{who} holds {held.item}; one assignment at a time: give that back first.")
        judged = judged_item(ledger, item)
        theirs = [Assignment(item, *each) for each in judged.held.get(instead_of, ())]
        if instead_of and not theirs:
            raise RefusedError(f"{instead_of} does not hold {item}.")
        # Only this annotator counts: an operator who assigns by name need not spare the others.
        offers = [offer for _, offer in self._item_offers(_without_holder(judged, instead_of), who, [who])]
        assignment = next((offer for offer in offers if not theirs or offer in theirs), None)
        if assignment is None or not self._take(assignment, who, by=by, instead_of=instead_of):
            raise RefusedError(
                f"{who} may not judge {item} now: it needs no judgement, all places are taken, or they have judged or"
                " skipped it or seen more of its video."
            )
        return assignment

    def _take(self, assignment: Assignment, who: str, *, by: str = "", instead_of: str = "") -> bool:
        """Record the new holder, the operator `by`, the previous holder, and the clips; False if it is taken."""

        def claim(ledger: Ledger) -> list[Change]:
            """Check again under the lock: another annotator or browser window may have taken it meanwhile."""
            judged = judged_item(ledger, assignment.item)
            annotators = [who] if by else self._annotators(ledger, who)
            offers = self._item_offers(_without_holder(judged, instead_of), who, annotators)
            is_busy = current_assignment(list_all_items(ledger), who) is not None
            if is_busy or assignment not in {offer for _, offer in offers}:
                return []
            key = assignment.key(judged)
            places = ledger.holders(assignment.item, key)
            free = (str(number) for number in count(1) if str(number) not in places.values())
            value: dict[str, Any] = {"who": who}
            if instead_of:
                value["instead_of"] = instead_of
            if assignment.left_out is not None:
                value["spans"] = evidence_to_json(partial_set(judged.partial_evidence, assignment.left_out))
            return [Change(assignment.item, f"seat/{key}/{places.get(instead_of) or next(free)}", by or who, value)]

        return self._store.append_derived(claim)

    def _annotators(self, ledger: Ledger, who: str) -> list[str]:
        """Annotators who were active recently; no assignment is reserved for the others."""
        oldest = self._store.clock() - 3600 * self.settings.seat_hours
        names = active_names(ledger, Role.ANNOTATOR)
        return [name for name in names if name == who or self.exposures.active_at.get(name, 0.0) >= oldest]

    def _offers(self, ledger: Ledger, who: str) -> Iterator[Assignment]:
        """The assignments that an annotator may take, the best first; a gold item comes before one of its stage."""
        annotators = self._annotators(ledger, who)
        regular = self._regular_offers(ledger, who, annotators)
        if (first := next(regular, None)) is None:
            return
        gold = list(self._gold_offers(ledger, who, annotators))  # always computed, so that timing reveals nothing
        if gold and self._gold_is_due(who):
            yield from (each for each in gold if each.stage is first.stage)
        yield first
        yield from regular

    def _regular_offers(self, ledger: Ledger, who: str, annotators: Sequence[str]) -> Iterator[Assignment]:
        """The assignments of items for the bench: blind judgements of partial sets first, because few can make them."""
        later: list[tuple[int, Assignment]] = []
        for judged in self.in_order(list_items(ledger)):
            for rank, offer in self._item_offers(judged, who, annotators):
                if rank == 0:
                    yield offer
                else:
                    later.append((rank, offer))
        yield from (offer for _, offer in sorted(later, key=lambda pair: pair[0]))

    def _gold_offers(self, ledger: Ledger, who: str, annotators: Sequence[str]) -> Iterator[Assignment]:
        if not self.settings.gold_share:
            return
        gold = self.in_order(judged for judged in list_all_items(ledger) if judged.gold is not None)
        # A third judgement would reveal a gold item to annotators who compare notes, so these come last.
        gold.sort(key=lambda each: len({*each.verifications, *each.answers}) >= VERDICTS_NEEDED)
        for judged in gold:
            yield from (offer for _, offer in self._item_offers(judged, who, annotators))

    def _item_offers(self, judged: JudgedItem, who: str, annotators: Sequence[str]) -> Iterator[tuple[int, Assignment]]:
        """The assignments of one item that an annotator may take, each with its rank."""
        if who in judged.skipped:
            return
        if judged.gold is not None:
            yield from ((0, offer) for offer in self._gold_item_offers(judged, who, annotators))
        elif judged.state.waits_at is Stage.VERIFICATION:
            taken = {*judged.holders.get(judged.assignment_key(Stage.VERIFICATION), ()), *judged.verifications}
            free = len(taken) < VERDICTS_NEEDED and who not in taken
            if free and self._may_watch(judged, taken, who, annotators):
                yield 1, Assignment(judged.id, Stage.VERIFICATION)
        elif judged.state.waits_at is Stage.LEAVE_ONE_OUT:
            yield from self._partial_offers(judged, who, annotators)

    def _partial_offers(
        self, judged: JudgedItem, who: str, annotators: Sequence[str]
    ) -> Iterator[tuple[int, Assignment]]:
        for left_out in order_of(judged.id, who, len(judged.state.evidence)):
            taken = judges_of(judged, left_out)
            blindness = self.exposures.blindness(who, judged, left_out)
            if len(taken) >= VERDICTS_NEEDED or who in taken or not self.may_judge(blindness):
                continue
            if blindness is Blindness.REPEAT:
                fresh = [
                    name
                    for name in annotators
                    if name not in taken
                    and name not in judged.skipped
                    and self.exposures.blindness(name, judged, left_out) is Blindness.FRESH
                ]
                if len(fresh) >= VERDICTS_NEEDED - len(taken):
                    continue
            yield (0 if blindness is Blindness.FRESH else 2), Assignment(judged.id, Stage.LEAVE_ONE_OUT, left_out)

    def _gold_item_offers(self, judged: JudgedItem, who: str, annotators: Sequence[str]) -> Iterator[Assignment]:
        """One judgement of a gold item for each annotator: about its intervals, or about one partial set."""
        if judged.gold is None or who in judged.verifications or who in judged.answers:
            return
        for left_out in judged.gold.without:
            if self.exposures.blindness(who, judged, left_out) is Blindness.FRESH:
                yield Assignment(judged.id, Stage.LEAVE_ONE_OUT, left_out)
                return
        if not judged.gold.without and self._may_watch(judged, set(), who, annotators):
            yield Assignment(judged.id, Stage.VERIFICATION)

    def _gold_is_due(self, who: str) -> bool:
        """One assignment in each block of 1 / share is a gold item, at an unpredictable place."""
        block = max(2, round(1 / self.settings.gold_share))
        taken = self.exposures.assignments[who]
        return taken % block == int.from_bytes(_digest(self.settings.id, who, str(taken // block))) % block

    def _may_watch(self, judged: JudgedItem, taken: set[str], who: str, annotators: Sequence[str]) -> bool:
        """Whether an annotator may see the whole video: only if too few others who have seen it are left."""
        seen = self.exposures.whole_viewers.get(judged.proposal.video, frozenset())
        if who in seen:
            return True
        able = seen.intersection(annotators) - taken - judged.skipped.keys()
        return len(able) < VERDICTS_NEEDED - len(taken)
