"""The pages of the desk as HTML, from values; everything is escaped by the templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.adjudication import sides
from trace_ves.construction.assignments import evidence_of
from trace_ves.construction.judging import JUDGEMENTS
from trace_ves.construction.people import Role
from trace_ves.construction.report_table import facts, funnel_table
from trace_ves.construction.reports import closure_statement, report
from trace_ves.construction.stages import Stage, human_slot, verification_slot
from trace_ves.construction.visual_verification import evidence_to_json, mean_iou, merged, union_of
from trace_ves.web.views import render

if TYPE_CHECKING:
    from trace_ves.construction.assignments import Assignment
    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.visual_verification import Evidence
    from trace_ves.web.desk.context import SignedInRequest

RECENT: Final = 12
"""Own judgements that the first page lists."""
STAGE_NAMES: Final = {
    "verification": "visual verification",
    "without": "leave-one-out",
    "settlement": "adjudication",
    "skip": "skipped",
}


def sign_in_page(csrf: str) -> str:
    """Where one signs in."""
    return render("desk/sign_in.html", csrf=csrf, person=None)


def home_page(caller: SignedInRequest) -> str:
    """The queue of an annotator, or the disagreements that wait for an adjudicator."""
    desk, person = caller.context.desk, caller.person
    ledger = desk.store.ledger()
    indexed = desk.items.all(ledger)
    mine = [
        entry
        for entry in ledger.entries
        if entry.who == person.name and entry.slot.startswith(JUDGEMENTS) and entry.undoes is None
    ]
    open_ones = [entry for entry in mine if entry in ledger.slot(entry.subject, entry.slot).standing[-1:]]
    recent = [
        {
            "item": entry.subject,
            "at": entry.at,
            "stage": STAGE_NAMES[entry.slot.partition("/")[0]],
            "can_undo": not desk.why_no_undo(ledger, entry),
        }
        for entry in reversed(open_ones[-RECENT:])
    ]
    disputes = [(judged, standing.dispute) for judged, standing in indexed if standing.dispute]
    return render(
        "desk/home.html",
        csrf=caller.csrf,
        person=person,
        is_adjudicator=person.role is Role.ADJUDICATOR,
        task=desk.assignment(person),
        disputes=disputes if person.role is Role.ADJUDICATOR else [],
        recent=recent,
        judged=len({entry.subject for entry in open_ones}),
    )


def task_page(caller: SignedInRequest, task: Assignment) -> str:
    """The one task that an annotator has open."""
    return _verification(caller, task) if task.stage is Stage.VERIFICATION else _partial(caller, task)


def _verification(caller: SignedInRequest, task: Assignment) -> str:
    desk = caller.context.desk
    judged, _ = desk.item(task.item)
    revision = desk.store.ledger().slot(task.item, verification_slot(caller.person.name)).revision
    proposal = judged.proposal
    return render(
        "desk/verify.html",
        csrf=caller.csrf,
        person=caller.person,
        item=task.item,
        proposal=proposal,
        letters=proposal.question(task.item).letters,
        data=_data(judged, proposal.evidence, desk.watched(caller.person, task.item), revision=revision),
    )


def _partial(caller: SignedInRequest, task: Assignment) -> str:
    """Nothing of the interval that is left out is on this page: neither its time nor its rationale, nor that it is one.

    How many intervals there are would answer a question that counts.
    """
    desk = caller.context.desk
    judged, standing = desk.item(task.item)
    left_out = task.left_out or 0
    revision = desk.store.ledger().slot(task.item, human_slot(caller.person.name, left_out)).revision
    question = judged.proposal.question(task.item)
    parts = [(part, span) for part, span in enumerate(evidence_of(judged, standing)) if part != left_out]
    return render(
        "desk/answer.html",
        csrf=caller.csrf,
        person=caller.person,
        item=task.item,
        question=question,
        left_out=left_out,
        parts=parts,
        data={
            "item": task.item,
            "revision": revision,
            "left_out": left_out,
            "clips": [{"part": part, "span": [span.start, span.end]} for part, span in parts],
            "watched": desk.watched(caller.person, task.item),
        },
    )


def dispute_page(caller: SignedInRequest, item: str) -> str | None:
    """A disagreement side by side; None where there is none about this item."""
    judged, standing = caller.context.desk.item(item)
    dispute = standing.dispute
    if dispute is None:
        return None
    found = sides(judged, dispute)
    accepted = [side.verdict.evidence for side in found if side.verdict and side.verdict.accepted]
    both = accepted if len(accepted) == 2 else []
    alike = bool(both) and len(both[0]) == len(both[1])
    start = merged(*both) if alike else accepted[0] if accepted else dispute.evidence
    return render(
        "desk/settle.html",
        csrf=caller.csrf,
        person=caller.person,
        item=item,
        dispute=dispute,
        proposal=judged.proposal,
        letters=judged.proposal.question(item).letters,
        sides=found,
        iou=mean_iou(*both) if both else 0.0,
        union=union_of(*both) if both else (),
        middle=merged(*both) if alike else (),
        data=_data(
            judged,
            start,
            caller.context.desk.watched(caller.person, item),
            about=list(dispute.about),
            fixed=bool(dispute.evidence),
            sides=[
                {"name": side.name, "spans": evidence_to_json(side.verdict.evidence)}
                for side in found
                if side.verdict and side.verdict.accepted
            ],
        ),
    )


def status_page(caller: SignedInRequest) -> str:
    """The funnel and what is guaranteed, the same numbers as `build status`."""
    desk = caller.context.desk
    found = report(desk.store.ledger(), desk.items, desk.settings)
    return render(
        "desk/status.html",
        csrf=caller.csrf,
        person=caller.person,
        table=funnel_table(found),
        facts=facts(found),
        closure=closure_statement(found),
    )


def _data(judged: JudgedItem, spans: Evidence, watched: list[list[float]], **more: Any) -> dict[str, Any]:
    """What the scripts of a page with a player need to know; `spans` are the intervals to begin with."""
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
