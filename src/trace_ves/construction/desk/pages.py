"""The pages of the desk and their routes. Templates escape every value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markdown_it import MarkdownIt
from markupsafe import Markup

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.desk.context import Context, SignedIn, SignedInRequest
from trace_ves.construction.desk.media import Id
from trace_ves.construction.export import accepted_items
from trace_ves.construction.judged_item import (
    Evidence,
    JudgedItem,
    evidence_to_json,
    judged_item,
    list_items,
    mean_iou,
    merge_intervals,
)
from trace_ves.construction.judging import Judgements
from trace_ves.construction.ledger import JUDGEMENT_SLOTS, Ledger, LedgerEntry, Stage
from trace_ves.construction.next_steps import next_steps
from trace_ves.construction.people import Role, active_names, list_people, new_secret
from trace_ves.construction.reports import closure_statement, funnel_table, list_facts, make_report
from trace_ves.core.interval import union
from trace_ves.core.jsonl import dump_line
from trace_ves.web.views import render

router = APIRouter(default_response_class=HTMLResponse)

JUDGEMENT_NAMES: Final = {
    "verification": "visual verification",
    "without": "leave-one-out",
    "settlement": "adjudication",
    "skip": "skipped",
}


@dataclass(frozen=True, slots=True)
class Day:
    """An annotator's work today (UTC)."""

    judged: int
    hours: float

    @property
    def pace(self) -> float | None:
        """Judgements per hour of work; None in the first minute."""
        return self.judged / self.hours if self.hours >= 1 / 60 else None


def list_judgements(ledger: Ledger) -> list[LedgerEntry]:
    """Every judgement, including undone ones."""
    return [each for each in ledger.entries if each.slot.startswith(JUDGEMENT_SLOTS) and each.undoes is None]


def own_entries(ledger: Ledger, who: str) -> list[LedgerEntry]:
    """An annotator's current judgements, oldest first."""
    mine = [each for each in list_judgements(ledger) if each.who == who]
    return [each for each in mine if each in ledger.slot(each.subject, each.slot).entries[-1:]]


def own_judgements(judgements: Judgements, ledger: Ledger, who: str) -> list[dict[str, Any]]:
    """An annotator's current judgements for their list, newest first."""
    return [
        {
            "item": entry.subject,
            "question": judged_item(ledger, entry.subject).proposal.text,
            "stage": JUDGEMENT_NAMES[entry.slot.partition("/")[0]],
            "verdict": verdict_text(entry.slot.partition("/")[0], entry.after or {}),
            "at": entry.at,
            "minutes": entry.seconds / 60,
            "can_undo": not judgements.why_no_undo(ledger, entry),
        }
        for entry in reversed(own_entries(ledger, who))
    ]


def verdict_text(kind: str, value: Mapping[str, Any]) -> str:
    """Describe a judgement."""
    if kind == "skip":
        return str(value["reason"])
    if kind == "without":
        return "do not decide" if value["answer"] is None else f"decide {value['answer']}"
    is_kept = value["keep"] if kind == "settlement" else value["accepted"]
    if not is_kept:
        return f"{'unsure' if value.get('unsure') else 'rejected'}: {value['reason']}"
    count = len(value["evidence"])
    outcome = "kept" if kind == "settlement" else "accepted"
    answer = f", answer {value['answer']}" if value.get("answer") else ""
    return f"{outcome} with {count} intervals{answer}" if count else outcome


def today(ledger: Ledger, who: str, now: float) -> Day:
    """An annotator's work since midnight UTC, including undone judgements."""
    midnight = now - now % 86400
    mine = [each for each in list_judgements(ledger) if each.who == who and each.at >= midnight]
    return Day(len(mine), sum(each.seconds for each in mine) / 3600)


RECENT: Final = 12  # judgements listed on the start page


def _render(caller: SignedInRequest, template: str, **values: Any) -> str:
    return render(template, csrf=caller.csrf, person=caller.person, **values)


@router.get("/sign-in")
def sign_in(request: Request, context: Context) -> Response:
    """Show the sign-in page. Its CSRF token is also in a cookie, so the server stores nothing about visitors."""
    token = request.cookies.get(context.form_cookie) or new_secret()
    response = HTMLResponse(render("desk/sign_in.html", csrf=token, person=None))
    context.set_cookie(response, context.form_cookie, token)
    return response


@router.get("/")
def home(caller: SignedIn) -> str:
    """Show the queue, the open disagreements, or the operator's page."""
    if caller.person.role is Role.OPERATOR:
        return _admin(caller)
    judgements, person = caller.context.judgements, caller.person
    ledger = judgements.store.ledger()
    is_adjudicator = person.role is Role.ADJUDICATOR
    disputes = [(judged, judged.state.dispute) for judged in list_items(ledger) if judged.state.dispute]
    own = own_judgements(judgements, ledger, person.name)
    return _render(
        caller,
        "desk/home.html",
        is_adjudicator=is_adjudicator,
        task=judgements.queue.current(person.name),
        kept_hours=judgements.settings.seat_hours,
        left=0 if is_adjudicator else judgements.queue.count_items(person.name),
        disputes=disputes if is_adjudicator else [],
        day=today(ledger, person.name, judgements.store.clock()),
        recent=own[:RECENT],
        judged=len(own),
    )


@router.get("/judgements")
def judgements(caller: SignedIn) -> str:
    """List the caller's judgements."""
    own = own_judgements(caller.context.judgements, caller.context.judgements.store.ledger(), caller.person.name)
    return _render(caller, "desk/judgements.html", own=own)


@router.get("/guidelines")
def guidelines(caller: SignedIn) -> str:
    """Show the guidelines for annotators from the build's folder, as Markdown without HTML."""
    text = MarkdownIt("commonmark", {"html": False}).enable("table").render(caller.context.project.guidelines())
    safe = Markup(text)  # noqa: S704  the renderer escapes everything that is not Markdown
    return _render(caller, "desk/guidelines.html", guidelines=safe)


@router.get("/task")
def task(caller: SignedIn) -> Response:
    """Show the caller's assignment."""
    held = caller.context.judgements.queue.current(caller.person.name)
    if held is None:
        return RedirectResponse("/", 303)
    return HTMLResponse((_verification if held.stage is Stage.VERIFICATION else _partial)(caller, held))


def _verification(caller: SignedInRequest, task: Assignment) -> str:
    judgements = caller.context.judgements
    judged = judgements.item(task.item)
    revision = judgements.store.ledger().slot(task.item, f"verification/{caller.person.name}").revision
    proposal = judged.proposal
    return _render(
        caller,
        "desk/verify.html",
        item=task.item,
        proposal=proposal,
        letters=proposal.question(task.item).letters,
        undo_item=_undo_item(caller),
        data=_data(judged, proposal.evidence, judgements.watched(caller.person, task.item), revision=revision),
    )


def _partial(caller: SignedInRequest, task: Assignment) -> str:
    """The page of a partial set. It does not reveal the hidden interval, nor how many intervals there are."""
    judgements = caller.context.judgements
    judged = judgements.item(task.item)
    left_out = task.left_out or 0
    revision = judgements.store.ledger().slot(task.item, f"without/{caller.person.name}/{left_out}").revision
    question = judged.proposal.question(task.item)
    parts = [(part, span) for part, span in enumerate(judged.partial_evidence) if part != left_out]
    return _render(
        caller,
        "desk/answer.html",
        item=task.item,
        question=question,
        left_out=left_out,
        parts=parts,
        undo_item=_undo_item(caller),
        data={
            "item": task.item,
            "revision": revision,
            "left_out": left_out,
            "clips": [{"part": part, "span": [span.start, span.end]} for part, span in parts],
            "watched": judgements.watched(caller.person, task.item),
        },
    )


def _undo_item(caller: SignedInRequest) -> str:
    """The item of the caller's newest judgement; empty if it cannot be undone."""
    judgements = caller.context.judgements
    ledger = judgements.store.ledger()
    newest = own_entries(ledger, caller.person.name)[-1:]
    return newest[0].subject if newest and not judgements.why_no_undo(ledger, newest[0]) else ""


@router.get("/dispute")
def dispute(caller: SignedIn, item: Id) -> Response:
    """Show both sides of a disagreement to an adjudicator."""
    caller.person.require(Role.ADJUDICATOR)
    judged = caller.context.judgements.item(item)
    disagreement = judged.state.dispute
    if disagreement is None:
        return RedirectResponse("/", 303)
    caller.context.judgements.note_watched(caller.person, item, (), sent=())  # their time begins here
    final = disagreement.evidence  # empty unless the disagreement is about sufficiency
    verdicts = {} if final else judged.verifications
    accepted = {who: verdict.evidence for who, verdict in verdicts.items() if verdict.accepted}
    both = [*accepted.values()] if len(accepted) == 2 else []
    middle = merge_intervals(*both) if both and len(both[0]) == len(both[1]) else ()
    page = _render(
        caller,
        "desk/settle.html",
        item=item,
        dispute=disagreement,
        proposal=judged.proposal,
        letters=judged.proposal.question(item).letters,
        verdicts=verdicts,
        answers=_partial_answers(judged, final) if final else {},
        iou=mean_iou(*both) if both else 0.0,
        union=union((*both[0], *both[1])) if both else (),
        middle=middle,
        data=_data(
            judged,
            middle or next(iter(accepted.values()), final),
            caller.context.judgements.watched(caller.person, item),
            about=list(disagreement.about),
            fixed=bool(final),
            sides=[{"name": who, "spans": evidence_to_json(evidence)} for who, evidence in accepted.items()],
        ),
    )
    return HTMLResponse(page)


def _partial_answers(judged: JudgedItem, evidence: Evidence) -> dict[str, dict[int, str | None]]:
    """The answers of annotators and model about each partial set; None if its clips do not decide."""
    answers = {
        who: {left_out: each.answer for left_out, each in sorted(mine.items())}
        for who, mine in judged.answers_about(evidence).items()
    }
    probes = judged.probes_about(evidence).items()
    model = {left_out: judged.proposal.answer if probe.determines else None for left_out, probe in probes}
    return answers | {"the model": model}


@router.get("/status")
def status(caller: SignedIn) -> str:
    """Show the progress of the build to operators; annotators must not see what others judged."""
    caller.person.require(Role.OPERATOR)
    build = caller.context.judgements
    report = make_report(build.store.ledger(), build.settings)
    return _render(
        caller,
        "desk/status.html",
        table=funnel_table(report),
        facts=list_facts(report),
        closure=closure_statement(report),
    )


@router.get("/export")
def export(caller: SignedIn) -> Response:
    """Send the accepted items as bench lines, without their videos, to an operator."""
    caller.person.require(Role.OPERATOR)
    items = accepted_items(caller.context.judgements.store.ledger())
    return Response(b"".join(dump_line(item.to_json()) for item in items), media_type="application/x-ndjson")


def _data(judged: JudgedItem, spans: Evidence, watched: list[list[float]], **more: Any) -> dict[str, Any]:
    """The data for the scripts of a page with a player; `spans` are the initial intervals."""
    proposal = judged.proposal
    player = {"id": judged.id, "hasVideo": True, "duration": proposal.duration, "supplied": [], "stages": []}
    intervals = {
        "item": judged.id,
        "evidence": evidence_to_json(proposal.evidence),
        "spans": evidence_to_json(spans),
        "rationales": list(proposal.rationales),
        "answer": proposal.answer,
        "watched": watched,
    }
    return player | intervals | more


def _admin(caller: SignedInRequest) -> str:
    """Render the operator's page: next steps, people, assignments, stuck items."""
    judgements = caller.context.judgements
    queue, ledger, now = judgements.queue, judgements.store.ledger(), judgements.store.clock()
    report = make_report(ledger, judgements.settings)
    held = queue.held()
    entries = list_judgements(ledger)
    rows = [
        {
            "person": person,
            "active_at": queue.exposures.active_at.get(person.name, 0.0),
            "judged": sum(each.who == person.name for each in entries),
            "last_day": sum(each.who == person.name and each.at > now - 86400 for each in entries),
            "record": report.annotators.get(person.name),
            "holds": [(assignment, since) for assignment, who, since in held if who == person.name],
        }
        for person in list_people(ledger)
    ]
    holders = {who for _, who, _ in held}
    return _render(
        caller,
        "desk/admin.html",
        rows=rows,
        stuck=queue.stuck(),
        waiting=[
            judged.id
            for judged in list_items(ledger)
            if judged.state.waits_at in {Stage.VERIFICATION, Stage.LEAVE_ONE_OUT}
        ],
        free=[name for name in active_names(ledger, Role.ANNOTATOR) if name not in holders],
        holders=sorted(holders),
        steps=next_steps(ledger, queue, str(caller.context.project.folder)),
        report=report,
        last_day=sum(each.at > now - 86400 for each in entries),
        seat_hours=judgements.settings.seat_hours,
    )
