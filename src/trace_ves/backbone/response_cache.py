"""The response cache: a wrapper around a backbone that sends only requests that it has no answer for."""

import hashlib
import json
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from trace_ves.backbone.protocol import CacheableBackbone, Generation, ModelFault, R, Request
from trace_ves.backbone.provider import ImagePart, request_parts
from trace_ves.backbone.remote import collect
from trace_ves.core import BackboneError
from trace_ves.core.files import cache_dir, use_write_ahead_log

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_KEY_FORMAT: Final = "trace-ves reply 1"
_BUSY_SECONDS: Final = 30.0
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS replies (id INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, value TEXT NOT NULL,
                                        used_at REAL NOT NULL, checksum BLOB)
"""


def default_path() -> Path:
    """The file with the replies of all paid backbones."""
    return cache_dir() / "replies.sqlite"


class ResponseStore:
    """A mapping from keys to texts in a SQLite file, shared by threads and processes.

    A damaged file is renamed and replaced. If the file cannot be used, nothing is cached. Both are logged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._usable = True
        self._writable = True

    def get(self, key: bytes) -> str | None:
        """The text under this key; None if there is none or it is damaged."""
        query = "SELECT CAST(value AS BLOB), checksum FROM replies WHERE key = ?"
        value, checksum = self._use(lambda connection: connection.execute(query, (key,)).fetchone()) or (None, None)
        if value is None or checksum not in (None, _checksum(key, value)):  # files of version 0.1 have no checksums
            return None
        return str(value, "utf-8", "replace")

    def put(self, key: bytes, value: str) -> None:
        """Store the text under this key."""
        if not self._writable:
            return
        row = (key, value, time.time(), _checksum(key, value.encode()))
        insert = "INSERT OR REPLACE INTO replies (key, value, used_at, checksum) VALUES (?, ?, ?, ?)"

        def write(connection: sqlite3.Connection) -> None:
            try:
                connection.execute(insert, row)
            except sqlite3.OperationalError as error:  # a full disk, for example: what is stored can still be read
                self._writable = False
                _LOG.warning(
                    "The response cache %s cannot be written (%s); new answers are not cached.", self._path, error
                )

        self._use(write)

    def _use(self, use: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call a function with the connection; None if the file cannot be used."""
        with self._lock:
            for _ in range(2):  # the second time with a new file
                if not self._usable:
                    break
                try:
                    if self._connection is None:
                        self._connection = self._open()
                    return use(self._connection)
                except (sqlite3.OperationalError, OSError) as error:
                    self._give_up(error)
                except sqlite3.DatabaseError as error:
                    self._set_aside(error)
            return None

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))  # only its owner can read it
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, connection.close)
        try:
            use_write_ahead_log(connection, _BUSY_SECONDS)
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_SCHEMA)
            with suppress(sqlite3.OperationalError):  # files newer than version 0.1 have the column
                connection.execute("ALTER TABLE replies ADD COLUMN checksum BLOB")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _give_up(self, error: Exception) -> None:
        self._usable = False
        _LOG.warning("The response cache %s cannot be used (%s); continuing without it.", self._path, error)

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, so that a new one is created."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()  # first: SQLite removes its log by name, which would be that of the new file
            self._connection = None
        aside = f"{self._path.name}.damaged-{time.time_ns()}"
        try:
            for suffix in ("-wal", "-shm", ""):  # the database last: a new one must not find the old log
                part = self._path.with_name(self._path.name + suffix)
                if part.exists():
                    part.rename(part.with_name(aside + suffix))
        except OSError as failure:
            self._give_up(failure)
            return
        _LOG.warning(
            "The response cache %s is damaged (%s); it was renamed to %s, and a new one was started.",
            self._path,
            error,
            aside,
        )


def _certain_reply(outcome: Generation[Any] | BackboneError) -> BaseModel | None:
    """The reply to store; None for a failure, a fault or a doubtful reply, which the next run should ask for again."""
    if isinstance(outcome, BackboneError) or isinstance(outcome.reply, ModelFault):
        return None
    is_doubtful = outcome.suspect or outcome.sends > 1 or (outcome.texts and outcome.texts[-1].problem)
    return None if is_doubtful else outcome.reply


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.sha256(key + b"\0" + value).digest()[:16]


class CachedBackbone:
    """Sends the inner backbone only what is not in the cache. A hit reports no tokens, because it costs none."""

    def __init__(self, inner: CacheableBackbone, path: Path) -> None:
        self._inner = inner
        self._store = ResponseStore(path)
        self.name: Final = inner.name
        self.longest_side_px: Final[int | None] = getattr(inner, "longest_side_px", None)

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request of the batch, from the cache where possible."""
        return collect(len(batch), self._answer(batch))

    def _answer(self, batch: Sequence[Request[R]]) -> Iterator[tuple[int, Generation[R] | BackboneError]]:
        started = time.monotonic()
        keys = [self.key(request) for request in batch]
        missing = []
        for place, request in enumerate(batch):
            reply = self._look_up(keys[place], request)
            if reply is None:
                missing.append(place)
            else:
                yield place, Generation(reply, seconds=time.monotonic() - started)
        if not missing:
            return
        for number, outcome in self._inner.generate_as_completed([batch[place] for place in missing]):
            place = missing[number]
            if (certain := _certain_reply(outcome)) is not None:
                self._store.put(keys[place], certain.model_dump_json())
            yield place, outcome

    def _look_up(self, key: bytes, request: Request[R]) -> R | None:
        with suppress(ValidationError):  # validators that are not part of the schema may have changed
            if (text := self._store.get(key)) is not None:
                return request.reply.model_validate_json(text)
        return None

    def key(self, request: Request[Any]) -> bytes:
        """The key of an answer: a digest of everything that affects it."""
        parts = [  # a frame is a list, so that no text equals it
            [hashlib.sha256(part.jpeg).hexdigest()] if isinstance(part, ImagePart) else part.text
            for part in request_parts(request)
        ]
        content = {
            "format": _KEY_FORMAT,
            "backbone": self.name,
            "settings": dict(self._inner.answer_settings),
            "stage": request.stage,
            "parts": parts,
            "seconds": [frame.seconds for clip in request.clips for frame in clip.frames],
            "schema": request.reply.model_json_schema(),
            "sample": request.sample,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).digest()
