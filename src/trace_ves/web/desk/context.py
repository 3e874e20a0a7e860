"""What every address of the desk needs: the build, who is signed in, and the CSRF check before a write."""

from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Depends, Header, HTTPException, Request, Response

from trace_ves.construction.judging import Desk
from trace_ves.construction.people import Person
from trace_ves.construction.project import Project
from trace_ves.web.desk.attempts import SignInAttempts
from trace_ves.web.desk.audit_log import AuditLog
from trace_ves.web.desk.clip_cache import ClipCache
from trace_ves.web.desk.served import Served
from trace_ves.web.desk.sessions import Session, Sessions, SignInTokens, person_of
from trace_ves.web.footage import Footage
from trace_ves.web.guard import cookie_name

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
