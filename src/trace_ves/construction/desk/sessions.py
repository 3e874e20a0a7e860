"""Who is signed in: sessions that live in the server's memory, each with a CSRF token of its own.

There is a session only for somebody who signed in. It ends when its person signs out here or everywhere, when their
token is renewed or revoked, after a time without use, after a working day, and when the server does.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.construction.people import person

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.people import Person

SESSIONS_PER_PERSON: Final = 8
"""Somebody who signs in once more ends the oldest of their own sessions, and nobody else's."""
IDLE_SECONDS: Final = 2 * 3600.0
LONGEST_SECONDS: Final = 12 * 3600.0
SECRET_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Session:
    """One browser in which somebody is signed in."""

    csrf: str
    name: str
    token_sha256: str
    """The digest of the token that signed in: another one today ends the session."""
    started: float
    """Seconds since 1970, UTC."""

    def allows(self, csrf: str) -> bool:
        """Whether a write carries this session's CSRF token."""
        return hmac.compare_digest(csrf.encode("utf-8", "surrogatepass"), self.csrf.encode())


class Sessions:
    """All sessions by the digest of their cookie. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._used: dict[str, float] = {}

    def start(self, person: Person) -> tuple[str, Session]:
        """A new session, and the cookie that stands for it."""
        cookie, csrf = secrets.token_urlsafe(SECRET_BYTES), secrets.token_urlsafe(SECRET_BYTES)
        session = Session(csrf, person.name, person.token_sha256, self._clock())
        with self._lock:
            own = [key for key, each in self._known.items() if each.name == person.name]
            for key in own[: max(0, len(own) - SESSIONS_PER_PERSON + 1)]:
                self._forget(key)
            self._known[_digest(cookie)] = session
            self._used[_digest(cookie)] = session.started
        return cookie, session

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie. Looked up by digest, so that no time tells how much of a guess was right."""
        key, now = _digest(cookie), self._clock()
        with self._lock:
            session = self._known.get(key)
            if session is None:
                return None
            if now - self._used[key] > IDLE_SECONDS or now - session.started > LONGEST_SECONDS:
                self._forget(key)
                return None
            self._used[key] = now
            return session

    def end(self, cookie: str) -> None:
        """Forget a session."""
        with self._lock:
            self._forget(_digest(cookie))

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)
        self._used.pop(key, None)


class SignInTokens:
    """CSRF tokens of the sign-in form. They are signed, not stored, so that asking for the form costs no memory."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def new_nonce(self) -> str:
        """A random value for a browser's cookie."""
        return secrets.token_urlsafe(SECRET_BYTES)

    def token(self, nonce: str) -> str:
        """The token that belongs to a browser's nonce."""
        return hmac.new(self._secret, nonce.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def allows(self, nonce: str, token: str) -> bool:
        """Whether a form was sent by the browser that got it."""
        return bool(nonce) and hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token(nonce).encode())


def person_of(session: Session | None, ledger: Ledger) -> Person | None:
    """Who is signed in, as long as their token is still the same and they have not signed out everywhere since."""
    if session is None:
        return None
    found = person(ledger, session.name)
    if found is None or not found.token_sha256 or found.signed_out_at >= session.started:
        return None
    return found if hmac.compare_digest(found.token_sha256, session.token_sha256) else None


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()


WINDOW_SECONDS: Final = 300.0
MOST_FAILURES: Final = {"pair": 5, "address": 30, "name": 60}
"""Failures within the window: of one person from one address, from one address, of one person from anywhere."""
MOST_KEYS: Final = 20_000


class SignInAttempts:
    """Counts failures. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, ...], deque[float]] = OrderedDict()

    def wait_seconds(self, address: str, name: str) -> float:
        """How long to wait before the next attempt; 0 where it may be made now."""
        now = self._clock()
        with self._lock:
            waits = [self._wait(key, now) for key in _keys(address, name)]
        return max(waits)

    def failed(self, address: str, name: str) -> None:
        """Note a failure."""
        now = self._clock()
        with self._lock:
            for key in _keys(address, name):
                self._failures.setdefault(key, deque(maxlen=max(MOST_FAILURES.values()))).append(now)
                self._failures.move_to_end(key)
            while len(self._failures) > MOST_KEYS:
                self._failures.popitem(last=False)

    def _wait(self, key: tuple[str, ...], now: float) -> float:
        failures = self._failures.get(key, deque())
        while failures and now - failures[0] > WINDOW_SECONDS:
            failures.popleft()
        most = MOST_FAILURES[key[0]]
        return WINDOW_SECONDS - (now - failures[-most]) if len(failures) >= most else 0.0


def _keys(address: str, name: str) -> tuple[tuple[str, ...], ...]:
    name = name.casefold()[:64]
    return ("pair", address, name), ("address", address), ("name", name)
