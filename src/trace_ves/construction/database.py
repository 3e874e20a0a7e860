"""The tables of a build and how a database is opened: SQLite in WAL mode, or PostgreSQL by URL.

Both let one writer in at a time, so that entries become visible in the order of their numbers.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from trace_ves.construction.ledger import StaleError
from trace_ves.core import InputError, MissingExtraError
from trace_ves.core.sqlite_log import use_write_ahead_log

if TYPE_CHECKING:
    from collections.abc import Iterator

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
