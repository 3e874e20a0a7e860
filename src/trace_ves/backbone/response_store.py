"""Replies on disk: one SQLite file that many threads and processes read and write, bounded in size.

Knows keys and texts, nothing of requests. A text that is not as it was written is treated as missing. Trouble with the
file never stops a run: it is said once, and the run goes on without the store, with reading alone where the file cannot
be written, or with a new file where it was damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sqlite3
import threading
import time
import weakref
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from trace_ves.core.files import use_write_ahead_log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_BUSY_SECONDS: Final = 30.0
_TOUCH_AFTER_SECONDS: Final = 3600.0  # a hit is written down once an hour: most lookups stay reads
_EVICTED_SHARE: Final = 8
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS replies (id INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, value TEXT NOT NULL,
                                        used_at REAL NOT NULL, checksum BLOB);
    CREATE INDEX IF NOT EXISTS replies_by_use ON replies (used_at);
    CREATE TABLE IF NOT EXISTS leases (key BLOB PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL);
"""


class ResponseStore:
    """A mapping from keys to texts that forgets what was used longest ago. Safe under threads, processes and forks."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened_by: int | None = None
        self._opened_file: tuple[int, int] | None = None
        self._broken = False
        self._writable = True
        self._said_damaged = False
        self._checksum = "checksum"
        """The column that holds it; `NULL` for a file of version 0.1 that cannot be brought up to date."""

    def get(self, key: bytes) -> str | None:
        """The text under this key, or None; also where it is not as it was written."""
        return self._guarded(lambda connection: self._get(connection, key), None)

    def put(self, key: bytes, value: str) -> None:
        """Keep the text under this key; a text that is already there stays."""
        self._written(lambda connection: _put(connection, key, value, self._max_bytes), None)

    def lease(self, keys: Collection[bytes], owner: str, seconds: float) -> set[bytes]:
        """Note that somebody is about to ask for keys; gives those that nobody else is asking for."""
        return self._written(lambda connection: _lease(connection, keys, owner, seconds), set(keys))

    def renew_leases(self, owner: str, seconds: float) -> None:
        """Let all leases of an owner last so long from now on."""
        renewal = "UPDATE leases SET until = ? WHERE owner = ?"
        self._written(lambda connection: connection.execute(renewal, (time.time() + seconds, owner)), None)

    def end_leases(self, keys: Iterable[bytes], owner: str) -> None:
        """Let others ask for these keys."""
        rows = [(key, owner) for key in keys]
        ended = "DELETE FROM leases WHERE key = ? AND owner = ?"
        self._written(lambda connection: connection.executemany(ended, rows), None)

    def _written(self, write: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Write to the database; where it cannot be written, that is said once, and it is read from then on."""

        def attempt(connection: sqlite3.Connection) -> T:
            if self._writable:
                try:
                    return write(connection)
                except sqlite3.OperationalError as error:
                    self._stop_writing(error)
            return otherwise

        return self._guarded(attempt, otherwise)

    def __len__(self) -> int:
        return self._guarded(
            lambda connection: int(connection.execute("SELECT count(*) FROM replies").fetchone()[0]), 0
        )

    def _guarded(self, use: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Use the database; a damaged one is begun anew once, any other trouble ends the store for this run."""
        with self._lock:
            for _ in range(2):
                if self._broken:
                    break
                try:
                    return use(self._connect())
                except sqlite3.OperationalError as error:
                    self._give_up(error)
                except sqlite3.DatabaseError as error:
                    self._set_aside(error)
                except OSError as error:
                    self._give_up(error)
            return otherwise

    def _get(self, connection: sqlite3.Connection, key: bytes) -> str | None:
        query = f"SELECT CAST(value AS BLOB), used_at, {self._checksum} FROM replies WHERE key = ?"  # noqa: S608  a column
        row = connection.execute(query, (key,)).fetchone()
        if row is None:
            return None
        value, used_at, checksum = row
        if value is None or (self._checksum != "NULL" and checksum != _checksum(key, value)):
            self._forget_damaged(connection, key)
            return None
        now = time.time()
        stale = not isinstance(used_at, float) or abs(now - used_at) > _TOUCH_AFTER_SECONDS
        if self._writable and stale:
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("UPDATE replies SET used_at = ? WHERE key = ?", (now, key))
        return str(value, "utf-8", "replace")

    def _forget_damaged(self, connection: sqlite3.Connection, key: bytes) -> None:
        if not self._said_damaged:
            self._said_damaged = True
            _LOG.warning("The response cache %s holds damaged answers; they are asked again.", self._path)
        if self._writable:
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("DELETE FROM replies WHERE key = ?", (key,))

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and self._opened_by == os.getpid():
            return self._connection
        # A connection must not cross a fork: a child opens its own.
        try:
            connection = self._open_for_writing()
        except (sqlite3.OperationalError, OSError) as error:
            connection = self._open_for_reading(error)
        weakref.finalize(self, connection.close)
        self._connection = connection
        return connection

    def _open_for_writing(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _touch_private(self._path)
        self._opened_by, self._opened_file = os.getpid(), self._file()
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            use_write_ahead_log(connection, _BUSY_SECONDS)
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_SCHEMA)
            _add_checksums(connection)
        except BaseException:
            connection.close()
            raise
        self._checksum, self._writable = "checksum", True
        return connection

    def _open_for_reading(self, reason: Exception) -> sqlite3.Connection:
        """A connection to a file that cannot be written; raises `reason` where it cannot be read either."""
        for mode in ("mode=ro", "immutable=1"):  # the second where not even a lock can be written
            try:
                connection = sqlite3.connect(
                    f"file:{quote(str(self._path))}?{mode}", uri=True, isolation_level=None, check_same_thread=False
                )
                columns = {row[1] for row in connection.execute("PRAGMA table_info(replies)")}
                connection.execute("SELECT count(*) FROM replies").fetchone()
            except sqlite3.OperationalError:
                continue
            self._checksum = "checksum" if "checksum" in columns else "NULL"
            self._opened_by, self._opened_file = os.getpid(), self._file()
            self._stop_writing(reason)
            return connection
        raise reason

    def _file(self) -> tuple[int, int]:
        """Which file is at the path now, whatever its content."""
        status = self._path.stat()
        return status.st_dev, status.st_ino

    def _stop_writing(self, error: Exception) -> None:
        self._writable = False
        _LOG.warning(
            "The response cache %s cannot be written (%s); it is read, and new answers are not kept.", self._path, error
        )

    def _give_up(self, error: Exception) -> None:
        self._broken = True
        _LOG.warning("The response cache %s cannot be used (%s); going on without it.", self._path, error)

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, unless another process has done so already; one process at a time."""
        self._connection = None
        aside = f"{self._path.name}.damaged-{time.time_ns()}"
        try:
            _touch_private(self._path.with_name(f"{self._path.name}.lock"))
            with closing(sqlite3.connect(f"{self._path}.lock", timeout=_BUSY_SECONDS, isolation_level=None)) as lock:
                lock.execute("BEGIN EXCLUSIVE")
                if not self._path.exists() or self._file() != self._opened_file:
                    return
                for suffix in ("-wal", "-shm", ""):  # the database last: a new one must not find the old log
                    part = self._path.with_name(self._path.name + suffix)
                    if part.exists():
                        part.rename(part.with_name(aside + suffix))
        except (sqlite3.Error, OSError) as other:
            self._give_up(other)
            return
        _LOG.warning(
            "The response cache %s is damaged (%s); it was set aside as %s, and a new one is begun.",
            self._path,
            error,
            aside,
        )


def _touch_private(path: Path) -> None:
    """Make the file for its owner alone, where it is not there; SQLite's own files beside it follow its mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.sha256(key + b"\0" + value).digest()[:16]


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Bring a file of version 0.1 up to date: its answers are taken as they are, and checked from now on."""
    if any(row[1] == "checksum" for row in connection.execute("PRAGMA table_info(replies)")):
        return
    connection.create_function("reply_checksum", 2, _checksum, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not any(row[1] == "checksum" for row in connection.execute("PRAGMA table_info(replies)")):
            connection.execute("ALTER TABLE replies ADD COLUMN checksum BLOB")
            connection.execute("UPDATE replies SET checksum = reply_checksum(key, CAST(value AS BLOB))")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _lease(connection: sqlite3.Connection, keys: Collection[bytes], owner: str, seconds: float) -> set[bytes]:
    now = time.time()
    connection.execute("BEGIN IMMEDIATE")
    try:
        # A lease that lasts longer than any may was made before the clock was set back.
        connection.execute("DELETE FROM leases WHERE until <= ? OR until > ?", (now, now + 2 * seconds))
        connection.executemany(
            "INSERT OR IGNORE INTO leases (key, owner, until) VALUES (?, ?, ?)",
            [(key, owner, now + seconds) for key in keys],
        )
        mine = {row[0] for row in connection.execute("SELECT key FROM leases WHERE owner = ?", (owner,))}
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return mine.intersection(keys)


def _put(connection: sqlite3.Connection, key: bytes, value: str, max_bytes: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "INSERT OR IGNORE INTO replies (key, value, used_at, checksum) VALUES (?, ?, ?, ?)",
            (key, value, time.time(), _checksum(key, value.encode())),
        )
        while _used_bytes(connection) > max_bytes and _evict(connection):
            pass
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _used_bytes(connection: sqlite3.Connection) -> int:
    """What the file takes less what it would reuse before it grows."""
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _evict(connection: sqlite3.Connection) -> int:
    """Forget an eighth of the replies, those used longest ago; how many that were."""
    count = int(connection.execute("SELECT count(*) FROM replies").fetchone()[0])
    oldest = "SELECT id FROM replies ORDER BY used_at, id LIMIT ?"
    share = -(-count // _EVICTED_SHARE)
    return connection.execute(f"DELETE FROM replies WHERE id IN ({oldest})", (share,)).rowcount  # noqa: S608  no input
