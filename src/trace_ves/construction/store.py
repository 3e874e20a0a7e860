"""The store of a build: an append-only history in a database, and the ledger that follows from it.

Nothing is ever changed or deleted. A kill at any moment loses only what was not yet reported as written.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from trace_ves.construction.database import HISTORY, SEATS, open_engine, reading, writing
from trace_ves.construction.ledger import Change, Entry, Ledger, StaleError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEATS_PER_ITEM: Final = 2
"""Annotators who judge each item independently."""


class Store:
    """One build's history. Threads and processes may share it."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self._engine = open_engine(url)
        self._clock = clock
        self._ledger = Ledger()
        self._lock = threading.RLock()

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def ledger(self) -> Ledger:
        """The history up to now. The ledger grows in place; nothing in it changes."""
        with self._lock, reading(self._engine) as connection:
            self._catch_up(connection)
            return self._ledger

    def append(self, changes: Sequence[Change]) -> list[Entry]:
        """Write changes of different slots, all of them or none."""
        return self._write(
            lambda number, at: [
                self._ledger.next_entry(change, number=number + place, at=at) for place, change in enumerate(changes)
            ]
        )

    def undo(self, subject: str, slot: str, who: str) -> Entry:
        """Take back the newest judgement in a slot, by one more entry; only its author may."""
        [entry] = self._write(lambda number, at: [self._ledger.undo_entry(subject, slot, who, number=number, at=at)])
        return entry

    def take_seat(self, item: str, stage: str, who: str) -> bool:
        """Sit down at an item's stage; False where its seats are taken, or this person sits there already."""
        try:
            with self._lock, writing(self._engine) as connection:
                self._catch_up(connection)
                taken = connection.execute(
                    sa.select(SEATS.c.seat, SEATS.c.who).where(SEATS.c.item == item, SEATS.c.stage == stage)
                ).all()
                free = [seat for seat in range(1, SEATS_PER_ITEM + 1) if seat not in {row.seat for row in taken}]
                if not free or who in {row.who for row in taken}:
                    return False
                connection.execute(SEATS.insert().values(item=item, stage=stage, seat=free[0], who=who))
                change = Change(item, f"seat/{stage}/{free[0]}", who, {"who": who}, expected=0)
                entry = self._ledger.next_entry(change, number=self._ledger.last_number + 1, at=self._clock())
                connection.execute(HISTORY.insert(), [_row(entry)])
        except StaleError:
            return False
        return True

    def _write(self, make: Callable[[int, float], list[Entry]]) -> list[Entry]:
        with self._lock, writing(self._engine) as connection:
            self._catch_up(connection)
            entries = make(self._ledger.last_number + 1, self._clock())
            if entries:
                connection.execute(HISTORY.insert(), [_row(entry) for entry in entries])
        return entries

    def _catch_up(self, connection: sa.Connection) -> None:
        """Read what was written since the last look, by whatever process."""
        query = sa.select(HISTORY).where(HISTORY.c.number > self._ledger.last_number).order_by(HISTORY.c.number)
        for row in connection.execute(query):
            self._ledger.add(_entry(row))


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at": entry.at,
        "who": entry.who,
        "subject": entry.subject,
        "slot": entry.slot,
        "revision": entry.revision,
        "before": json.dumps(entry.before, allow_nan=False),
        "after": json.dumps(entry.after, allow_nan=False),
        "undoes": entry.undoes,
        "seconds": entry.seconds,
        "calls": json.dumps(list(entry.calls), allow_nan=False),
    }


def _entry(row: Any) -> Entry:
    return Entry(
        number=row.number,
        at=row.at,
        who=row.who,
        subject=row.subject,
        slot=row.slot,
        revision=row.revision,
        before=json.loads(row.before),
        after=json.loads(row.after),
        undoes=row.undoes,
        seconds=row.seconds,
        calls=tuple(json.loads(row.calls)),
    )
