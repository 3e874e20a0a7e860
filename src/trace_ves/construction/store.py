"""The store of a build: an append-only history in SQLite or PostgreSQL, and the ledger read from it.

Entries are never changed or deleted. A crash loses only writes that were not yet confirmed.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.ledger import Change, Ledger, LedgerEntry, StaleError
from trace_ves.core import InputError, MissingExtraError
from trace_ves.core.files import use_write_ahead_log

try:
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError
except ModuleNotFoundError as error:
    raise MissingExtraError("Building a bench", "build") from error

if TYPE_CHECKING:
    Check = Callable[[Ledger], None]

BUSY_SECONDS: Final = 30  # how long a writer waits for the lock
_LOCK_KEY: Final = 0x7472616365  # the advisory lock of writers on PostgreSQL

METADATA: Final = sa.MetaData()
# Every judgement, append-only. `before`, `after` and `calls` are JSON in ASCII, the same bytes on both databases.
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
WATCHED: Final = sa.Table(  # what annotators have played, as JSON, by assignment
    "watched",
    METADATA,
    sa.Column("item", sa.Text(), primary_key=True),
    sa.Column("assignment", sa.Text(), primary_key=True),
    sa.Column("who", sa.Text(), primary_key=True),
    sa.Column("at", sa.Double(), nullable=False),
    sa.Column("spans", sa.Text(), nullable=False),
)

# The id of the build of this database; empty for builds of version 0.1.
BUILD: Final = sa.Table("build", METADATA, sa.Column("id", sa.Text(), primary_key=True))
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
)
_APPEND_ONLY_POSTGRESQL: Final = (
    "CREATE OR REPLACE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION '{_FORBIDDEN}'; END $$",
    "CREATE OR REPLACE TRIGGER history_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON history"
    " FOR EACH STATEMENT EXECUTE FUNCTION append_only()",
)


class StoreError(InputError):
    """The database is missing, busy, or not a database."""


def open_engine(url: str, build: str = "") -> sa.Engine:
    """Open the database of one build and create its tables: a schema on PostgreSQL, a file on SQLite."""
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise StoreError("The database URL is not valid; write it as postgresql://user@host/name.") from None
    if parsed.password is not None:  # URLs end up in files and messages
        raise StoreError("The database URL contains a password; put it in PGPASSWORD or ~/.pgpass instead.")
    kind = parsed.get_backend_name()
    if kind not in {"sqlite", "postgresql"}:
        raise StoreError(f"{kind!r} databases are not supported; use a SQLite file or postgresql://user@host/name.")
    try:
        if kind == "postgresql":
            schema = {"options": f"-csearch_path=build_{build}"} if build else {}
            driver = parsed.set(drivername="postgresql+psycopg")
            engine = sa.create_engine(driver, pool_pre_ping=True, pool_size=10, max_overflow=20, connect_args=schema)
        else:
            if parsed.database and parsed.database != ":memory:":
                # Create the file before SQLite does, readable only by its owner; SQLite's other files copy its mode.
                with suppress(OSError):
                    os.close(os.open(parsed.database, os.O_CREAT | os.O_RDWR, 0o600))
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
            raise StoreError("This database belongs to another build; give each build its own database.")
        for statement in _APPEND_ONLY if kind == "sqlite" else _APPEND_ONLY_POSTGRESQL:
            connection.execute(sa.text(statement))
    return engine


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """An exclusive write transaction."""
    with _translate_errors(), engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection for reading; it never waits for a writer."""
    with _translate_errors(), engine.connect() as connection:
        yield connection


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        if isinstance(error, IntegrityError) and _FORBIDDEN not in str(error.orig):
            raise StaleError("Someone else saved this first; look at it again.") from None
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StoreError(f"The database is not usable: {reason}.") from error


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    use_write_ahead_log(connection, BUSY_SECONDS)
    connection.execute("PRAGMA synchronous=FULL").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("writes", False):  # a read is one statement and needs no transaction
        connection.exec_driver_sql("BEGIN IMMEDIATE")


class Store:
    """One build's history. Threads and processes may share it."""

    def __init__(self, url: str, build: str = "", *, clock: Callable[[], float] = time.time) -> None:
        self._engine = open_engine(url, build)
        self.clock = clock
        self._ledger = Ledger()
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    def copy_from(self, other: Store) -> int:
        """Copy another store's content into this empty one; returns the number of entries."""
        with reading(other._engine) as source, self._writing() as connection:
            if self._ledger.entries:
                raise StaleError("There is a history in this database already; nothing was copied.")
            for table in (WATCHED, HISTORY):
                rows = source.execute(sa.select(table).order_by(*table.primary_key)).mappings().all()
                if rows:
                    connection.execute(table.insert(), [dict(row) for row in rows])
            self._catch_up(connection)
            return len(self._ledger.entries)

    def ledger(self) -> Ledger:
        """The current history. The returned ledger grows in place."""
        with self._lock, reading(self._engine) as connection:
            self._catch_up(connection)
            return self._ledger

    def append(self, changes: Sequence[Change], *, check: Check | None = None) -> None:
        """Write changes of different slots, all or none; `check` may raise after it has seen the history."""
        with self._writing(check) as connection:
            self._insert(connection, changes)

    def append_derived(self, make: Callable[[Ledger], Sequence[Change]]) -> bool:
        """Write the changes that `make` derives from the history, under the lock; returns whether there are any."""
        with self._writing() as connection:
            changes = make(self._ledger)
            self._insert(connection, changes)
            return bool(changes)

    def undo(self, subject: str, slot: str, who: str, *, check: Check | None = None) -> LedgerEntry:
        """Append an entry that undoes the newest judgement in a slot; only its author may."""
        with self._writing(check) as connection:
            number = self._ledger.last_number + 1
            entry = self._ledger.undo_entry(subject, slot, who, number=number, at=self.clock())
            connection.execute(HISTORY.insert(), [_row(entry)])
            return entry

    def watched(self, item: str, assignment: str, who: str) -> tuple[float, dict[str, Any]]:
        """The time of an annotator's last playback report for an assignment, and what they have played."""
        with reading(self._engine) as connection:
            return _read_watched(connection, item=item, assignment=assignment, who=who)

    def note_watched(
        self, item: str, assignment: str, who: str, change: Callable[[float, dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Update what an annotator has played: `change` gets the time of the last report and the old value."""
        # One transaction, because a page reports several clips at the same time.
        key = {"item": item, "assignment": assignment, "who": who}
        with self._lock, writing(self._engine) as connection:
            played = change(*_read_watched(connection, **key))
            connection.execute(WATCHED.delete().filter_by(**key))
            connection.execute(WATCHED.insert().values(key | {"at": self.clock(), "spans": json.dumps(played)}))
            return played

    def last_watched(self) -> dict[tuple[str, str, str], float]:
        """The time of the last report, by item, assignment and annotator."""
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

    def _insert(self, connection: sa.Connection, changes: Sequence[Change]) -> None:
        numbered, at = enumerate(changes, self._ledger.last_number + 1), self.clock()
        if rows := [_row(self._ledger.next_entry(change, number=number, at=at)) for number, change in numbered]:
            connection.execute(HISTORY.insert(), rows)

    def _catch_up(self, connection: sa.Connection) -> None:
        """Read the entries that any process has written since the last call."""
        query = sa.select(HISTORY).where(HISTORY.c.number > self._ledger.last_number).order_by(HISTORY.c.number)
        for row in connection.execute(query).mappings():
            try:
                values = {name: json.loads(value) if name in _JSON_COLUMNS else value for name, value in row.items()}
                self._ledger.add(LedgerEntry(**values | {"calls": tuple(values["calls"])}))
            except (ValueError, TypeError) as error:
                raise StoreError(f"The database is damaged: entry {row['number']} is not valid: {error}.") from None


def _read_watched(connection: sa.Connection, **key: str) -> tuple[float, dict[str, Any]]:
    row = connection.execute(sa.select(WATCHED.c.at, WATCHED.c.spans).filter_by(**key)).first()
    return (row.at, json.loads(row.spans)) if row is not None else (0.0, {})


_JSON_COLUMNS: Final = frozenset({"before", "after", "calls"})


def _row(entry: LedgerEntry) -> dict[str, Any]:
    row = {each.name: getattr(entry, each.name) for each in fields(entry)}
    return row | {name: json.dumps(row[name], allow_nan=False) for name in _JSON_COLUMNS}
