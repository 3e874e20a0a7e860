"""The write-ahead log is turned on beside somebody who writes, and not for ever."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from trace_ves.core.files import use_write_ahead_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody who has begun to write to a new file: SQLite lets nobody else turn the log on, and does not wait."""
    with closing(connect(tmp_path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE notes (text)")
        yield connection


def connect(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "new.sqlite", timeout=30, isolation_level=None, check_same_thread=False)


def test_one_that_writes_is_waited_for(tmp_path: Path, writer: sqlite3.Connection) -> None:
    threading.Timer(0.1, lambda: writer.execute("COMMIT")).start()
    with closing(connect(tmp_path)) as connection:
        use_write_ahead_log(connection, 30)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_waiting_ends(tmp_path: Path, writer: sqlite3.Connection) -> None:
    with closing(connect(tmp_path)) as connection, pytest.raises(sqlite3.OperationalError, match="locked"):
        use_write_ahead_log(connection, 0.1)
    assert writer.in_transaction
