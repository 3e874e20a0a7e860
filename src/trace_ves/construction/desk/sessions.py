"""Sessions in the server's memory, each with a CSRF token, and the count of failed sign-ins."""

from __future__ import annotations

import hmac
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache, TLRUCache

from trace_ves.construction.people import Person, digest_secret, find_person, new_secret

if TYPE_CHECKING:
    from trace_ves.construction.ledger import Ledger

IDLE_SECONDS: Final = 2 * 3600.0
LONGEST_SECONDS: Final = 12 * 3600.0
WINDOW_SECONDS: Final = 300.0
# Failures within the window: from one address with the same first characters of the token, and from one address.
MOST_FAILURES: Final = {"token": 5, "address": 30}
MOST_KEYS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Session:
    """One signed-in browser."""

    csrf: str
    name: str
    token_sha256: str  # the digest of the token that signed in; a new token ends the session
    started: float  # seconds since 1970, UTC


class Sessions:
    """All sessions by the digest of their cookie. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: TLRUCache[str, Session] = TLRUCache(
            math.inf, lambda _, session, now: min(now + IDLE_SECONDS, session.started + LONGEST_SECONDS), timer=clock
        )

    def start(self, person: Person) -> str:
        """Start a session; returns its cookie."""
        cookie, csrf = new_secret(), new_secret()
        with self._lock:
            self._known[digest_secret(cookie)] = Session(csrf, person.name, person.token_sha256, self._clock())
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie. The lookup uses a digest, so that timing reveals nothing about the cookie."""
        key = digest_secret(cookie)
        with self._lock:
            session = self._known.get(key)
            if session is not None:
                self._known[key] = session  # restarts the idle time
            return session

    def end(self, cookie: str) -> None:
        """End a session."""
        with self._lock:
            self._known.pop(digest_secret(cookie), None)


def signed_in_person(session: Session | None, ledger: Ledger) -> Person | None:
    """The person of a session; None if their token has changed or they have signed out everywhere since."""
    person = find_person(ledger, session.name) if session is not None else None
    if session is None or person is None or not person.token_sha256 or person.signed_out_at >= session.started:
        return None
    return person if hmac.compare_digest(person.token_sha256, session.token_sha256) else None


class SignInAttempts:
    """Counts failed sign-ins. Only failures are slowed down, because a token of 192 bits cannot be guessed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: LRUCache[tuple[str, ...], deque[float]] = LRUCache(MOST_KEYS)

    def note_failure(self, address: str, token: str) -> float:
        """Count a failure; returns the seconds to wait before the next attempt, 0 after a few failures."""
        now, wait = self._clock(), 0.0
        with self._lock:
            for key in (("token", address, token[:4]), ("address", address)):
                failures = self._failures.setdefault(key, deque(maxlen=MOST_FAILURES[key[0]]))
                if len(failures) == failures.maxlen:
                    wait = max(wait, failures[0] + WINDOW_SECONDS - now)
                failures.append(now)
        return wait
