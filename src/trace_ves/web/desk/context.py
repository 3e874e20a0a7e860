"""What every address of the desk needs: the build, who is signed in, and the CSRF check before a write."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Header, HTTPException, Request

from trace_ves.construction.judging import Desk
from trace_ves.construction.people import Person
from trace_ves.construction.project import Project
from trace_ves.web.desk.clip_shelf import ClipShelf
from trace_ves.web.desk.sessions import Session, Sessions, person_of
from trace_ves.web.footage import Footage

SAME_SITE: Final = frozenset({"same-origin", "none"})
"""What browsers call requests that our own pages send, or a person by hand."""


@dataclass(frozen=True, slots=True)
class Room:
    """One served build."""

    project: Project
    desk: Desk
    sessions: Sessions
    footage: Footage
    clips: ClipShelf
    cookie: str
    """The name of the session's cookie; cookies do not tell ports apart, so that every build has its own."""

    def session(self, request: Request) -> Session | None:
        """The session that a request belongs to."""
        return self.sessions.find(request.cookies.get(self.cookie, ""))


class SignInNeededError(Exception):
    """Nobody is signed in."""


def room_of(request: Request) -> Room:
    """The build that is served."""
    room: Room = request.app.state.room
    return room


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who is signed in."""

    room: Room
    person: Person
    csrf: str


def visit(request: Request, room: Annotated[Room, Depends(room_of)]) -> Visit:
    """Who asks; nobody gets further without being signed in."""
    session = room.session(request)
    found = person_of(session, room.desk.store.ledger())
    if session is None or found is None:
        raise SignInNeededError
    return Visit(room, found, session.csrf)


Token = Annotated[str, Header(alias="X-CSRF-Token", max_length=256, description="The CSRF token of the session.")]


def checked_session(request: Request, room: Annotated[Room, Depends(room_of)], token: Token) -> Session:
    """The session of a write that came from our own pages."""
    session = room.session(request)
    site = request.headers.get("sec-fetch-site", "none")
    if session is None:
        raise SignInNeededError
    if site not in SAME_SITE or not session.allows(token):
        raise HTTPException(403, "This did not come from the desk's own page; load the page again.")
    return session


def write(_: Annotated[Session, Depends(checked_session)], visited: Annotated[Visit, Depends(visit)]) -> Visit:
    """Who writes, from one of our own pages."""
    return visited


Here = Annotated[Room, Depends(room_of)]
Visiting = Annotated[Visit, Depends(visit)]
Writing = Annotated[Visit, Depends(write)]
Checked = Annotated[Session, Depends(checked_session)]
