"""The desk's application: routes, access checks, error responses. Needs the extras `web` and `build`."""

import hashlib
import math
from collections.abc import Collection
from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp

from trace_ves._version import __version__
from trace_ves.construction.desk import bodies, media, pages
from trace_ves.construction.desk.audit_log import AUDIT_FILE, LOGGER, AuditLog, AuditMiddleware
from trace_ves.construction.desk.context import (
    CheckedForm,
    Context,
    DeskContext,
    OperatorWrite,
    SignedInWrite,
    SignInNeededError,
)
from trace_ves.construction.judged_item import list_all_items
from trace_ves.construction.judging import JudgementError, Judgements, Verdict
from trace_ves.construction.ledger import StaleError
from trace_ves.construction.looking import ClipCache
from trace_ves.construction.people import RefusedError, Role, authenticate, invite, revoke, sign_out_everywhere
from trace_ves.construction.project import Project
from trace_ves.construction.store import Store, StoreError
from trace_ves.core import InputError
from trace_ves.web.app import add_shared_handlers, error_response
from trace_ves.web.guard import Guard, cookie_name

REFUSALS: Final[dict[type[Exception], int]] = {StaleError: 409, RefusedError: 403, JudgementError: 422, StoreError: 503}

writes_router = APIRouter(prefix="/api")


def create_desk(
    project: Project,
    store: Store,
    *,
    scratch: Path,
    hosts: Collection[str] | None,
    token: str | None = None,
    secure: bool = False,
) -> ASGIApp:
    """Create the desk of a build. `hosts` are the accepted host names; None accepts any, and requires a token."""
    app = FastAPI(
        title="trace-ves desk",
        version=__version__,
        description="Where annotators judge the items of a bench that is being built.",
        docs_url=None,
        redoc_url=None,
        responses={422: {"model": bodies.Problem, "description": "A value is not valid."}},
    )
    # Cookies do not distinguish ports, so each build has its own cookie names.
    cookie = f"trace_ves_desk_{hashlib.sha256(str(project.folder.resolve()).encode()).hexdigest()[:8]}"
    session_cookie, form_cookie = (cookie_name(name, secure=secure) for name in (cookie, f"{cookie}_form"))
    judgements = Judgements(store, project.settings)
    log = AuditLog(project.folder / AUDIT_FILE)
    app.state.context = DeskContext(
        project, judgements, ClipCache(scratch), log, session_cookie, form_cookie, is_secure=secure
    )
    media.prepare_items(app.state.context, list_all_items(store.ledger()))
    add_shared_handlers(app, home="Desk")
    app.add_exception_handler(SignInNeededError, _on_no_session)
    for kind in REFUSALS:
        app.add_exception_handler(kind, _on_refusal)
    for router in (pages.router, media.router, writes_router):
        app.include_router(router)
    return AuditMiddleware(Guard(app, hosts=hosts, token=token, secure=secure), log)


def _on_no_session(request: Request, _: Exception) -> Response:
    """Redirect a page request to the sign-in form; refuse any other request."""
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/sign-in", 303)
    return JSONResponse({"detail": "Not signed in; sign in first."}, status_code=401)


def _on_refusal(request: Request, error: Exception) -> Response:
    """Respond to a refusal with its status and message."""
    status = next(status for kind, status in REFUSALS.items() if isinstance(error, kind))
    sentence = str(error)
    if isinstance(error, StoreError):  # its message may contain host names and paths
        LOGGER.error("%s", error)
        sentence = "The database is not available; tell the operator of this desk."
    return error_response(request, status, sentence)


@writes_router.post("/sign-in")
def post_sign_in(
    request: Request, response: Response, context: Context, _: CheckedForm, body: bodies.SignIn
) -> bodies.Done:
    """Sign in; the browser's previous session ends, against session fixation."""
    address = request.client.host if request.client else ""
    person = authenticate(context.judgements.store.ledger(), body.name, body.token)
    if person is None:
        wait = context.attempts.note_failure(address, body.token)
        context.log.write("sign-in-limited" if wait else "sign-in-failed", name=body.name, address=address)
        if wait:
            sentence = f"Too many failed attempts; try again in {max(1, round(wait / 60))} min."
            raise HTTPException(429, sentence, headers={"Retry-After": str(math.ceil(wait))})
        LOGGER.warning("failed sign-in as %r from %s", body.name[:64], address)
        raise HTTPException(401, "This name and token do not match; ask for a new token.")
    context.sessions.end(request.cookies.get(context.cookie, ""))
    context.set_cookie(response, context.cookie, context.sessions.start(person))
    context.log.write("sign-in", who=person.name, address=address)
    return bodies.Done(go="/")


@writes_router.post("/sign-out")
def post_sign_out(request: Request, response: Response, caller: SignedInWrite) -> bodies.Done:
    """Sign out: end the session and delete its cookie."""
    context = caller.context
    context.sessions.end(request.cookies.get(context.cookie, ""))
    response.delete_cookie(context.cookie, secure=context.is_secure, httponly=True, samesite="strict")
    return bodies.Done(go="/sign-in")


@writes_router.post("/sign-out-everywhere")
def post_sign_out_everywhere(caller: SignedInWrite) -> bodies.Done:
    """End all sessions of the caller, in every browser."""
    sign_out_everywhere(caller.context.judgements.store, caller.person.name, caller.person.name)
    caller.context.log.write("sign-out-everywhere", who=caller.person.name)
    return bodies.Done(go="/sign-in")


@writes_router.post("/next")
def post_next(caller: SignedInWrite) -> bodies.Done:
    """Take the next assignment, if there is one."""
    judgements = caller.context.judgements
    held = judgements.next_assignment(caller.person)
    if held is not None:
        media.prepare_items(caller.context, [judgements.item(held.item)])
    return bodies.Done(go="/" if held is None else "/task")


@writes_router.post("/watched")
def post_watched(caller: SignedInWrite, body: bodies.WatchedBody) -> bodies.Watched:
    """Record what was played; refused if it was not sent, or cannot have been played in this time."""
    context, person = caller.context, caller.person
    sent = media.sent_spans(caller, body.item, body.part)
    if not sent:
        raise HTTPException(403, "This footage was not sent to you, so you cannot have played it.")
    played, parts = (media.clip_to_video_spans(context, body.item, body.part, each) for each in (body.spans, sent))
    return bodies.Watched(spans=context.judgements.note_watched(person, body.item, played, sent=parts))


@writes_router.post("/skip")
def post_skip(caller: SignedInWrite, body: bodies.SkipBody) -> bodies.Done:
    """Give an assignment back with a reason."""
    caller.context.judgements.skip(caller.person, body.item, body.reason)
    return post_next(caller)


@writes_router.post("/verification")
def post_verification(caller: SignedInWrite, body: bodies.VerificationBody) -> bodies.Done:
    """Stage 2: accept an item with its intervals, or reject it with a reason."""
    judgements = caller.context.judgements
    kind = body.verdict or ("reject" if body.reason else "accept")
    verdict = Verdict(kind, body.evidence, body.answer, body.reason, body.comment)
    judgements.verify(caller.person, body.item, verdict, revision=body.revision)
    media.prepare_items(caller.context, [judgements.item(body.item)])
    return post_next(caller)


@writes_router.post("/answer")
def post_answer(caller: SignedInWrite, body: bodies.AnswerBody) -> bodies.Done:
    """Stage 3: answer from a partial evidence set."""
    caller.context.judgements.answer_without(
        caller.person, body.item, body.left_out, answer=body.answer, revision=body.revision
    )
    return post_next(caller)


@writes_router.post("/settlement")
def post_settlement(caller: SignedInWrite, body: bodies.SettlementBody) -> bodies.Done:
    """Stage 5: settle a disagreement."""
    judgements = caller.context.judgements
    judgements.settle(caller.person, **body.model_dump())
    media.prepare_items(caller.context, [judgements.item(body.item)])
    return bodies.Done(go="/")


@writes_router.post("/undo")
def post_undo(caller: SignedInWrite, body: bodies.ItemBody) -> bodies.Done:
    """Undo the caller's newest judgement of an item."""
    caller.context.judgements.undo(caller.person, body.item)
    return bodies.Done(go="/")


@writes_router.post("/invite")
def post_invite(caller: OperatorWrite, body: bodies.InviteBody) -> bodies.Invited:
    """Invite an annotator, or issue a new token that ends the old one."""
    try:
        token = invite(caller.context.judgements.store, body.name, Role(body.role))
    except InputError as error:
        raise HTTPException(422, str(error)) from None
    caller.context.log.write("invite", who=caller.person.name, name=body.name, role=body.role)
    return bodies.Invited(name=body.name, token=token)


@writes_router.post("/revoke")
def post_revoke(caller: OperatorWrite, body: bodies.PersonBody) -> bodies.Done:
    """End an annotator's access."""
    revoke(caller.context.judgements.store, body.name)
    caller.context.log.write("access-ended", who=caller.person.name, name=body.name)
    return bodies.Done(go="/")


@writes_router.post("/end-sessions")
def post_end_sessions(caller: OperatorWrite, body: bodies.PersonBody) -> bodies.Done:
    """Sign an annotator out everywhere."""
    sign_out_everywhere(caller.context.judgements.store, body.name, caller.person.name)
    caller.context.log.write("access-ended", who=caller.person.name, name=body.name)
    return bodies.Done(go="/")


@writes_router.post("/release")
def post_release(caller: OperatorWrite, body: bodies.ReleaseBody) -> bodies.Done:
    """Return an annotator's assignment to the queue."""
    queue = caller.context.judgements.queue
    for held, who, _ in queue.held():
        if who == body.who and held.item == body.item:
            queue.release(held, who, by=caller.person.name, reason="released by the operator")
            return bodies.Done(go="/")
    raise HTTPException(409, f"{body.who} no longer holds {body.item}.")


@writes_router.post("/assign")
def post_assign(caller: OperatorWrite, body: bodies.AssignBody) -> bodies.Done:
    """Give an item to an annotator by name."""
    context, operator = caller.context, caller.person.name
    held = context.judgements.queue.assign(body.item, body.who, by=operator, instead_of=body.instead_of)
    media.prepare_items(context, [context.judgements.item(held.item)])
    context.log.write("assign", who=operator, name=body.who, item=body.item, instead_of=body.instead_of)
    return bodies.Done(go="/")
