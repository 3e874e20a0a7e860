"""Sessions in the server's memory, each with a CSRF token, and the limit on failed sign-ins.

A session ends when its person signs out here or everywhere, when their token is renewed or revoked, after a time
without use, after a working day, and when the server stops.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache, TLRUCache

from trace_ves.construction.people import find_person

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.people import Person

SESSIONS_PER_PERSON: Final = 8
"""One more sign-in ends the oldest session of the same person."""
IDLE_SECONDS: Final = 2 * 3600.0
LONGEST_SECONDS: Final = 12 * 3600.0
SECRET_BYTES: Final = 24
WINDOW_SECONDS: Final = 300.0
MOST_FAILURES: Final = {"pair": 5, "address": 30, "name": 60}
"""Failures within the window: of one person from one address, from one address, of one person from anywhere."""
MOST_KEYS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Session:
    """One browser in which a person is signed in."""

    csrf: str
    name: str
    token_sha256: str
    """The digest of the token that signed in; a new token ends the session."""
    started: float
    """Seconds since 1970, UTC."""


class Sessions:
    """All sessions by the digest of their cookie. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: TLRUCache[str, Session] = TLRUCache(math.inf, _expiry, timer=clock)

    def start(self, person: Person) -> tuple[str, Session]:
        """Start a session; returns its cookie too."""
        cookie, csrf = secrets.token_urlsafe(SECRET_BYTES), secrets.token_urlsafe(SECRET_BYTES)
        session = Session(csrf, person.name, person.token_sha256, self._clock())
        with self._lock:
            own = [(each.started, key) for key, each in self._known.items() if each.name == person.name]
            for _, key in sorted(own)[: max(0, len(own) - SESSIONS_PER_PERSON + 1)]:
                del self._known[key]
            self._known[_digest(cookie)] = session
        return cookie, session

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie. Looked up by digest, so that timing reveals nothing about a guess."""
        key = _digest(cookie)
        with self._lock:
            session = self._known.get(key)
            if session is not None:
                self._known[key] = session  # starts the idle time anew
            return session

    def end(self, cookie: str) -> None:
        """Forget a session."""
        with self._lock:
            self._known.pop(_digest(cookie), None)


def _expiry(_key: str, session: Session, now: float) -> float:
    return min(now + IDLE_SECONDS, session.started + LONGEST_SECONDS)


def signed_in_person(session: Session | None, ledger: Ledger) -> Person | None:
    """The person of a session, unless their token changed or they have signed out everywhere since."""
    person = find_person(ledger, session.name) if session is not None else None
    if session is None or person is None or not person.token_sha256 or person.signed_out_at >= session.started:
        return None
    return person if hmac.compare_digest(person.token_sha256, session.token_sha256) else None


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()


class SignInAttempts:
    """Counts failed sign-ins. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: LRUCache[tuple[str, ...], deque[float]] = LRUCache(MOST_KEYS)

    def wait_seconds(self, address: str, name: str) -> float:
        """How long to wait before the next attempt; 0 if it may be made now."""
        with self._lock:
            return max(self._wait(key) for key in _keys(address, name))

    def note_failure(self, address: str, name: str) -> None:
        """Count a failure."""
        with self._lock:
            for key in _keys(address, name):
                failures = self._failures.setdefault(key, deque(maxlen=MOST_FAILURES[key[0]]))
                failures.append(self._clock())

    def _wait(self, key: tuple[str, ...]) -> float:
        failures = self._failures.get(key, deque())
        if len(failures) < MOST_FAILURES[key[0]]:
            return 0.0
        return max(0.0, failures[0] + WINDOW_SECONDS - self._clock())


def _keys(address: str, name: str) -> tuple[tuple[str, ...], ...]:
    name = name.casefold()[:64]
    return ("pair", address, name), ("address", address), ("name", name)
