"""What every address of the desk needs: the build, who is signed in, and the CSRF check before a write."""

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from fastapi import Depends, Header, HTTPException, Request, Response

from trace_ves.construction.desk.audit_log import AuditLog
from trace_ves.construction.desk.sessions import Session, Sessions, SignInAttempts, SignInTokens, person_of
from trace_ves.construction.judging import Desk
from trace_ves.construction.looking import cut
from trace_ves.construction.people import Person
from trace_ves.construction.project import Project
from trace_ves.core import Interval
from trace_ves.web.footage import Footage
from trace_ves.web.guard import cookie_name

MOST_CLIPS: Final = 1000
KEPT_SECONDS: Final = 3600.0
"""A clip that somebody asked for within this time is never removed: they may be playing it."""
WORKERS: Final = 2
"""More would only take turns on the same cores, and slow down what people wait for."""


def _yield_to_requests() -> None:
    """Let this thread wait where others have something to do: nobody should wait for a click while a clip is cut."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class ClipCache:
    """Clips of the leave-one-out stage. Threads may share it; nobody holds a lock while a clip is cut."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._clips: OrderedDict[str, tuple[Future[Path], float]] = OrderedDict()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="cut", initializer=_yield_to_requests)

    def clip(self, video: Path, span: Interval) -> Future[Path]:
        """The file of one interval, which holds nothing of the video beyond it; cut where it is not there yet."""
        status = video.stat()
        identity = f"{video}\n{status.st_size}\n{status.st_mtime_ns}\n{span.start!r}\n{span.end!r}"
        key = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        with self._lock:
            known = self._clips.get(key)
            if known is None or (known[0].done() and (known[0].cancelled() or known[0].exception())):
                future = self._pool.submit(self._cut, video, span, self._scratch / f"{key}.mp4")
            else:
                future = known[0]
            self._clips[key] = future, time.monotonic()
            self._clips.move_to_end(key)
            self._remove_old()
            return future

    def prepare(self, video: Path, spans: Iterable[Interval]) -> None:
        """Begin to cut clips that somebody will ask for."""
        for span in spans:
            self.clip(video, span)

    def close(self) -> None:
        """Cut nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _cut(video: Path, span: Interval, path: Path) -> Path:
        path.write_bytes(cut(video, span))
        return path

    def _remove_old(self) -> None:
        while len(self._clips) > MOST_CLIPS:
            key, (future, asked) = next(iter(self._clips.items()))
            if not future.done() or time.monotonic() - asked < KEPT_SECONDS:
                return
            del self._clips[key]
            if not future.cancelled() and future.exception() is None:
                future.result().unlink(missing_ok=True)


MOST_ITEMS: Final = 50_000


class Served:
    """Items and clips by person, the newest ones. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, int | None], None] = OrderedDict()

    def add(self, who: str, item: str, part: int | None = None) -> None:
        """Note that a person got an item's video, or a clip of one of its intervals."""
        with self._lock:
            self._known[who, item, part] = None
            self._known.move_to_end((who, item, part))
            if len(self._known) > MOST_ITEMS:
                self._known.popitem(last=False)

    def has(self, who: str, item: str, part: int | None = None) -> bool:
        """Whether a person got it."""
        with self._lock:
            return (who, item, part) in self._known


SAME_SITE: Final = frozenset({"same-origin", "none"})
"""What browsers call requests that our own pages send, or a person by hand."""


@dataclass(frozen=True)
class DeskContext:
    """One served build, and what its server keeps in memory."""

    project: Project
    desk: Desk
    clips: ClipCache
    log: AuditLog
    cookie_base: str
    """Cookies do not tell ports apart, so that every build has names of its own."""
    is_secure: bool = False
    """Whether browsers come over TLS."""
    sessions: Sessions = field(default_factory=Sessions)
    sign_in_tokens: SignInTokens = field(default_factory=SignInTokens)
    attempts: SignInAttempts = field(default_factory=SignInAttempts)
    served: Served = field(default_factory=Served)
    footage: Footage = field(default_factory=Footage)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return cookie_name(self.cookie_base, secure=self.is_secure)

    @property
    def nonce_cookie(self) -> str:
        """The name of the cookie that ties the sign-in form to its browser."""
        return cookie_name(f"{self.cookie_base}_form", secure=self.is_secure)

    def session(self, request: Request) -> Session | None:
        """The session that a request belongs to."""
        return self.sessions.find(request.cookies.get(self.cookie, ""))

    def set_cookie(self, response: Response, name: str, value: str) -> None:
        """A cookie that scripts cannot read and other sites cannot send."""
        response.set_cookie(name, value, httponly=True, samesite="strict", secure=self.is_secure)


class SignInNeededError(Exception):
    """Nobody is signed in."""


async def context_of(request: Request) -> DeskContext:
    """The build that is served."""
    context: DeskContext = request.app.state.context
    return context


@dataclass(frozen=True, slots=True)
class SignedInRequest:
    """A request of somebody who is signed in."""

    context: DeskContext
    person: Person
    csrf: str


def signed_in_request(request: Request, context: Annotated[DeskContext, Depends(context_of)]) -> SignedInRequest:
    """Who asks; nobody gets further without being signed in."""
    session = context.session(request)
    found = person_of(session, context.desk.store.ledger())
    if session is None or found is None:
        raise SignInNeededError
    request.state.who = found.name
    return SignedInRequest(context, found, session.csrf)


Token = Annotated[str, Header(alias="X-CSRF-Token", max_length=256, description="The CSRF token of the page.")]


def checked_session(request: Request, context: Annotated[DeskContext, Depends(context_of)], token: Token) -> Session:
    """The session of a write that came from our own pages."""
    session = context.session(request)
    if session is None:
        raise SignInNeededError
    if not _is_own(request) or not session.allows(token):
        raise HTTPException(403, "This did not come from the desk's own page; load the page again.")
    return session


def checked_form(request: Request, context: Annotated[DeskContext, Depends(context_of)], token: Token) -> None:
    """Refuse a sign-in that did not come from the form that this browser was given."""
    nonce = request.cookies.get(context.nonce_cookie, "")
    if not _is_own(request) or not context.sign_in_tokens.allows(nonce, token):
        raise HTTPException(403, "This did not come from the desk's own page; load the page again.")


def _is_own(request: Request) -> bool:
    return request.headers.get("sec-fetch-site", "none") in SAME_SITE


def signed_in_write(
    _: Annotated[Session, Depends(checked_session)], caller: Annotated[SignedInRequest, Depends(signed_in_request)]
) -> SignedInRequest:
    """Who writes, from one of our own pages."""
    return caller


Context = Annotated[DeskContext, Depends(context_of)]
SignedIn = Annotated[SignedInRequest, Depends(signed_in_request)]
SignedInWrite = Annotated[SignedInRequest, Depends(signed_in_write)]
CheckedSession = Annotated[Session, Depends(checked_session)]
CheckedForm = Annotated[None, Depends(checked_form)]
