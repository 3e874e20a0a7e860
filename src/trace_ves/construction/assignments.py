"""Who does what next: each item goes to two annotators, who do not know of each other; one task at a time.

Whoever has a leave-one-out task open has nothing else open: no other task may show what it hides.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.construction.stages import Stage
from trace_ves.construction.store import SEATS_PER_ITEM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.construction.item_index import IndexedItem, ItemIndex
    from trace_ves.construction.judged_item import JudgedItem, Standing
    from trace_ves.construction.store import Store


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a person has before them."""

    item: str
    stage: Stage
    left_out: int | None = None
    """For leave-one-out: the interval that is not shown."""


def current_assignment(indexed: Iterable[IndexedItem], who: str) -> Assignment | None:
    """The one task that a person has open."""
    mine = [task for judged, standing in indexed if (task := _open(judged, standing, who))]
    return min(mine, key=lambda task: task.stage is not Stage.LEAVE_ONE_OUT, default=None)


def _open(judged: JudgedItem, standing: Standing, who: str) -> Assignment | None:
    stage, evidence = standing.waits_at, standing.evidence
    if stage is None or who not in judged.seats.get(stage, ()):
        return None
    if stage is Stage.VERIFICATION:
        return None if who in judged.verifications else Assignment(judged.id, stage)
    answered = judged.answers_of(who, evidence)
    missing = [place for place in order_of(judged.id, who, len(evidence)) if place not in answered]
    return Assignment(judged.id, stage, missing[0]) if missing else None


def order_of(item: str, who: str, intervals: int) -> list[int]:
    """The order in which a person is asked without each interval; two people begin at different places."""
    first = hashlib.sha256(f"{item}\n{who}".encode()).digest()[0]
    return [(first + place) % intervals for place in range(intervals)]


def take_next(store: Store, index: ItemIndex, who: str) -> Assignment | None:
    """The open task of a person, or a new one; None where nothing waits for them."""
    refused: set[tuple[str, Stage]] = set()
    while True:
        indexed = index.all(store.ledger())
        if (task := current_assignment(indexed, who)) is not None:
            return task
        free = [choice for choice in _free(indexed, who) if choice not in refused]
        if not free:
            return None
        item, stage = free[0]
        if not store.take_seat(item, stage, who):
            refused.add((item, stage))


def _free(indexed: list[IndexedItem], who: str) -> list[tuple[str, Stage]]:
    """Items with a free seat; leave-one-out of items that this person has verified comes last."""
    found: list[tuple[bool, str, Stage]] = []
    for judged, standing in indexed:
        stage = standing.waits_at
        if stage not in (Stage.VERIFICATION, Stage.LEAVE_ONE_OUT):
            continue
        taken = judged.seats.get(stage, ())
        if len(taken) < SEATS_PER_ITEM and who not in taken:
            has_seen = stage is Stage.LEAVE_ONE_OUT and who in judged.verifications
            found.append((has_seen, judged.id, stage))
    return [(item, stage) for _, item, stage in sorted(found)]
