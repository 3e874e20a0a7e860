"""Turning on SQLite's write-ahead log where several processes open a new database at the same time."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

_PAUSE_SECONDS: Final = 0.01


def use_write_ahead_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Turn the log on, and wait up to so long for others that do the same: here SQLite's own timeout is not kept."""
    end = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
