"""Replies on disk: one SQLite file that many threads and processes read and write, bounded in size.

Knows keys and bytes, nothing of requests. Trouble with the file never stops a run: it is said once, and the run goes on
without the store, or with a new one where the file was damaged.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_BUSY_SECONDS: Final = 30.0
_TOUCH_AFTER_SECONDS: Final = 3600.0  # a hit is written down once an hour: most lookups stay reads
_EVICTED_SHARE: Final = 8
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS replies (id INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, value TEXT NOT NULL,
                                        used_at REAL NOT NULL);
    CREATE INDEX IF NOT EXISTS replies_by_use ON replies (used_at);
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

    def get(self, key: bytes) -> str | None:
        """The text under this key, or None."""
        return self._guarded(lambda connection: _get(connection, key), None)

    def put(self, key: bytes, value: str) -> None:
        """Keep the text under this key; a text that is already there stays."""
        self._guarded(lambda connection: _put(connection, key, value, self._max_bytes), None)

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

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and self._opened_by == os.getpid():
            return self._connection
        # A connection must not cross a fork: a child opens its own.
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()
        self._opened_by, self._opened_file = os.getpid(), self._file()
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, connection.close)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(_SCHEMA)
        self._connection = connection
        return connection

    def _file(self) -> tuple[int, int]:
        """Which file is at the path now, whatever its content."""
        status = self._path.stat()
        return status.st_dev, status.st_ino

    def _give_up(self, error: Exception) -> None:
        self._broken = True
        _LOG.warning("The response cache %s cannot be used (%s); going on without it.", self._path, error)

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, unless another process has done so already; one process at a time."""
        self._connection = None
        aside = f"{self._path.name}.damaged-{time.time_ns()}"
        try:
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


def _get(connection: sqlite3.Connection, key: bytes) -> str | None:
    row = connection.execute("SELECT value, used_at FROM replies WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    value, used_at = row
    now = time.time()
    if abs(now - used_at) > _TOUCH_AFTER_SECONDS:
        connection.execute("UPDATE replies SET used_at = ? WHERE key = ?", (now, key))
    return value if isinstance(value, str) else None


def _put(connection: sqlite3.Connection, key: bytes, value: str, max_bytes: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "INSERT OR IGNORE INTO replies (key, value, used_at) VALUES (?, ?, ?)", (key, value, time.time())
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
