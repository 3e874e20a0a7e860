"""What every address of the desk needs: the build, who is signed in, and the CSRF check before a write."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Header, HTTPException, Request

from trace_ves.construction.judging import Desk
from trace_ves.construction.people import Person
from trace_ves.construction.project import Project
from trace_ves.web.desk.clip_cache import ClipCache
from trace_ves.web.desk.sessions import Session, Sessions, person_of
from trace_ves.web.footage import Footage

SAME_SITE: Final = frozenset({"same-origin", "none"})
"""What browsers call requests that our own pages send, or a person by hand."""


@dataclass(frozen=True, slots=True)
class DeskContext:
    """One served build."""

    project: Project
    desk: Desk
    sessions: Sessions
    footage: Footage
    clips: ClipCache
    cookie: str
    """The name of the session's cookie; cookies do not tell ports apart, so that every build has its own."""

    def session(self, request: Request) -> Session | None:
        """The session that a request belongs to."""
        return self.sessions.find(request.cookies.get(self.cookie, ""))


class SignInNeededError(Exception):
    """Nobody is signed in."""


def context_of(request: Request) -> DeskContext:
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
    return SignedInRequest(context, found, session.csrf)


Token = Annotated[str, Header(alias="X-CSRF-Token", max_length=256, description="The CSRF token of the session.")]


def checked_session(request: Request, context: Annotated[DeskContext, Depends(context_of)], token: Token) -> Session:
    """The session of a write that came from our own pages."""
    session = context.session(request)
    site = request.headers.get("sec-fetch-site", "none")
    if session is None:
        raise SignInNeededError
    if site not in SAME_SITE or not session.allows(token):
        raise HTTPException(403, "This did not come from the desk's own page; load the page again.")
    return session


def signed_in_write(
    _: Annotated[Session, Depends(checked_session)], caller: Annotated[SignedInRequest, Depends(signed_in_request)]
) -> SignedInRequest:
    """Who writes, from one of our own pages."""
    return caller


Context = Annotated[DeskContext, Depends(context_of)]
SignedIn = Annotated[SignedInRequest, Depends(signed_in_request)]
SignedInWrite = Annotated[SignedInRequest, Depends(signed_in_write)]
CheckedSession = Annotated[Session, Depends(checked_session)]
