"""Who is signed in: sessions that live in the server's memory, each with a CSRF token of its own.

A session ends when its person signs out, when their token is renewed, and when the server does.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.construction.people import person

if TYPE_CHECKING:
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.people import Person

MOST_SESSIONS: Final = 4096
SECRET_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Session:
    """One browser; nobody is signed in where the name is empty."""

    csrf: str
    name: str = ""
    token_sha256: str = ""
    """The digest of the token that signed in: another one today ends the session."""

    def allows(self, csrf: str) -> bool:
        """Whether a write carries this session's CSRF token."""
        return hmac.compare_digest(csrf.encode("utf-8", "surrogatepass"), self.csrf.encode())


class Sessions:
    """All sessions by the digest of their cookie. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Session] = OrderedDict()

    def start(self, person: Person | None = None) -> tuple[str, Session]:
        """A new session, and the cookie that stands for it; the oldest one ends where there are too many."""
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        csrf = secrets.token_urlsafe(SECRET_BYTES)
        session = Session(csrf, person.name, person.token_sha256) if person else Session(csrf)
        with self._lock:
            self._known[_digest(cookie)] = session
            if len(self._known) > MOST_SESSIONS:
                self._known.popitem(last=False)
        return cookie, session

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie. Looked up by digest, so that no time tells how much of a guess was right."""
        with self._lock:
            return self._known.get(_digest(cookie))

    def end(self, cookie: str) -> None:
        """Forget a session."""
        with self._lock:
            self._known.pop(_digest(cookie), None)


def person_of(session: Session | None, ledger: Ledger) -> Person | None:
    """Who is signed in, as long as the token that signed in is still theirs."""
    if session is None or not session.name:
        return None
    found = person(ledger, session.name)
    valid = found is not None and hmac.compare_digest(found.token_sha256, session.token_sha256)
    return found if valid else None


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()
