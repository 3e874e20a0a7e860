"""The store of a build: an append-only history in a database, and the ledger that follows from it.

Nothing is ever changed or deleted. A kill at any moment loses only what was not yet reported as written.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from trace_ves.construction.ledger import Change, Entry, Ledger, StaleError
from trace_ves.construction.stages import seat_slot
from trace_ves.core import InputError, MissingExtraError
from trace_ves.core.files import use_write_ahead_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Check = Callable[[Ledger], None]

BUSY_SECONDS: Final = 30
"""How long a writer waits for the one before it."""
_LOCK_KEY: Final = 0x7472616365
"""Names the lock of PostgreSQL's writers."""

METADATA: Final = sa.MetaData()

HISTORY: Final = sa.Table(
    "history",
    METADATA,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double(), nullable=False),
    sa.Column("who", sa.Text(), nullable=False),
    sa.Column("subject", sa.Text(), nullable=False),
    sa.Column("slot", sa.Text(), nullable=False),
    sa.Column("revision", sa.Integer(), nullable=False),
    sa.Column("before", sa.Text(), nullable=False),
    sa.Column("after", sa.Text(), nullable=False),
    sa.Column("undoes", sa.Integer()),
    sa.Column("seconds", sa.Double(), nullable=False),
    sa.Column("calls", sa.Text(), nullable=False),
    sa.UniqueConstraint("subject", "slot", "revision", name="one_entry_for_each_revision"),
)
"""Every judgement, append-only. `before`, `after` and `calls` are JSON in ASCII, the same bytes on both databases."""

SEATS: Final = sa.Table(
    "seats",
    METADATA,
    sa.Column("item", sa.Text(), primary_key=True),
    sa.Column("stage", sa.Text(), primary_key=True),
    sa.Column("seat", sa.Integer(), primary_key=True),
    sa.Column("who", sa.Text(), nullable=False),
    sa.UniqueConstraint("item", "stage", "who", name="nobody_sits_twice"),
)
"""Who holds which assignment now: constraints that no race can pass. The history keeps who ever held one."""

WATCHED: Final = sa.Table(
    "watched",
    METADATA,
    sa.Column("item", sa.Text(), primary_key=True),
    sa.Column("assignment", sa.Text(), primary_key=True),
    sa.Column("who", sa.Text(), primary_key=True),
    sa.Column("at", sa.Double(), nullable=False),
    sa.Column("spans", sa.Text(), nullable=False),
)
"""What a person has played of the assignment they hold, as JSON; it goes to the history with their judgement."""

BUILD: Final = sa.Table("build", METADATA, sa.Column("id", sa.Text(), primary_key=True))
"""The id of the build whose database this is; empty for a build of version 0.1, which had none."""

_FORBIDDEN: Final = "the history is append-only"

_APPEND_ONLY: Final = (
    *(
        f"CREATE TRIGGER IF NOT EXISTS history_no_{verb} BEFORE {verb} ON history"
        f" BEGIN SELECT RAISE(ABORT, '{_FORBIDDEN}'); END"
        for verb in ("update", "delete")
    ),
    # INSERT OR REPLACE deletes the row it replaces without running the trigger above
    "CREATE TRIGGER IF NOT EXISTS history_no_replace BEFORE INSERT ON history WHEN EXISTS (SELECT 1 FROM history WHERE"
    " number = NEW.number OR (subject = NEW.subject AND slot = NEW.slot AND revision = NEW.revision))"
    " BEGIN SELECT RAISE(ABORT, 'this entry exists already'); END",
    *(f"DROP TRIGGER IF EXISTS seats_no_{verb}" for verb in ("update", "delete")),  # version 0.1 never released a seat
)
_APPEND_ONLY_POSTGRESQL: Final = (
    "CREATE OR REPLACE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION '{_FORBIDDEN}'; END $$",
    "CREATE OR REPLACE TRIGGER history_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON history"
    " FOR EACH STATEMENT EXECUTE FUNCTION append_only()",
    "DROP TRIGGER IF EXISTS seats_append_only ON seats",
)


class StoreError(InputError):
    """The database is missing, busy, or not a database."""


def open_engine(url: str, build: str = "") -> sa.Engine:
    """A database with the tables of one build in it: on PostgreSQL in a schema of its own, on SQLite in its own file.

    A URL may hold no password: it would stand in files and messages.
    """
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise StoreError("The database URL is not valid; write it as postgresql://user@host/name.") from None
    if parsed.password is not None:
        raise StoreError("The database URL holds a password; give it in PGPASSWORD or ~/.pgpass instead.")
    kind = parsed.get_backend_name()
    if kind not in {"sqlite", "postgresql"}:
        raise StoreError(f"There is no store on {kind!r}; use a SQLite file or postgresql://user@host/name.")
    try:
        if kind == "postgresql":
            schema = {"options": f"-csearch_path=build_{build}"} if build else {}
            driver = parsed.set(drivername="postgresql+psycopg")
            engine = sa.create_engine(driver, pool_pre_ping=True, pool_size=10, max_overflow=20, connect_args=schema)
        else:
            _create_private(parsed.database)
            engine = sa.create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
            sa.event.listen(engine, "connect", _prepare_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingExtraError(f"A store on {kind}", "build") from None
    with writing(engine) as connection:
        if kind == "postgresql" and build:
            connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS build_{build}"))
        METADATA.create_all(connection)
        owner = connection.execute(sa.select(BUILD.c.id)).scalar()
        if owner is None:
            connection.execute(BUILD.insert().values(id=build))
        elif owner not in {"", build}:
            raise StoreError("This database belongs to another build; give each build a database of its own.")
        for statement in _APPEND_ONLY if kind == "sqlite" else _APPEND_ONLY_POSTGRESQL:
            connection.execute(sa.text(statement))
    return engine


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that no other writer overlaps; all of it is written at its end, or nothing."""
    with _as_sentences(), engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection that only reads, and waits for nobody."""
    with _as_sentences(), engine.connect() as connection:
        yield connection


@contextmanager
def _as_sentences() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        if isinstance(error, IntegrityError) and _FORBIDDEN not in str(error.orig):
            raise StaleError("Somebody else wrote the same thing first; look at it again.") from None
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StoreError(f"The database is not usable: {reason}.") from error


def _create_private(file: str | None) -> None:
    """Create the file before SQLite does, readable by its owner alone; what SQLite puts beside it takes its mode."""
    if file and file != ":memory:":
        with suppress(OSError):
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    use_write_ahead_log(connection, BUSY_SECONDS)
    for pragma in ("synchronous=FULL", f"busy_timeout={1000 * BUSY_SECONDS}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


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
