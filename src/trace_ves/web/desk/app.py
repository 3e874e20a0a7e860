"""The desk's application: routes, access checks, error responses. Needs the extras `web` and `build`."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.types import ASGIApp

from trace_ves._version import __version__
from trace_ves.construction.database import StoreError
from trace_ves.construction.item_index import ItemIndex
from trace_ves.construction.judging import Desk, JudgementError, RefusedError
from trace_ves.construction.ledger import StaleError
from trace_ves.construction.people import signed_in
from trace_ves.construction.project import Project
from trace_ves.construction.store import Store
from trace_ves.web.app import add_shared_handlers, error_response
from trace_ves.web.desk import media, pages
from trace_ves.web.desk.bodies import AnswerBody, Done, Problem, SettlementBody, SignIn, UndoBody, VerificationBody
from trace_ves.web.desk.clip_cache import ClipCache
from trace_ves.web.desk.context import CheckedSession, Context, DeskContext, SignedIn, SignedInWrite, SignInNeededError
from trace_ves.web.desk.limits import BodyLimit
from trace_ves.web.desk.sessions import Sessions
from trace_ves.web.footage import CONTENT_TYPES, Footage
from trace_ves.web.guard import Guard

STATUS_OF: Final[dict[type[Exception], int]] = {
    StaleError: 409,
    RefusedError: 403,
    JudgementError: 422,
    StoreError: 503,
}
"""What each refusal is on the wire."""

WRONG: Final = {
    400: "The body is not JSON.",
    401: "Nobody is signed in.",
    403: "Not allowed for this person, or not sent by the desk's own page.",
    404: "There is no such thing.",
    409: "Somebody changed it since it was shown.",
    413: "The body is too large.",
    415: "This kind of file is not sent as it is.",
    416: "The range lies outside of the file.",
    422: "A value is not valid.",
    501: "A part is not installed.",
    503: "The database is not available.",
}
"""What each refusal means, for the OpenAPI description."""


def create_desk(
    project: Project, store: Store, *, scratch: Path, hosts: Collection[str] | None, token: str | None = None
) -> ASGIApp:
    """The application over a build, with a folder for cut clips.

    `hosts` None lets any name call it, and then a token is needed.
    """
    app = FastAPI(
        title="trace-ves desk",
        version=__version__,
        description="Where annotators judge the items of a bench that is being built.",
        docs_url=None,
        redoc_url=None,
    )
    cookie = f"trace_ves_desk_{hashlib.sha256(str(project.folder.resolve()).encode()).hexdigest()[:8]}"
    app.state.context = DeskContext(
        project, Desk(store, ItemIndex()), Sessions(), Footage(), ClipCache(scratch), cookie
    )
    add_shared_handlers(app, home="Desk")
    app.add_exception_handler(SignInNeededError, _on_nobody)
    for kind in STATUS_OF:
        app.add_exception_handler(kind, _on_refusal)
    for path, answer, kinds in _PAGES:
        shape = HTMLResponse if kinds == ("text/html",) else Response
        app.add_api_route(path, answer, response_class=shape, responses=_described(kinds))
    for path, write in _WRITES:
        app.add_api_route(path, write, methods=["POST"], response_model=Done, responses=_described())
    return Guard(BodyLimit(app), hosts=hosts, token=token)


def sign_in(request: Request, context: Context) -> Response:
    """The page where one signs in; it starts the session that its CSRF token belongs to."""
    session = context.session(request)
    cookie = None
    if session is None:
        cookie, session = context.sessions.start()
    response = HTMLResponse(pages.sign_in_page(session))
    if cookie is not None:
        _set_cookie(response, context, cookie)
    return response


def home(caller: SignedIn) -> str:
    """One's queue, or the disagreements that wait."""
    return pages.home_page(caller)


def task(caller: SignedIn) -> Response:
    """The task that one has open."""
    found = caller.context.desk.assignment(caller.person)
    return RedirectResponse("/", 303) if found is None else HTMLResponse(pages.task_page(caller, found))


def dispute(caller: SignedIn, id: media.Id) -> Response:  # noqa: A002  the name in the address
    """A disagreement side by side, for an adjudicator."""
    caller.context.desk.need_adjudicator(caller.person)
    found = pages.dispute_page(caller, id)
    return RedirectResponse("/", 303) if found is None else HTMLResponse(found)


def status(caller: SignedIn) -> str:
    """How far the build is."""
    return pages.status_page(caller)


def post_sign_in(request: Request, response: Response, context: Context, _: CheckedSession, body: SignIn) -> Done:
    """Sign in; the session before it ends, so that nobody can have planted it."""
    found = signed_in(context.desk.store.ledger(), body.name, body.token)
    if found is None:
        raise HTTPException(401, "This name and token do not belong together; ask for a new token.")
    context.sessions.end(request.cookies.get(context.cookie, ""))
    cookie, _session = context.sessions.start(found)
    _set_cookie(response, context, cookie)
    return Done(go="/")


def post_sign_out(request: Request, response: Response, context: Context, _: CheckedSession) -> Done:
    """Sign out; the cookie is worth nothing afterwards."""
    context.sessions.end(request.cookies.get(context.cookie, ""))
    response.delete_cookie(context.cookie)
    return Done(go="/sign-in")


def post_next(caller: SignedInWrite) -> Done:
    """Take the next task, where one waits."""
    return Done(go="/" if caller.context.desk.next_assignment(caller.person) is None else "/task")


def post_verification(caller: SignedInWrite, body: VerificationBody) -> Done:
    """Stage 2: accept an item with its intervals, or reject it with a reason."""
    caller.context.desk.verify(
        caller.person,
        body.item,
        evidence=body.evidence,
        reason=body.reason,
        revision=body.revision,
        seconds=body.seconds,
    )
    return post_next(caller)


def post_answer(caller: SignedInWrite, body: AnswerBody) -> Done:
    """Stage 3: answer from a partial evidence set."""
    caller.context.desk.answer_without(
        caller.person, body.item, body.left_out, answer=body.answer, revision=body.revision, seconds=body.seconds
    )
    return post_next(caller)


def post_settlement(caller: SignedInWrite, body: SettlementBody) -> Done:
    """Stage 5: settle a disagreement."""
    caller.context.desk.settle(
        caller.person,
        body.item,
        keep=body.keep,
        evidence=body.evidence,
        reason=body.reason,
        about=body.about,
        seconds=body.seconds,
    )
    return Done(go="/")


def post_undo(caller: SignedInWrite, body: UndoBody) -> Done:
    """Take back one's newest judgement of an item."""
    caller.context.desk.undo(caller.person, body.item)
    return Done(go="/")


_FILMS: Final = tuple(dict.fromkeys(CONTENT_TYPES.values()))
_PAGES: Final = (
    ("/", home, ("text/html",)),
    ("/sign-in", sign_in, ("text/html",)),
    ("/task", task, ("text/html",)),
    ("/dispute", dispute, ("text/html",)),
    ("/status", status, ("text/html",)),
    ("/video", media.video, _FILMS),
    ("/times", media.times, ("application/octet-stream",)),
    ("/frame", media.frame, ("image/jpeg",)),
    ("/clip", media.clip, ("video/mp4",)),
)
"""Addresses that are read, and the kinds of content that they give."""
_WRITES: Final = (
    ("/api/sign-in", post_sign_in),
    ("/api/sign-out", post_sign_out),
    ("/api/next", post_next),
    ("/api/verification", post_verification),
    ("/api/answer", post_answer),
    ("/api/settlement", post_settlement),
    ("/api/undo", post_undo),
)


def _described(kinds: tuple[str, ...] = ()) -> dict[int | str, dict[str, Any]]:
    """The responses of an address: what it gives, where it leads, and every refusal as JSON."""
    wrong: dict[int | str, dict[str, Any]] = {
        status: {
            "description": words,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}, "text/html": {}},
        }
        for status, words in WRONG.items()
    }
    if not kinds:
        return wrong | {422: {"description": WRONG[422], "model": Problem}}
    given: dict[str, Any] = {"content": {kind: {} for kind in kinds}}
    found = {200: {"description": "What was asked for."} | given, 206: {"description": "The range asked for."} | given}
    return wrong | found | {303: {"description": "There is nothing here now; go on there."}}


def _set_cookie(response: Response, context: DeskContext, cookie: str) -> None:
    response.set_cookie(context.cookie, cookie, httponly=True, samesite="strict")


def _on_nobody(request: Request, _: Exception) -> Response:
    """Send a page to the sign-in form; refuse anything else."""
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/sign-in", 303)
    return JSONResponse({"detail": "Nobody is signed in here; sign in first."}, status_code=401)


def _on_refusal(request: Request, error: Exception) -> Response:
    """A rule of the desk refused the request."""
    return error_response(request, next(STATUS_OF[kind] for kind in STATUS_OF if isinstance(error, kind)), str(error))
