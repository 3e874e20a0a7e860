"""Dependencies of the desk's routes: the build, the signed-in person, and the CSRF check before a write."""

import threading
from dataclasses import dataclass, field
from typing import Annotated, Final

from cachetools import LRUCache
from fastapi import Depends, Header, Request, Response

from trace_ves.construction.desk.audit_log import AuditLog
from trace_ves.construction.desk.sessions import Sessions, SignInAttempts, signed_in_person
from trace_ves.construction.judging import Judgements
from trace_ves.construction.looking import ClipCache, join_spans
from trace_ves.construction.people import Person, Role
from trace_ves.construction.project import Project
from trace_ves.web.app import check_csrf
from trace_ves.web.footage import Footage

MOST_SERVED: Final = 50_000
STILLS: Final = "stills"


class ServedFootage:
    """What was sent to each person of each item; the oldest entries are dropped. Threads may share it.

    Byte ranges by part, which is the number of a clip or None for the whole video; for `STILLS`, spans in seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[str, str, int | str | None], list[list[float]]] = LRUCache(MOST_SERVED)

    def add(self, who: str, item: str, part: int | str | None, start: float, end: float) -> None:
        """Record that a range was sent."""
        with self._lock:
            self._known[who, item, part] = join_spans([*self._known.get((who, item, part), []), [start, end]])

    def sent(self, who: str, item: str, part: int | str | None) -> list[list[float]]:
        """The ranges sent so far."""
        with self._lock:
            return self._known.get((who, item, part), [])


@dataclass(frozen=True)
class DeskContext:
    """The served build and the state of its server."""

    project: Project
    judgements: Judgements
    clips: ClipCache
    log: AuditLog
    cookie: str  # the name of the session's cookie
    form_cookie: str  # the name of the cookie that ties the sign-in form to its browser
    is_secure: bool = False  # whether browsers connect over TLS
    sessions: Sessions = field(default_factory=Sessions)
    attempts: SignInAttempts = field(default_factory=SignInAttempts)
    served: ServedFootage = field(default_factory=ServedFootage)
    footage: Footage = field(default_factory=Footage)

    def set_cookie(self, response: Response, name: str, value: str) -> None:
        """Set a cookie that scripts cannot read and other sites cannot send."""
        response.set_cookie(name, value, httponly=True, samesite="strict", secure=self.is_secure)


class SignInNeededError(Exception):
    """The request has no valid session."""


async def context_of(request: Request) -> DeskContext:
    """The context of the application."""
    context: DeskContext = request.app.state.context
    return context


Context = Annotated[DeskContext, Depends(context_of)]
Token = Annotated[str, Header(alias="X-CSRF-Token", max_length=256, description="The CSRF token of the page.")]


@dataclass(frozen=True, slots=True)
class SignedInRequest:
    """A request from a signed-in annotator."""

    context: DeskContext
    person: Person
    csrf: str


def signed_in_request(request: Request, context: Context) -> SignedInRequest:
    """The signed-in person; a `SignInNeededError` if the request has no session."""
    session = context.sessions.find(request.cookies.get(context.cookie, ""))
    person = signed_in_person(session, context.judgements.store.ledger())
    if session is None or person is None:
        raise SignInNeededError
    request.state.who = person.name
    return SignedInRequest(context, person, session.csrf)


def check_form(request: Request, context: Context, token: Token) -> None:
    """Refuse a sign-in that did not come from the form of this browser."""
    check_csrf(request, token, request.cookies.get(context.form_cookie, ""))


SignedIn = Annotated[SignedInRequest, Depends(signed_in_request)]


def signed_in_write(request: Request, caller: SignedIn, token: Token) -> SignedInRequest:
    """A write; refused if it does not come from a page of the session."""
    check_csrf(request, token, caller.csrf)
    return caller


SignedInWrite = Annotated[SignedInRequest, Depends(signed_in_write)]


def operator_write(caller: SignedInWrite) -> SignedInRequest:
    """A write by an operator."""
    caller.person.require(Role.OPERATOR)
    return caller


OperatorWrite = Annotated[SignedInRequest, Depends(operator_write)]
CheckedForm = Annotated[None, Depends(check_form)]
