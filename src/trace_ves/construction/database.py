"""The tables of a build and how a database is opened: SQLite in WAL mode, or PostgreSQL by URL.

Both let one writer in at a time, so that entries become visible in the order of their numbers.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from trace_ves.construction.ledger import StaleError
from trace_ves.core import InputError, MissingExtraError

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
"""Who judges what: holds the constraints that no race can pass. The history tells the same."""

_FORBIDDEN: Final = "the history is append-only"

_APPEND_ONLY: Final = tuple(
    f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb} ON {table}"
    f" BEGIN SELECT RAISE(ABORT, '{_FORBIDDEN}'); END"
    for table in ("history", "seats")
    for verb in ("update", "delete")
)
_APPEND_ONLY_POSTGRESQL: Final = (
    "CREATE OR REPLACE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION '{_FORBIDDEN}'; END $$",
    *(
        f"CREATE OR REPLACE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION append_only()"
        for table in ("history", "seats")
    ),
)


class StoreError(InputError):
    """The database is missing, busy, or not a database."""


def open_engine(url: str) -> sa.Engine:
    """A database with the tables in it. A URL may hold no password: it would stand in files and messages."""
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
            engine = sa.create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        else:
            engine = sa.create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
            sa.event.listen(engine, "connect", _prepare_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingExtraError(f"A store on {kind}", "build") from None
    with writing(engine) as connection:
        METADATA.create_all(connection)
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


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={1000 * BUSY_SECONDS}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
