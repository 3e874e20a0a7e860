"""The store of a build: an append-only history in a database, and the ledger that follows from it.

Nothing is ever changed or deleted. A kill at any moment loses only what was not yet reported as written.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from trace_ves.construction.database import HISTORY, SEATS, WATCHED, open_engine, reading, writing
from trace_ves.construction.ledger import Change, Entry, Ledger, StaleError
from trace_ves.construction.stages import seat_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Check = Callable[[Ledger], None]

SEATS_PER_ITEM: Final = 2
"""Annotators who judge each item independently."""


class Store:
    """One build's history. Threads and processes may share it."""

    def __init__(self, url: str, build: str = "", *, clock: Callable[[], float] = time.time) -> None:
        self._engine = open_engine(url, build)
        self.clock = clock
        self._ledger = Ledger()
        self._lock = threading.RLock()

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def copy_from(self, other: Store) -> int:
        """Take over another store's history and seats; this one must be empty. Gives the number of entries."""
        with reading(other._engine) as source, self._writing() as connection:
            if self._ledger.entries:
                raise StaleError("There is a history in this database already; nothing was copied.")
            count = 0
            for table in (HISTORY, SEATS, WATCHED):
                order = HISTORY.c.number if table is HISTORY else None
                rows = source.execute(sa.select(table).order_by(order)).mappings().all()
                if rows:
                    connection.execute(table.insert(), [dict(row) for row in rows])
                count += len(rows) if table is HISTORY else 0
            return count

    def ledger(self) -> Ledger:
        """The history up to now. The ledger grows in place; nothing in it changes."""
        with self._lock, reading(self._engine) as connection:
            self._catch_up(connection)
            return self._ledger

    def append(self, changes: Sequence[Change], *, check: Check | None = None) -> list[Entry]:
        """Write changes of different slots, all of them or none.

        `check` sees the history as it is when nobody else can write, and may refuse by raising.
        """
        with self._writing(check) as connection:
            return self._insert(connection, changes)

    def undo(self, subject: str, slot: str, who: str, *, check: Check | None = None) -> Entry:
        """Take back the newest judgement in a slot, by one more entry; only its author may."""
        with self._writing(check) as connection:
            number = self._ledger.last_number + 1
            entry = self._ledger.undo_entry(subject, slot, who, number=number, at=self.clock())
            connection.execute(HISTORY.insert(), [_row(entry)])
            return entry

    def take_seat(
        self,
        item: str,
        stage: str,
        who: str,
        *,
        seats: int = SEATS_PER_ITEM,
        shows: Mapping[str, Any] | None = None,
        check: Check | None = None,
        by: str = "",
        instead_of: str = "",
    ) -> bool:
        """Take one of an item's seats at a stage; False where all are taken, or this person has one already.

        `shows` says what the seat gives the person to see, and goes to the history. `by` names who gives it to them, if
        they did not take it themselves, and `instead_of` whose seat it is until then.
        """
        try:
            with self._writing(check) as connection:
                held = sa.select(SEATS.c.seat, SEATS.c.who).where(SEATS.c.item == item, SEATS.c.stage == stage)
                taken = {row.seat: row.who for row in connection.execute(held)}
                theirs = [number for number, name in taken.items() if name == instead_of]
                if who in taken.values() or not (theirs if instead_of else len(taken) < seats):
                    return False
                seat = theirs[0] if theirs else next(number for number in count(1) if number not in taken)
                self._leave(connection, item, stage, instead_of)
                connection.execute(SEATS.insert().values(item=item, stage=stage, seat=seat, who=who))
                value = {"who": who} | ({"instead_of": instead_of} if instead_of else {}) | dict(shows or {})
                self._insert(connection, [Change(item, seat_slot(stage, seat), by or who, value)])
        except StaleError:
            return False
        return True

    def release_seat(self, item: str, stage: str, who: str, *, by: str, reason: str) -> bool:
        """Free a person's seat, so that somebody else can take it; False where they have none."""
        with self._writing() as connection:
            if (seat := self._leave(connection, item, stage, who)) is None:
                return False
            self._insert(connection, [Change(item, seat_slot(stage, seat), by, {"released": who, "reason": reason})])
        return True

    @staticmethod
    def _leave(connection: sa.Connection, item: str, stage: str, who: str) -> int | None:
        """Take a person from their seat, and forget what they played of it; gives the seat's number."""
        held = (SEATS.c.item == item, SEATS.c.stage == stage, SEATS.c.who == who)
        seat: int | None = connection.execute(sa.select(SEATS.c.seat).where(*held)).scalar()
        if seat is not None:
            connection.execute(SEATS.delete().where(*held))
            connection.execute(
                WATCHED.delete().where(WATCHED.c.item == item, WATCHED.c.assignment == stage, WATCHED.c.who == who)
            )
        return seat

    def watched(self, item: str, stage: str, who: str) -> tuple[float, dict[str, Any]]:
        """When a person last reported what they played of an assignment, and the report so far."""
        query = sa.select(WATCHED.c.at, WATCHED.c.spans).where(
            WATCHED.c.item == item, WATCHED.c.assignment == stage, WATCHED.c.who == who
        )
        with reading(self._engine) as connection:
            row = connection.execute(query).first()
        return (row.at, json.loads(row.spans)) if row is not None else (0.0, {})

    def note_watched(
        self, item: str, stage: str, who: str, change: Callable[[float, dict[str, Any]], Mapping[str, Any]]
    ) -> None:
        """Replace what a person has played so far by what `change` makes of it and of the time of the last report.

        Players report several clips at the same moment: nobody else writes between the reading and the writing.
        """
        key = {"item": item, "assignment": stage, "who": who}
        mine = [WATCHED.c[name] == value for name, value in key.items()]
        with self._lock, writing(self._engine) as connection:
            row = connection.execute(sa.select(WATCHED.c.at, WATCHED.c.spans).where(*mine)).first()
            spans = change(*((row.at, json.loads(row.spans)) if row is not None else (0.0, {})))
            connection.execute(WATCHED.delete().where(*mine))
            connection.execute(WATCHED.insert().values(**key, at=self.clock(), spans=json.dumps(spans)))

    def last_watched(self) -> dict[tuple[str, str, str], float]:
        """When each person last reported that they played something of an assignment."""
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(WATCHED.c.item, WATCHED.c.assignment, WATCHED.c.who, WATCHED.c.at))
            return {(row.item, row.assignment, row.who): row.at for row in rows}

    @contextmanager
    def _writing(self, check: Check | None = None) -> Iterator[sa.Connection]:
        with self._lock, writing(self._engine) as connection:
            self._catch_up(connection)
            if check is not None:
                check(self._ledger)
            yield connection

    def _insert(self, connection: sa.Connection, changes: Sequence[Change]) -> list[Entry]:
        number, at = self._ledger.last_number + 1, self.clock()
        entries = [
            self._ledger.next_entry(change, number=number + place, at=at) for place, change in enumerate(changes)
        ]
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
